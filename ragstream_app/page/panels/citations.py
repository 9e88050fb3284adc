"""What an answer cites: each citation with its verdict, and the passage of the one that is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from ragstream_app.output.markup import literal
from ragstream_app.page.panels import passage
from ragstream_core.answers.citations import words_of

if TYPE_CHECKING:
    from ragstream_core.answers.answer import Answer
    from ragstream_core.answers.citations import Citation, Issued

OPEN_KEY = "open_citation"
MAX_SHOWN = 40
MOST_UNSURE = 5


def show(answer: Answer, issued: Mapping[str, Issued]) -> None:
    """Draw the citations; one that the prompt issued opens its passage.

    Args:
        answer: The answer.
        issued: Citation id → what the prompt showed under it.
    """
    if not answer.citations:
        st.text("No citations.")
        return
    unsure(answer.citations)
    good = sum(citation.verified for citation in answer.citations)
    st.text(f"{good} of {len(answer.citations)} citations verified")
    for number, citation in enumerate(answer.citations[:MAX_SHOWN]):
        _row(number, citation)
    if len(answer.citations) > MAX_SHOWN:
        st.text(f"… and {len(answer.citations) - MAX_SHOWN:,} more")
    number = st.session_state.get(OPEN_KEY)
    if number is not None and number < len(answer.citations):
        cited = answer.citations[number]
        words = words_of(answer.raw, issued).get(cited.id, ())
        passage.show(cited, issued[cited.id], answer.prompt_key, words=words)


def unsure(citations: Sequence[Citation]) -> None:
    """Say first and loudly which citations of an answer do not hold, and why.

    Args:
        citations: All of the answer, in its order.
    """
    bad = [(n, one) for n, one in enumerate(citations, start=1) if not one.verified]
    for number, citation in bad[:MOST_UNSURE]:
        where = f"{citation.source or 'no source'} [{citation.id}]: {citation.reason}"
        st.error(f"Unverified citation {number}: {literal(where)}", icon="⚠️")
    if len(bad) > MOST_UNSURE:
        st.error(f"… and {len(bad) - MOST_UNSURE:,} more unverified citations", icon="⚠️")


def _row(number: int, citation: Citation) -> None:
    where = citation.where()
    mark = "✓" if citation.verified else "⚠ unverified:"
    st.button(
        f"{number + 1} {mark} {literal(f'{where} [{citation.id}]')}",
        key=f"citation {number}",
        help=literal(" ".join(citation.snippet.split()) or citation.reason),
        disabled=not citation.known,
        type="tertiary",
        on_click=_open,
        args=(number,),
    )


def _open(number: int) -> None:
    """Open a citation, or close the one that is open."""
    is_open = st.session_state.get(OPEN_KEY) == number
    st.session_state[OPEN_KEY] = None if is_open else number
