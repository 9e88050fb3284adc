"""The Super-Prompt as it stands after the newest step."""

from __future__ import annotations

import streamlit as st

from ragstream_app.panels.shared import SUPER_PROMPT_KEY, desk

SUPER_PROMPT_HEIGHT = 470  # ends where the second row of buttons ends


def show() -> None:
    """Show the evolving Super-Prompt and what is known about it."""
    st.text_area(
        "Super-Prompt",
        key=SUPER_PROMPT_KEY,
        height=SUPER_PROMPT_HEIGHT,
        placeholder="Each button shows here what its stage made of the prompt.",
    )
    step = desk().last
    if step is None:
        st.text("stage: raw")
        return
    tokens = step.prompt.extras.get("token_tree", {}).get("total", 0)
    facts = [f"stage: {step.prompt.stage}"]
    facts += [f"{tokens:,} tokens"] if tokens else []
    facts += [f"key {step.prompt_key[:12]}"] if step.prompt_key else []
    facts += [f"run {step.run_id[:8]}"] if step.run_id else []
    spent = sum(sum(one.timings_ms.values()) for one in desk().steps.values())
    facts += [f"{spent:,.0f} ms"]
    line, save = st.columns([3, 1], gap="small", vertical_alignment="center")
    line.text(" · ".join(facts))
    if step.prompt_key:
        name = f"super-prompt-{step.prompt_key[:12]}.md"
        save.download_button("Save", st.session_state[SUPER_PROMPT_KEY], name, width="stretch")
