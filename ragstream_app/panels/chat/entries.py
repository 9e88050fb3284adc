"""The conversation as the chat view shows it: turns of the journal, and those that nothing keeps.

The journal is the truth, so a cleared turn is gone from the view as well. What it does not keep of
an answer (warnings, cost, checked quotations) is known for those of this tab.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragstream_app.chatting.said import origin_line
from ragstream_core.answering.buffer import clean_citation_tags
from ragstream_core.answering.citations import Citation
from ragstream_core.answering.issued import Issued, issued_by
from ragstream_core.history.records import SOURCES

if TYPE_CHECKING:
    from ragstream_core.build.chatting import ChatTurn

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


def entries_of(
    rows: Sequence[Mapping[str, Any]], known: Mapping[str, ChatTurn], session: str
) -> list[Entry]:
    """Return the turns of one conversation, in order.

    Args:
        rows: All turns of the journal, as `history.turns.show`.
        known: Turn id → what this tab knows about it.
        session: The conversation; "" shows none.
    """
    mine = [row for row in rows if session and row["session_id"] == session]
    return [
        entry_of(row["id"], row["user_text"], known[row["id"]])
        if row["id"] in known
        else _kept(row)
        for row in mine
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
        (*turn.warnings, *answer.warnings),
    )


def _kept(row: Mapping[str, Any]) -> Entry:
    """Return a turn of the journal that this tab knows nothing else about."""
    rows = [dict(found) for found in row["citations"]]
    cited = tuple(
        Citation(c["id"], c["source"], known=c["known"], verified=c["known"], reason=_UNKNOWN)
        for c in rows
    )
    marked = row["assistant_text"]
    origin = row.get("origin", "")
    told = {"cached": f"Origin: cached from turn {row.get('origin_turn', '')}"}
    external = "an answer from outside" if row["source"] != CHAT else ""
    return Entry(
        row["id"],
        row["user_text"],
        clean_citation_tags(marked, [c.id for c in cited if c.known]),
        marked,
        row["status"],
        told.get(origin, f"Origin: {origin}" if origin else external),
        cited,
        _placeholders(cited),
        row["prompt_key"],
    )


_UNKNOWN = "the prompt did not issue this id"
GONE = "(the words are not kept with the turn)"


def _placeholders(citations: Sequence[Citation]) -> dict[str, Issued]:
    """Return what stands for the cited words where their prompt is not at hand."""
    return {
        c.id: Issued(c.id, c.source, c.locator, c.snippet or GONE) for c in citations if c.known
    }
