"""What a click did, or why it could not: said where the click was, as plain text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import streamlit as st

from ragstream_app.failures import describe
from ragstream_app.panels.markup import literal
from ragstream_app.panels.shared import show_message

_KEY = "notice"


class Notice(NamedTuple):
    """What is said after a click.

    Attributes:
        done: What happened; a line each.
        warnings: What to look at; a line each.
    """

    done: Sequence[str] = ()
    warnings: Sequence[str] = ()


def attempt(place: str, act: Callable[[], Notice]) -> None:
    """Do what a click asks for; what it says, or its error, is shown by `show`.

    Args:
        place: Where it is shown; the notice before it goes, wherever it was.
        act: Does it.
    """
    try:
        st.session_state[_KEY] = (place, act(), None)
    except Exception as error:  # the page's error boundary
        st.session_state[_KEY] = (place, Notice(), describe(error))


def show(place: str) -> None:
    """Show the newest notice if it belongs here."""
    where, notice, problem = st.session_state.get(_KEY, ("", Notice(), None))
    if where != place:
        return
    if notice.done:
        st.success("  \n".join(map(literal, notice.done)))
    if notice.warnings:
        st.warning("  \n".join(map(literal, notice.warnings)))
    if problem:
        show_message(problem)
