"""The chat view: the conversation, the box to write into, and the passage that was opened."""

from __future__ import annotations

import streamlit as st

from ragstream_app.failures import describe
from ragstream_app.jobs.chats import ChatJob
from ragstream_app.panels import answered, cited
from ragstream_app.panels.chat import asking, controls
from ragstream_app.panels.chat.entries import Entry
from ragstream_app.panels.chat.turns import MARKERS_KEY, draw
from ragstream_app.panels.conversation import choice
from ragstream_app.panels.shared import PROJECTS_KEY, show_message

NAME = "Chat"
"""Of the view; the conversation is drawn while it is open."""
LOG_HEIGHT = 440
"""Without the style sheet, which makes it as high as the window leaves room for."""
MOST = 20
REFRESH_S = 0.3
WAITING = {"": "searching …", "model": "answering …", "extract": "quoting …"}


def show() -> None:
    """Draw the view."""
    asking.settle()
    controls.show()
    is_open = st.session_state.get(asking.VIEW_KEY) == NAME  # else drawn for nobody, and twice
    entries = asking.shown() if is_open else []
    opened = _opened(entries)
    log, side = st.columns([3, 2], gap="medium") if opened else (st.container(), None)
    with log:
        if is_open:
            _log(entries)
        st.chat_input(
            _placeholder(),
            key=asking.INPUT_KEY,
            on_submit=asking.on_submit,
            disabled=not st.session_state[PROJECTS_KEY] or asking.is_busy(),
        )
    if opened and side is not None:
        with side.container(height=LOG_HEIGHT, border=False, key="chat_passage"):
            _passage(*opened)


def _log(entries: list[Entry]) -> None:
    """Draw the newest turns, then what is on its way."""
    with st.container(height=LOG_HEIGHT, border=False, key="chat_log", autoscroll=True):
        found, broken = asking.job(), asking.failed()
        if not entries and found is None:
            _empty()
            return
        if len(entries) > MOST:
            st.text(f"{len(entries) - MOST:,} earlier turns: Prompt, Conversation lists them.")
        markers = bool(st.session_state.get(MARKERS_KEY))
        for entry in entries[-MOST:]:
            draw(entry, markers=markers)
        if found is not None and found.running:
            _coming(found)
        elif broken is not None:
            _failure(broken, entries)


def _empty() -> None:
    """Say what to do first."""
    projects = st.session_state[PROJECTS_KEY]
    with st.chat_message("assistant"):
        if not projects:
            st.text("Choose a project in the sidebar, then ask what its documents say.")
            return
        st.text(f"Ask what the documents of {', '.join(projects)} say.")
        st.text(
            "Answers cite the passages they rest on; a click opens the passage. Files, lock, "
            "conversation and settings of the sidebar count here as well."
        )


def _coming(found: ChatJob) -> None:
    """Draw a question whose answer is on its way."""
    with st.chat_message("user"):
        st.text(found.question)
    with st.chat_message("assistant"):
        st.fragment(_watch, run_every=REFRESH_S)()


def _watch() -> None:
    """Show what has come so far; at the end draw the page again, once."""
    found = asking.job()
    if found is None or not found.running:
        st.rerun()
        return
    if found.text:
        answered.words(found.text)
    line, stop = st.columns([5, 1], gap="small", vertical_alignment="center")
    line.text("stopping …" if found.stopped else WAITING.get(found.origin, "answering …"))
    stop.button(
        "Stop", key="stop chat", on_click=found.stop, disabled=found.stopped, width="stretch"
    )


def _failure(found: ChatJob, entries: list[Entry]) -> None:
    """Say why the newest question has no answer, and offer what can be done."""
    is_kept = bool(entries) and entries[-1].question == found.question
    if not is_kept:
        with st.chat_message("user"):
            st.text(found.question)
    with st.chat_message("assistant"):
        if found.stopped:
            st.info("Stopped before the first word.")
        elif found.error is not None:
            show_message(describe(found.error))
        if is_kept:
            st.text("The question is kept without an answer.")
        if found.secrets:
            st.button(
                "Send it even though it seems to contain secrets",
                key="chat secrets",
                on_click=asking.ask,
                args=(found.question,),
                kwargs={"allow_secrets": True},
            )
        elif not asking.is_busy():
            st.button("Ask again", key="chat again", on_click=asking.ask, args=(found.question,))


def _placeholder() -> str:
    projects = st.session_state[PROJECTS_KEY]
    if not projects:
        return "Choose a project in the sidebar first"
    lock = ", lock on" if st.session_state.get("lock") else ""
    kept = "" if choice.persisting() else ", nothing is kept"
    return f"Ask about {', '.join(projects)}{lock}{kept}"


def _opened(entries: list[Entry]) -> tuple[Entry, int] | None:
    """Return the answer and the number of the citation that is open."""
    name, number = st.session_state.get(asking.OPEN_KEY) or ("", 0)
    for entry in entries:
        if entry.id == name and number < len(entry.citations):
            return entry, number
    return None


def _passage(entry: Entry, number: int) -> None:
    citation = entry.citations[number]
    head, close = st.columns([5, 1], gap="small", vertical_alignment="center")
    head.text(citation.source)
    close.button("Close", key="chat close", on_click=_close, width="stretch")
    cited.passage(citation, entry.issued, entry.prompt_key, keys="chat citation")


def _close() -> None:
    st.session_state[asking.OPEN_KEY] = None
