"""The chat view: the controls, the conversation turn by turn, the box, and the opened passage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.jobs.answers import ChatJob
from ragstream_app.page.panels import answer, chat_state, citations, model_choice, passage
from ragstream_app.page.panels.chat_state import Entry
from ragstream_app.page.panels.history import choice
from ragstream_app.page.panels.retrieval import help_of
from ragstream_app.page.panels.shared import (
    MODEL_KEY,
    PROJECTS_KEY,
    SETTING,
    given,
    show_error,
    shown_errors,
)
from ragstream_core.answers.citations import numbered, words_of

if TYPE_CHECKING:
    from ragstream_core.ports import ChatModel


MARKERS_KEY = "chat_markers"
MOST_CITED = 12
STATUS = {
    "partial": "broke off: this is what came",
    chat_state.UNANSWERED: "The model gave no answer. Ask again.",
}


def draw(entry: Entry, *, markers: bool) -> None:
    """Draw a turn.

    Args:
        entry: The turn.
        markers: Show the answer with its citation markers.
    """
    with st.chat_message("user"):
        st.text(entry.question)
    with st.chat_message("assistant"):
        if entry.doubt:
            st.warning(literal(entry.doubt))
        if entry.text:
            clean = numbered(entry.marked, entry.issued, entry.citations)
            answer.words(entry.marked if markers else clean)
        citations.unsure(entry.citations)
        if entry.status in STATUS:
            st.text(STATUS[entry.status])
        for warning in entry.warnings:
            st.text(f"warning: {warning}")
        _cited(entry)
        _foot(entry)


def _cited(entry: Entry) -> None:
    """Draw what the answer cites; a known citation opens its passage."""
    if not entry.citations:
        return
    with st.container(horizontal=True, gap="small"):
        for number, citation in enumerate(entry.citations[:MOST_CITED]):
            name = citation.where().rpartition("/")[2]
            mark = "✓" if citation.verified else "⚠ unverified:"
            st.button(
                f"{number + 1} {mark} {literal(name)}{' ▸' * _is_open(entry, number)}",
                key=f"chat cites {entry.id} {number}",
                help=literal(f"{citation.source} [{citation.id}] {_words(entry, number)}"),
                disabled=not citation.known,
                on_click=_open,
                args=(entry.id, number),
            )
        more = len(entry.citations) - MOST_CITED
        if more > 0:
            st.text(f"and {more:,} more")


def _words(entry: Entry, number: int) -> str:
    citation = entry.citations[number]
    if not citation.verified:
        return citation.reason
    return " ".join(citation.snippet.split())


def _foot(entry: Entry) -> None:
    """Draw where the answer comes from, and the way into the Prompt view."""
    facts = [entry.origin, entry.model, f"prompt {entry.prompt_key[:12]}" * bool(entry.prompt_key)]
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.text(" · ".join(fact for fact in facts if fact), width="content")
        st.button(
            "Open in Prompt",
            key=f"chat opens {entry.id}",
            help="Puts the question into the Prompt view, to look at its prompt stage by stage.",
            type="tertiary",
            on_click=chat_state.open_in_prompt,
            args=(entry.question,),
        )


def _is_open(entry: Entry, number: int) -> bool:
    return bool(st.session_state.get(chat_state.OPEN_KEY) == (entry.id, number))


def _open(name: str, number: int) -> None:
    """Open a citation, or close the one that is open."""
    state = st.session_state
    is_open = state.get(chat_state.OPEN_KEY) == (name, number)
    state[chat_state.OPEN_KEY] = None if is_open else (name, number)


CHOSEN_KEY = "chat_model"
SWITCHES = (("Memory: cache and digest", "memory.enabled"), ("Answer cache", "memory.cache"))
NUMBERS = (
    ("Most tokens of memory", "memory.max_tokens"),
    ("Most characters of memory", "memory.max_chars"),
    ("Most memories", "memory.top_k"),
)


def show_controls() -> None:
    """Draw one row of controls."""
    asked, expected = model_choice.model(), model_choice.expected()
    who, memory, markers, told = st.columns([3, 2, 2, 7], gap="small", vertical_alignment="center")
    with who.popover(literal(model_choice.chosen() or "no model"), width="stretch"):
        _model(asked)
    with memory.popover(f"Memory {'on' if _memory() else 'off'}", width="stretch"):
        _switches()
    markers.toggle(
        "Markers",
        key=MARKERS_KEY,
        help="Shows answers as the model wrote them, with their citation markers.",
    )
    with told:
        _told(asked, expected)


def _model(asked: ChatModel) -> None:
    """Draw the choice of the model; the Answer panel has the same one."""
    state = st.session_state
    mine = state.get(CHOSEN_KEY)
    if mine and MODEL_KEY not in state:
        state[MODEL_KEY] = mine
    state[CHOSEN_KEY] = model_choice.chosen() or None
    listed = state.get(model_choice.LISTED_KEY, [])
    st.selectbox(
        "Model",
        sorted({*listed, *filter(None, (state[CHOSEN_KEY],))}),
        key=CHOSEN_KEY,
        accept_new_options=True,
        placeholder="List the models, or type a name",
        on_change=_on_model,
    )
    st.button(
        "List models",
        key="chat list models",
        help=f"Asks {asked.host or 'the provider'} which models it has.",
        on_click=model_choice.on_list,
        width="stretch",
    )


def _on_model() -> None:
    st.session_state[MODEL_KEY] = st.session_state[CHOSEN_KEY]


def _memory() -> bool:
    return bool(st.session_state.get(f"{SETTING}memory.enabled", given("memory.enabled")))


def _switches() -> None:
    """Draw what memory does; these are settings, they hold for the Prompt view as well."""
    for label, name in (*SWITCHES, *NUMBERS):
        key = SETTING + name
        # set anew each time: a closed popover takes in no value that was set before it opened
        st.session_state[key] = st.session_state.get(key, given(name))
        if (label, name) in SWITCHES:
            st.toggle(label, key=key, help=help_of(name))
        else:
            least = 1 if name.endswith("top_k") else 0
            st.number_input(label, min_value=least, key=key, help=help_of(name))


def _told(asked: ChatModel, expected: str) -> None:
    """Say where questions go and what one may take, or that there is no model."""
    hindrance = model_choice.hindrance(asked)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if hindrance:
            st.badge("no model", color="gray")
            st.text("Answers are extracts of the documents.", width="content")
            return
        if asked.is_local:
            st.badge("this machine", color="green")
        else:
            st.badge("another machine", color="orange")
            st.text(f"What prompts show goes to {asked.host}.", width="content")
        st.text(expected, width="content")


# Of the view; the conversation is drawn while it is open.
NAME = "Chat"
# Without the style sheet, which makes it as high as the window leaves room for.
LOG_HEIGHT = 440
MOST = 20
REFRESH_S = 0.3
WAITING = {"": "searching …", "model": "answering …", "extract": "quoting …"}


def show() -> None:
    """Draw the view."""
    chat_state.take_in_answer()
    with shown_errors():  # wrong settings of the provider, or of the other settings
        show_controls()
    is_open = st.session_state.get(chat_state.VIEW_KEY) == NAME  # else drawn unseen, and twice
    entries = chat_state.shown() if is_open else []
    opened = _opened(entries)
    log, side = st.columns([3, 2], gap="medium") if opened else (st.container(), None)
    with log:
        if is_open:
            _log(entries)
        st.chat_input(
            _placeholder(),
            key=chat_state.INPUT_KEY,
            on_submit=chat_state.on_submit,
            disabled=not st.session_state[PROJECTS_KEY] or chat_state.is_busy(),
        )
    if opened and side is not None:
        with side.container(height=LOG_HEIGHT, border=False, key="chat_passage"):
            _passage(*opened)


def _log(entries: list[Entry]) -> None:
    """Draw the newest turns, then what is on its way."""
    with st.container(height=LOG_HEIGHT, border=False, key="chat_log", autoscroll=True):
        found, broken = chat_state.job(), chat_state.failed()
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
        if not projects and choice.listing().turns:
            st.text("Ask what was said in your conversations.")
            return
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
    found = chat_state.job()
    if found is None or not found.running:
        st.rerun()
        return
    if found.text:
        answer.words(found.text)
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
            show_error(found.error)
        if is_kept:
            st.text("The question is kept without an answer.")
        if found.secrets:
            st.button(
                "Send it even though it seems to contain secrets",
                key="chat secrets",
                on_click=chat_state.ask,
                args=(found.question,),
                kwargs={"allow_secrets": True},
            )
        elif not chat_state.is_busy():
            st.button(
                "Ask again", key="chat again", on_click=chat_state.ask, args=(found.question,)
            )


def _placeholder() -> str:
    projects = st.session_state[PROJECTS_KEY]
    if not projects and choice.listing().turns:
        return "Ask about your conversations"
    if not projects:
        return "Choose a project in the sidebar first"
    lock = ", lock on" if st.session_state.get("lock") else ""
    kept = "" if choice.persisting() else ", nothing is kept"
    return f"Ask about {', '.join(projects)}{lock}{kept}"


def _opened(entries: list[Entry]) -> tuple[Entry, int] | None:
    """Return the answer and the number of the citation that is open."""
    name, number = st.session_state.get(chat_state.OPEN_KEY) or ("", 0)
    for entry in entries:
        if entry.id == name and number < len(entry.citations):
            return entry, number
    return None


def _passage(entry: Entry, number: int) -> None:
    citation = entry.citations[number]
    head, close = st.columns([5, 1], gap="small", vertical_alignment="center")
    head.text(citation.source)
    close.button("Close", key="chat close", on_click=_close, width="stretch")
    words = words_of(entry.marked, entry.issued).get(citation.id, ())
    passage.show(
        citation, entry.issued[citation.id], entry.prompt_key, words=words, keys="chat citation"
    )


def _close() -> None:
    st.session_state[chat_state.OPEN_KEY] = None
