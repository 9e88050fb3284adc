"""Turns of conversations as values: read, and found by their words.

The search here reads the journal, so it finds a turn as soon as it is kept and needs no model; what
prompts take of older turns is searched by meaning as well, in the published history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.conversations.sessions import turn_row
from ragstream_core.wiring import journal

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.records import Entry
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True, repr=False)
class HistoryTurn:
    """One question with its answer, as it was said, with its tags of now.

    Attributes:
        row: Its fields, as `turn_rows` has them.
        score: How well it fits a search, 0 or more; 0 if it was not searched for.
    """

    row: Mapping[str, Any]
    score: float = 0.0

    @property
    def id(self) -> str:
        """Its id, which never changes."""
        return str(self.row["id"])

    @property
    def seq(self) -> int:
        """Its number in the journal."""
        return int(self.row["seq"])

    @property
    def session(self) -> str:
        """The conversation that it belongs to."""
        return str(self.row["session_id"])

    @property
    def user(self) -> str:
        """What was asked."""
        return str(self.row["user_text"])

    @property
    def assistant(self) -> str:
        """What was answered; may be empty."""
        return str(self.row["assistant_text"])

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags of now."""
        return tuple(self.row["tags"])

    def to_json(self) -> dict[str, Json]:
        """Return the fields as `ragstream history show --json` prints them."""
        return dict(self.row)

    def __str__(self) -> str:
        """Return question and answer."""
        return f"{self.user}\n\n{self.assistant}".strip()

    def __repr__(self) -> str:
        """Return number, session and the beginning of the question on one line."""
        return f"HistoryTurn(seq={self.seq}, session={self.session!r}, user={self.user[:40]!r})"


def kept_turn(entry: Entry) -> HistoryTurn:
    """Return a turn as it was kept just now.

    Args:
        entry: Its entry in the journal; its record is a turn.
    """
    assert isinstance(entry.record, Turn)
    return HistoryTurn(turn_row(entry, entry.record, entry.record.tags))


def turns(
    workspace: Workspace, session: str = "", *, tags: Sequence[str] = (), last: int = 0
) -> tuple[HistoryTurn, ...]:
    """Return turns in their order.

    Args:
        workspace: The data root.
        session: Only this conversation; "": all.
        tags: Only turns with all of these.
        last: Only so many, the newest; 0: all.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    return tuple(map(HistoryTurn, journal.show(workspace, session, tags=tags, last=last)))


def search(
    workspace: Workspace, text: str, *, session: str = "", tags: Sequence[str] = (), k: int = 10
) -> tuple[HistoryTurn, ...]:
    """Return the turns that share most words with a text, the best first, by BM25.

    Args:
        workspace: The data root.
        text: What is looked for.
        session: Only this conversation; "": all.
        tags: Only turns with all of these.
        k: At most so many, at least 1.

    Raises:
        IntegrityError: A newer version of the program wrote the journal.
    """
    from ragstream_core.text.bm25 import Bm25, build_lexical
    from ragstream_core.text.terms import term_blob, terms

    rows = journal.show(workspace, session, tags=tags)
    blobs = [(term_blob(row["user_text"]), term_blob(row["assistant_text"])) for row in rows]
    scores = Bm25([build_lexical(blobs)]).scores(terms(text)).tolist()
    found = [HistoryTurn(row, s) for row, s in zip(rows, scores, strict=True) if s > 0]
    return tuple(sorted(found, key=lambda turn: (-turn.score, -turn.seq))[:k])
