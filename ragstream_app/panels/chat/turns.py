"""One turn in the chat view: the question, the answer, what it cites, and what can be done."""

from __future__ import annotations

import streamlit as st

from ragstream_app.panels import answered
from ragstream_app.panels.chat import asking
from ragstream_app.panels.chat.entries import Entry
from ragstream_app.panels.markup import literal

MARKERS_KEY = "chat_markers"
MOST_CITED = 12
STATUS = {
    "partial": "broke off: this is what came",
    asking.UNANSWERED: "no answer came",
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
        if entry.text:
            answered.words(entry.marked if markers else entry.text)
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
            page = f" p. {citation.page_number}" if citation.page_number else ""
            name = f"{citation.source.rpartition('/')[2] or 'no source'}{page}"
            mark = "✓" if citation.verified else "unverified:"
            st.button(
                f"{mark} {literal(name)}",
                key=f"chat cites {entry.id} {number}",
                help=literal(f"{citation.source} [{citation.id}] {_words(entry, number)}"),
                type="primary" if _is_open(entry, number) else "secondary",
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
            on_click=asking.open_in_prompt,
            args=(entry.question,),
        )


def _is_open(entry: Entry, number: int) -> bool:
    return bool(st.session_state.get(asking.OPEN_KEY) == (entry.id, number))


def _open(name: str, number: int) -> None:
    """Open a citation, or close the one that is open."""
    state = st.session_state
    is_open = state.get(asking.OPEN_KEY) == (name, number)
    state[asking.OPEN_KEY] = None if is_open else (name, number)
