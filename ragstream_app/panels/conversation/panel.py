"""The conversation: replies from outside, the turns kept so far, and what a prompt sees of them."""

from __future__ import annotations

import streamlit as st

from ragstream_app.panels.conversation import adopt, clearing, recent, reply, turns


def show() -> None:
    """Draw the panel."""
    left, right = st.columns([2, 3], gap="small")
    with left:
        reply.show()
    with right:
        now, bring, export, clear = st.columns(
            [5, 3, 3, 4], gap="small", vertical_alignment="center"
        )
        shown = now.toggle(
            "RECENT HISTORY",
            key="show_recent",
            help="Shows the newest turns as the next prompt would see them.",
        )
        with bring.popover("Adopt", width="stretch", help="Brings turns into a project."):
            adopt.show()
        with export.popover("Export", width="stretch"):
            turns.exports()
        with clear.popover("Clear history", width="stretch"):
            clearing.show()
        clearing.report()
        if shown:
            recent.show()
        turns.show()
