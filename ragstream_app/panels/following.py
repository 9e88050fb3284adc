"""Follows a background job of this tab: a bar, where it is, a button that stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

if TYPE_CHECKING:
    from ragstream_app.jobs.background import BackgroundJob

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
