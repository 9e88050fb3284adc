"""The conversation: replies from outside, the turns kept so far, and what a prompt sees of them."""

from __future__ import annotations

import streamlit as st

from ragstream_app.panels import (
    conversation_adopt,
    conversation_clearing,
    conversation_recent,
    conversation_reply,
    conversation_turns,
)


def show() -> None:
    """Draw the panel."""
    left, right = st.columns([2, 3], gap="small")
    with left:
        conversation_reply.show()
    with right:
        recent, adopt, export, clear = st.columns(
            [5, 3, 3, 4], gap="small", vertical_alignment="center"
        )
        shown = recent.toggle(
            "RECENT HISTORY",
            key="show_recent",
            help="Shows the newest turns as the next prompt would see them.",
        )
        with adopt.popover("Adopt", width="stretch", help="Brings turns into a project."):
            conversation_adopt.show()
        with export.popover("Export", width="stretch"):
            conversation_turns.exports()
        with clear.popover("Clear history", width="stretch"):
            conversation_clearing.show()
        conversation_clearing.report()
        if shown:
            conversation_recent.show()
        conversation_turns.show()
