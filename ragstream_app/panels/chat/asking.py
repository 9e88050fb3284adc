"""What the chat view asks: the question on its way, its end, and what this tab knows of answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.chatting.talk import begun
from ragstream_app.jobs.chats import ChatJob
from ragstream_app.panels import model_choice
from ragstream_app.panels.chat.entries import Entry, entries_of, entry_of
from ragstream_app.panels.conversation import choice
from ragstream_app.panels.shared import PROMPT_KEY, desk, report, request_now

if TYPE_CHECKING:
    from ragstream_core.build.chatting import ChatOptions, ChatTurn

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
    report(None)
    try:
        options, home = options_now(question), choice.home()
        st.session_state[JOB_KEY] = ChatJob(
            home,
            options,
            question,
            model=model_choice.model(),
            allow_secrets=allow_secrets,
            group=desk().id,
        )
        choice.join(options.session)
    except Exception as error:  # the page's error boundary
        report(error)


def options_now(question: str) -> ChatOptions:
    """Return what the page's controls say, for one question.

    Args:
        question: Its text.

    Raises:
        RagstreamError: No project is chosen, or a setting is wrong.
    """
    from ragstream_core.build.chatting import ChatOptions

    request = replace(request_now(default=question), text=question)
    options = ChatOptions(
        projects=request.projects,
        files=request.files,
        diffs=request.diffs,
        off=request.off,
        lock=request.lock,
        task=request.task,
        settings=request.settings,
        session=choice.chosen(),
        as_of=request.as_of,
    )
    return begun(choice.home(), options)


def settle() -> None:
    """Take in what a question has left: what the journal does not keep of its answer."""
    found = job()
    if found is None or found.running or st.session_state.get(_SETTLED_KEY) is found:
        return
    st.session_state[_SETTLED_KEY] = found
    turn = found.turn
    if turn is None:
        return
    mine = [
        row["id"]
        for row in choice.listing().turns
        if row["session_id"] == turn.answer.session and row["user_text"] == found.question
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
