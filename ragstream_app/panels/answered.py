"""An answer that is here: its words, what is known about it, its citations; or why it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.failures import describe
from ragstream_app.panels import cited
from ragstream_app.panels.markup import answer_html
from ragstream_app.panels.shared import show_message
from ragstream_app.spent_text import usage_text
from ragstream_core.errors import ChatFailed

if TYPE_CHECKING:
    from ragstream_app.jobs.answers import AnswerJob
    from ragstream_core.answering.answer import Answer

MAX_SHOWN = 60_000
"""Characters of an answer that are drawn; *Save* has all of it."""


def show(found: AnswerJob) -> None:
    """Show the answer with its citations, or why there is none.

    Args:
        found: A job that has ended.
    """
    if found.answer is None:
        _failed(found)
        return
    left, right = st.columns([5, 4], gap="medium")
    with left:
        words(found.answer.text)
        for warning in found.answer.warnings:
            st.text(f"warning: {warning}")
        _foot(found.answer)
    with right:
        cited.show(found.answer, found.prepared.issued)


def _failed(found: AnswerJob) -> None:
    if found.stopped:
        st.info("Stopped before the first word.")
    elif found.error is not None:
        show_message(describe(found.error))
    if isinstance(found.error, ChatFailed) and found.prepared.session:
        st.text(f"The question is kept without an answer in session {found.prepared.session}.")


def _foot(answer: Answer) -> None:
    """Show who answered, at what cost, where it is kept, and the text to take along."""
    line, plain, save = st.columns([5, 1, 1], gap="small", vertical_alignment="center")
    line.text(" · ".join(facts(answer)))
    with plain.popover("Copy", width="stretch"):
        st.code(answer.text[:MAX_SHOWN], language=None, wrap_lines=True)
    name = f"answer-{answer.prompt_key[:12] or 'not-kept'}.md"
    save.download_button("Save", answer.text, name, width="stretch", on_click="ignore")


def facts(answer: Answer) -> list[str]:
    """Return what is known about an answer, as short texts."""
    parts = [f"{answer.status}, {answer.model}" if answer.model else "no model was asked"]
    parts += [usage_text(answer.usage)] if answer.usage and answer.model else []
    parts += [f"agents before: {usage_text(answer.agents)}"] if answer.agents else []
    parts += [f"prompt {answer.prompt_key[:12]}"] if answer.prompt_key else []
    return [*parts, f"kept in session {answer.session}" if answer.session else "not kept"]


def words(text: str) -> None:
    """Draw an answer, or what has come of it so far.

    Args:
        text: Its Markdown.
    """
    st.html(answer_html(text[:MAX_SHOWN]))
    if len(text) > MAX_SHOWN:
        st.text(f"… {len(text) - MAX_SHOWN:,} more characters: Save has them all")
