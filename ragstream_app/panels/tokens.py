"""Where the tokens of the finished prompt go: by block, and by the file they come from."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ragstream_app.panels.shared import desk, workspace
from ragstream_core.orchestration.chain import OPS
from ragstream_core.orchestration.inputs import inputs_of
from ragstream_core.prompting.compose import HISTORY_PREFIX, injected
from ragstream_core.prompting.reparse import is_edited
from ragstream_core.records import SuperPrompt


def show() -> None:
    """Draw the token tree of the newest step."""
    step = desk().last
    tree = step.prompt.extras.get("token_tree") if step else None
    if step is None or not tree:
        st.text("No finished prompt yet: Prompt Builder, or Run all, counts its tokens.")
        return
    budget = workspace().settings_for(inputs_of(step.prompt), OPS[-1]).prompt.budget_tokens
    total = int(tree["total"])
    st.progress(
        min(1.0, total / budget), text=f"{total:,} of {budget:,} tokens · {tree['counter']}"
    )
    blocks, sources = st.columns(2, gap="small")
    with blocks:
        table("block", [(str(b["name"]), int(b["tokens"])) for b in tree["blocks"]], total)
    with sources:
        table("file", by_file(step.prompt), total)


def by_file(prompt: SuperPrompt) -> list[tuple[str, int]]:
    """Return the tokens of each file that the prompt quotes, frames included, the largest first."""
    parts = [p for block in prompt.extras["token_tree"]["blocks"] for p in block.get("parts", ())]
    names = [str(part["name"]) for part in parts]
    if not is_edited(prompt):  # else: what the text still quotes, under the names that stand there
        homes = [f"❖ {'/'.join(row['home'])}" for row in injected(prompt)]
        chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
        shown = [chunks[i] for i in prompt.final_selection_ids if not i.startswith(HISTORY_PREFIX)]
        homes += [f"{chunk.meta['project']}/{chunk.source}" for chunk in shown]
        names[: len(homes)] = homes
    counts: dict[str, int] = {}
    for name, part in zip(names, parts, strict=True):
        counts[name] = counts.get(name, 0) + int(part["tokens"])
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def table(what: str, rows: list[tuple[str, int]], total: int) -> None:
    """Draw rows of a name and its tokens, with a bar each.

    Args:
        what: Heading of the names.
        rows: Names and tokens.
        total: Tokens of a full bar.
    """
    if not rows:
        st.text(f"No {what} has a part in it.")
        return
    shown: list[dict[str, Any]] = [
        {what: name, "tokens": tokens, "share": tokens / max(total, 1)} for name, tokens in rows
    ]
    st.dataframe(
        shown,
        hide_index=True,
        column_config={
            what: st.column_config.TextColumn(width=240),  # the longest name of a block in full
            "tokens": st.column_config.NumberColumn(format="localized", width=70),
            "share": st.column_config.ProgressColumn(format="percent", width=100),
        },
    )
