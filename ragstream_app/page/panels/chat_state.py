"""The chat of this tab: its turns, the question on its way, and what is known of its answers.

The journal is the truth, so a cleared turn is gone from the view as well. What it does not keep of
an answer (warnings, cost, checked quotations) is known for those of this tab.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output.chat_entries import origin_line
from ragstream_app.page.jobs.answers import ChatJob
from ragstream_app.page.panels import model_choice
from ragstream_app.page.panels.history import choice
from ragstream_app.page.panels.shared import PROMPT_KEY, reported_errors, request_now
from ragstream_core.answers.citations import NOT_ISSUED, Citation, Issued, issued_by
from ragstream_core.answers.stream_buffer import clean_citation_tags
from ragstream_core.conversations.journal.records import SOURCES

if TYPE_CHECKING:
    from ragstream_core.conversations.sessions import HistoryTurn
    from ragstream_core.prompts.inputs import PromptRequest
    from ragstream_core.services.chat import ChatTurn


CHAT = SOURCES[0]


@dataclass(frozen=True, slots=True)
class Entry:
    """One question with its answer.

    Attributes:
        id: Of its turn; unique in the view.
        question: As it was asked.
        text: The answer without markers; empty where there is none.
        marked: The answer with them.
        status: ``complete``, ``partial``, ``refused`` or ``unanswered``.
        origin: Where the answer comes from, for people; empty for a model.
        citations: What it cites.
        issued: Citation id → what the prompt showed under it.
        prompt_key: Of its prompt; may be empty.
        model: Who answered; empty where that is not known.
        warnings: For people.
        doubt: Whether the documents answer at all; empty where they do, or it is not known.
    """

    id: str
    question: str
    text: str
    marked: str
    status: str
    origin: str = ""
    citations: tuple[Citation, ...] = ()
    issued: Mapping[str, Issued] = field(default_factory=dict)
    prompt_key: str = ""
    model: str = ""
    warnings: tuple[str, ...] = ()
    doubt: str = ""


def entries_of(
    rows: Sequence[HistoryTurn], known: Mapping[str, ChatTurn], session: str
) -> list[Entry]:
    """Return the turns of one conversation, in order.

    Args:
        rows: All turns of the journal.
        known: Turn id → what this tab knows about it.
        session: The conversation; "" shows none.
    """
    mine = [row for row in rows if session and row.session == session]
    return [
        entry_of(row.id, row.user, known[row.id]) if row.id in known else _kept(row) for row in mine
    ]


def entry_of(name: str, question: str, turn: ChatTurn) -> Entry:
    """Return an answer of this tab.

    Args:
        name: Its id in the view.
        question: What was asked.
        turn: What came of it.
    """
    answer = turn.answer
    return Entry(
        name,
        question,
        answer.text,
        answer.raw,
        answer.status,
        origin_line(turn),
        answer.citations,
        issued_by(turn.prompt) if turn.prompt is not None else _placeholders(answer.citations),
        answer.prompt_key,
        answer.model,
        tuple(w for w in (*turn.warnings, *answer.warnings) if w != answer.doubt),
        answer.doubt if answer.origin == "model" else "",
    )


def _kept(row: HistoryTurn) -> Entry:
    """Return a turn of the journal that this tab knows nothing else about."""
    cited = tuple(
        Citation(
            c["id"],
            c["source"],
            known=c["known"],
            verified=c["known"],
            reason="" if c["known"] else NOT_ISSUED,
        )
        for c in row.turn.citations
    )
    marked = row.assistant
    origin = row.turn.origin
    told = {"cached": f"Origin: cached from turn {row.turn.origin_turn}"}
    external = "an answer from outside" if row.turn.source != CHAT else ""
    return Entry(
        row.id,
        row.user,
        clean_citation_tags(marked, [c.id for c in cited if c.known]),
        marked,
        row.turn.status,
        told.get(origin, f"Origin: {origin}" if origin else external),
        cited,
        _placeholders(cited),
        row.turn.prompt_key,
    )


GONE = "(the words are not kept with the turn)"


def _placeholders(citations: Sequence[Citation]) -> dict[str, Issued]:
    """Return what stands for the cited words where their prompt is not at hand."""
    return {
        c.id: Issued(c.id, c.source, c.locator, c.snippet or GONE) for c in citations if c.known
    }


JOB_KEY = "chat_job"
INPUT_KEY = "chat_input"
KNOWN_KEY = "chat_known"
HELD_KEY = "chat_held"
OPEN_KEY = "chat_open"
VIEW_KEY = "view"
_SETTLED_KEY = "chat_settled"
UNANSWERED = "unanswered"


def job() -> ChatJob | None:
    """Return the newest question of this tab, on its way or answered."""
    found: ChatJob | None = st.session_state.get(JOB_KEY)
    return found


def is_busy() -> bool:
    """Whether a question is on its way."""
    found = job()
    return found is not None and found.running


def on_submit() -> None:
    """Ask what stands in the box; while a question is on its way nothing is asked."""
    question = (st.session_state.get(INPUT_KEY) or "").strip()
    if question:
        ask(question)


def ask(question: str, *, allow_secrets: bool = False) -> None:
    """Ask a question with what the page's controls say now.

    Args:
        question: Its text.
        allow_secrets: Send what seems to contain secrets to another machine.
    """
    if is_busy():
        return
    with reported_errors():
        request, home = chat_request(question), choice.home()
        st.session_state[JOB_KEY] = ChatJob(
            home,
            request,
            question,
            model=model_choice.model(),
            allow_secrets=allow_secrets,
        ).start()
        choice.join(request.session)


def chat_request(question: str) -> PromptRequest:
    """Return what the page's controls say, for one question."""
    from ragstream_core.services.chat import with_session

    request = request_now(default=question)
    return with_session(
        choice.home(), replace(request, text=question, session=choice.chosen(), conversation=())
    )


