"""What the history catalog holds, by conversation and month, and a few of its texts; for people."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ragstream_core.index.generations import read

_COUNTS = """
SELECT json_extract(t.meta, '$.turn.session_id') AS session,
    substr(json_extract(t.meta, '$.turn.timestamp'), 1, 7) AS month,
    count(*), coalesce(sum(c.chunks), 0), min(t.seq), max(t.seq)
FROM turns t LEFT JOIN (
    SELECT path, count(*) AS chunks FROM chunks WHERE to_gen IS NULL GROUP BY path
) c ON c.path = t.path
GROUP BY session, month ORDER BY max(t.seq) DESC
"""
_TEXTS = """
SELECT c.chunk_id, x.text FROM turns t JOIN chunks c ON c.path = t.path AND c.to_gen IS NULL
JOIN texts x ON x.text_hash = c.text_hash
WHERE t.seq = ? ORDER BY c.chunk_idx LIMIT 1
"""


class TurnCount(NamedTuple):
    """Turns of one conversation in one month.

    Attributes:
        session: The conversation.
        month: ``2026-10``, on the clock the turns were written with.
        turns: How many turns.
        chunks: How many chunks they have.
        first: First of them, by ``seq``.
        last: Last of them.
    """

    session: str
    month: str
    turns: int
    chunks: int
    first: int
    last: int


def turn_counts(index_dir: Path) -> list[TurnCount]:
    """Return the turns by conversation and month, the newest first.

    Args:
        index_dir: ``<data>/history/index``.

    Raises:
        GenerationGone: Nothing was ever embedded.
        IntegrityError: The catalog is damaged.
        OperationFailed: It cannot be read.
    """

    def look(db: sqlite3.Connection) -> list[TurnCount]:
        return [TurnCount(*row) for row in db.execute(_COUNTS)]

    return read(index_dir, look)


def first_texts(index_dir: Path, seqs: Sequence[int]) -> list[tuple[str, str]]:
    """Return (chunk id, text) of the first chunk of some turns; those without one are left out.

    Raises:
        GenerationGone: Nothing was ever embedded.
        IntegrityError: The catalog is damaged.
        OperationFailed: It cannot be read.
    """

    def look(db: sqlite3.Connection) -> list[tuple[str, str]]:
        return [row for seq in seqs for row in db.execute(_TEXTS, (seq,))]

    return read(index_dir, look)
