"""The Prompt, its eight buttons, and what it may read; nothing runs without a click."""

from __future__ import annotations

import streamlit as st

from ragstream_app.desk import press, press_all
from ragstream_app.panels import files
from ragstream_app.panels.shared import (
    LOCK_KEY,
    PROMPT_KEY,
    SUPER_PROMPT_KEY,
    desk,
    report,
    request_now,
    workspace,
)
from ragstream_app.stage_text import stage_text
from ragstream_core.orchestration.chain import BUTTONS, CHAIN

PROMPT_HEIGHT = 390
PLACEHOLDER = """What do you want to know or have done?

Headers such as "## Task", "## Context" or "## Format" are understood; plain text is fine."""


def on_press(button: str) -> None:
    """Run the stages of one button, or of all; an error becomes a message, never a traceback."""
    report(None)
    try:
        with st.spinner(f"{button} …"):
            if button == "Run all":
                press_all(desk(), request_now(), workspace())
            else:
                taken = desk().request if button != BUTTONS[0] else None
                press(desk(), button, taken or request_now(), workspace())
    except Exception as error:  # the page's error boundary
        report(error)
    last = desk().last
    st.session_state[SUPER_PROMPT_KEY] = stage_text(last.prompt) if last else ""


def show() -> None:
    """Draw the column."""
    st.text_area("Prompt", key=PROMPT_KEY, height=PROMPT_HEIGHT, placeholder=PLACEHOLDER)
    for row in (BUTTONS[:4], BUTTONS[4:]):
        for column, button in zip(st.columns(4, gap="small"), row, strict=True):
            column.button(
                button,
                key=f"button {button}",
                help=" ".join(spec.summary for spec in CHAIN if spec.button == button),
                type="primary" if button == desk().next_button else "secondary",
                width="stretch",
                on_click=on_press,
                args=(button,),
            )
    everything, lock, choice = st.columns([1, 1, 2], gap="small", vertical_alignment="center")
    everything.button(
        "Run all",
        help="Presses the eight buttons in order.",
        width="stretch",
        on_click=on_press,
        args=("Run all",),
    )
    lock.toggle("Exact File Lock", key=LOCK_KEY, help="Only the injected files; no retrieval.")
    files.show(choice)