def take_in_answer() -> None:
    """Take in what a question has left: what the journal does not keep of its answer."""
    found = job()
    if found is None or found.running or st.session_state.get(_SETTLED_KEY) is found:
        return
    st.session_state[_SETTLED_KEY] = found
    turn = found.turn
    if turn is None:
        return
    mine = [
        row.id
        for row in choice.listing().turns
        if row.session == turn.answer.session and row.user == found.question
    ]
    if mine:
        known()[mine[-1]] = turn
    else:
        held().append((found.question, turn))


def shown() -> list[Entry]:
    """Return the conversation, without the question that is on its way."""
    rows = list(choice.listing().turns)
    found, session = job(), choice.chosen()
    entries = entries_of(rows, known(), session)
    if found and found.running and entries and _is_asked(entries[-1], found.question):
        entries.pop()
    return [*entries, *(entry_of(f"held {n}", *one) for n, one in enumerate(held()))]


def failed() -> ChatJob | None:
    """Return the newest question of this conversation where it got no answer."""
    found = job()
    if found is None or found.running or found.error is None:
        return None
    if found.session not in ("", choice.chosen()):
        return None
    return found


def known() -> dict[str, ChatTurn]:
    """Return turn id → what this tab knows about it."""
    found: dict[str, ChatTurn] = st.session_state.setdefault(KNOWN_KEY, {})
    return found


def held() -> list[tuple[str, ChatTurn]]:
    """Return questions and answers that are kept by this tab only."""
    found: list[tuple[str, ChatTurn]] = st.session_state.setdefault(HELD_KEY, [])
    return found


def open_in_prompt(question: str) -> None:
    """Put a question into the Prompt view and go there.

    Args:
        question: Its text.
    """
    st.session_state[PROMPT_KEY] = question
    st.session_state[VIEW_KEY] = "Prompt"


def _is_asked(entry: Entry, question: str) -> bool:
    return entry.status == UNANSWERED and entry.question == question
