"""What a tab shows, kept for the case that it is loaded again: projects, question, prompt, view.

The address of the page holds a random name of the tab, no word of a question. What it stands for is
in the memory of this process alone: nothing is written.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from ragstream_app.page.panels.chat_state import VIEW_KEY
from ragstream_app.page.panels.shared import PROJECTS_KEY, PROMPT_KEY, SESSION_KEY, desk

if TYPE_CHECKING:
    from ragstream_app.page.prompt_session import PromptSession

# Of the part of the address.
NAME = "tab"
KEYS = (PROJECTS_KEY, PROMPT_KEY, SESSION_KEY, VIEW_KEY)

# Tabs that are remembered; the one that was drawn longest ago goes first.
MOST = 50


@st.cache_resource  # type: ignore[untyped-decorator]
def _tabs() -> dict[str, dict[str, Any]]:
    return {}


def restore() -> None:
    """Show what this tab showed before it was loaded again; a new tab begins empty."""
    state = st.session_state
    if "desk" in state:
        return
    if kept := _tabs().get(st.query_params.get(NAME, "")):
        state.update(kept)
        state["desk"] = _copy(kept["desk"])
        job = desk().job
        if job is not None and not job.running:
            state["settled"] = job  # its error was told where it came
    st.query_params[NAME] = desk().id


def keep() -> None:
    """Remember what this tab shows."""
    state, tabs = st.session_state, _tabs()
    tabs.pop(desk().id, None)
    tabs[desk().id] = {key: state[key] for key in KEYS if key in state} | {"desk": desk()}
    for name in list(tabs)[:-MOST]:
        tabs.pop(name, None)


def _copy(kept: PromptSession) -> PromptSession:
    """Return a desk with the same steps; one whose press is at work is the same desk.

    A tab that was doubled in the browser goes on from here without changing the other one.
    """
    if kept.job is not None and kept.job.running:
        return kept
    return replace(kept, steps=dict(kept.steps), starting=threading.Lock())
