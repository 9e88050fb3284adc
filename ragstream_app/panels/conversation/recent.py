"""RECENT HISTORY on demand: the newest turns as the next prompt would show them (Layer G)."""

from __future__ import annotations

import streamlit as st

from ragstream_app.failures import describe
from ragstream_app.panels.shared import request_now, show_message, workspace

HEIGHT = 220


def show() -> None:
    """Draw the block, and what the person should know about it."""
    try:
        body, notes = block()
    except Exception as error:  # no project, no index: said here, the page goes on
        show_message(describe(error))
        return
    st.text("As the next prompt would show it, read from the journal now:")
    st.code(
        body or "(nothing)", language=None, wrap_lines=True, height=HEIGHT if body else "content"
    )
    for note in notes:
        st.text(note)


def block() -> tuple[str, tuple[str, ...]]:
    """Return the block and its notes; an empty prompt box does not matter.

    Raises:
        RagstreamError: As `Workspace.pin`.
    """
    from ragstream_core.build.history.memory import ConversationMemory

    inputs = workspace().pin(request_now(default="recent history"))
    found, notes = ConversationMemory(workspace(), inputs).rendered()
    return str(found.get("body", "")), notes
