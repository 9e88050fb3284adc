"""What a click did, or why it could not, said next to it; and the bar of a background job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.jobs.background import BackgroundJob, T
from ragstream_app.page.panels.shared import show_problem, shown_errors
from ragstream_app.session import describe

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

    def tell(error: BaseException) -> None:
        st.session_state[_KEY] = (place, Notice(), describe(error))

    with shown_errors(tell):
        st.session_state[_KEY] = (place, act(), None)


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
        show_problem(problem)


EVERY_S = 0.5


def follow(job: BackgroundJob[T], *, about: str = "", stop: str = "") -> None:
    """Draw the bar of a job that runs; at its end the page is drawn again, once.

    Args:
        job: The job.
        about: What stands before its line.
        stop: Key of the button that stops it; empty: there is none.
    """
    st.fragment(_watch, run_every=EVERY_S)(job, about, stop)


def detail(job: BackgroundJob[T]) -> None:
    """Draw what is through of a job that runs and what waits; its end is seen by `follow`."""
    st.fragment(_detail, run_every=EVERY_S)(job)


def _detail(job: BackgroundJob[T]) -> None:
    if job.running and job.detail:
        st.text(job.detail)


def _watch(job: BackgroundJob[T], about: str, stop: str) -> None:
    if not job.running:
        st.rerun()
        return
    bar, press = st.columns([5, 1], gap="small", vertical_alignment="center") if stop else (st, st)
    bar.progress(job.fraction, text=f"{about}{job.line}")
    if stop:
        press.button("Stop", key=stop, on_click=job.stop, width="stretch")
