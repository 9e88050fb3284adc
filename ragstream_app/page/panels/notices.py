"""Follows a background job of this tab: a bar, where it is, a button that stops it.

What a click did, or why it could not: said where the click was, as plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.panels.shared import show_message
from ragstream_app.session import describe

if TYPE_CHECKING:
    from ragstream_app.page.jobs.background import BackgroundJob


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


REFRESH_S = 0.5


def follow(found: BackgroundJob[Any], *, key: str) -> None:
    """Draw the bar of a job that runs; at its end the page is drawn again, once.

    Args:
        found: The job.
        key: Of the button that stops it.
    """
    st.fragment(_watch, run_every=REFRESH_S)(found, key)


def _watch(found: BackgroundJob[Any], key: str) -> None:
    if not found.running:
        st.rerun()
        return
    line, stop = st.columns([5, 1], gap="small", vertical_alignment="center")
    line.progress(min(found.fraction, 1.0), text=found.line)
    stop.button("Stop", key=key, on_click=found.stop, width="stretch")
