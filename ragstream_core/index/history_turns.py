"""The table ``turns`` of the history's catalog, and the mark that says how far it has come.

A row holds what is known of a turn, with its tags as of the mark. It is no part of the generation's
digest, since tags change without a chunk changing; its crc covers every column. The mark lies in
the newest generation's provenance.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ragstream_core.conversations.journal.records import Position, Turn, record_from, record_json
from ragstream_core.conversations.units import turn_path
from ragstream_core.errors import IntegrityError, RagstreamError
from ragstream_core.index.look import read as read_catalog
from ragstream_core.index.rows import (
    Generation,
    latest_generation,
)
from ragstream_core.index.schema import transaction
from ragstream_core.records.identity import Json, canonical_json, generation_digest

HIGH_WATER = "high_water"
"""Key of a generation's provenance: the journal's position it was made from."""
CUT = "chunks"
"""Key of a generation's provenance: the sizes by which its turns were cut."""
_DDL = """
CREATE TABLE IF NOT EXISTS turns(
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, path TEXT NOT NULL, meta TEXT NOT NULL,
    tags TEXT NOT NULL, crc INTEGER NOT NULL)
"""
_COLUMNS = "SELECT seq, id, path, meta, tags, crc FROM turns "
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


class TurnRow(NamedTuple):
    """One turn in the catalog.

    Attributes:
        seq: Its place in the order of the journal.
        turn: The record, without texts: both are empty here.
        sha256: Digest of both texts and the speakers, 64 hex digits.
        timestamp_ns: Its time, ns since the epoch.
        tags: Tags as of the high-water mark.
        segment: File it lies in; a hint.
        offset: First byte of its line; a hint.
    """

    seq: int
    turn: Turn
    sha256: str
    timestamp_ns: int
    tags: tuple[str, ...]
    segment: str = ""
    offset: int = 0

    @property
    def path(self) -> str:
        """What stands for the path of a file: ``<session>/<seq>``."""
        return turn_path(self.turn.session_id, self.seq)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the catalog has come.

    Attributes:
        generation: Its newest generation, 0 before the first.
        position: Every turn up to here is embedded.
        embed_fp: Fingerprint of the model.
        index_fp: Fingerprint of model and unit rules.
        digest: Digest of the live rows.
    """

    generation: int = 0
    position: Position = field(default_factory=Position)
    embed_fp: str = ""
    index_fp: str = ""
    digest: str = ""


def make_table(db: sqlite3.Connection, path: Path) -> None:
    """Make the table where it is missing."""
    if not has_table(db):
        with transaction(db, path):
            db.execute(_DDL)
            db.execute("CREATE INDEX IF NOT EXISTS turns_id ON turns(id)")


def has_table(db: sqlite3.Connection) -> bool:
    """Say whether a catalog is that of the history."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'turns'"
    return db.execute(query).fetchone() is not None


def encoded(row: TurnRow) -> tuple[int, str, str, str, str, int]:
    """Return the columns of a turn."""
    meta = {
        "turn": record_json(row.turn),
        "sha256": row.sha256,
        "timestamp_ns": row.timestamp_ns,
        "segment": row.segment,
        "offset": row.offset,
    }
    tags = canonical_json(list(row.tags))
    columns = (row.seq, row.turn.id, row.path, canonical_json(meta), tags)
    return (*columns, _crc(columns))


def _crc(columns: Sequence[object]) -> int:
    return zlib.crc32(repr(tuple(columns)).encode("utf-8", "surrogatepass"))


def _decoded(columns: Sequence[Any]) -> TurnRow:
    if _crc(columns[:-1]) != columns[-1]:
        raise sqlite3.DatabaseError(f"the row of turn {columns[0]!r} fails its crc")
    seq, _, _, meta, tags, _ = columns
    row = json.loads(meta)
    turn = record_from(row.pop("turn"))
    if not isinstance(turn, Turn):
        raise sqlite3.DatabaseError(f"row {seq} is not of a turn")
    return TurnRow(seq, turn, tags=tuple(json.loads(tags)), **row)


def read_turns(db: sqlite3.Connection, seqs: Iterable[int] | None = None) -> Iterator[TurnRow]:
    """Yield turns, all or some, ascending by ``seq``."""
    if seqs is None:
        yield from map(_decoded, db.execute(f"{_COLUMNS} ORDER BY seq"))
        return
    for seq in sorted(set(seqs)):
        found = db.execute(f"{_COLUMNS} WHERE seq = ?", (seq,)).fetchone()
        if found is not None:
            yield _decoded(found)


def seqs_of(db: sqlite3.Connection, turn_ids: Iterable[str]) -> dict[str, int]:
    """Return turn id → ``seq`` of those turns that are here."""
    query = "SELECT seq FROM turns WHERE id = ?"
    found = ((i, db.execute(query, (i,)).fetchone()) for i in turn_ids)
    return {i: int(row[0]) for i, row in found if row is not None}


def holds(db: sqlite3.Connection, first: int, last: int) -> bool:
    """Say whether there is a turn with a ``seq`` from ``first`` to ``last``."""
    query = "SELECT 1 FROM turns WHERE seq BETWEEN ? AND ? LIMIT 1"
    return db.execute(query, (first, last)).fetchone() is not None


def other_paths(db: sqlite3.Connection, seq: int, path: str) -> list[str]:
    """Return the path a turn has so far where it is another one: it was of another session."""
    found = db.execute("SELECT path FROM turns WHERE seq = ? AND path <> ?", (seq, path))
    return [was for (was,) in found]


def is_there(db: sqlite3.Connection, row: TurnRow) -> bool:
    """Say whether a turn is recorded just so, wherever its line lies by now."""
    found = db.execute(f"{_COLUMNS} WHERE seq = ?", (row.seq,)).fetchone()
    if found is None or _crc(found[:-1]) != found[-1]:
        return False
    was = _decoded(found)
    return was == row._replace(segment=was.segment, offset=was.offset)


def write_turns(
    db: sqlite3.Connection, rows: Iterable[TurnRow], retagged: Mapping[int, tuple[str, ...]]
) -> None:
    """Put turns and changed tags, inside the caller's transaction."""
    edited = (row._replace(tags=retagged[row.seq]) for row in list(read_turns(db, retagged)))
    put = "INSERT OR REPLACE INTO turns VALUES(?,?,?,?,?,?)"
    db.executemany(put, map(encoded, edited))
    db.executemany(put, map(encoded, rows))


def high_water(position: Position) -> dict[str, Json]:
    """Return a position as it stands in a generation's provenance, with its crc."""
    row = asdict(position)
    return {**row, "crc": zlib.crc32(canonical_json(row).encode())}


def current_mark(db: sqlite3.Connection) -> Mark:
    """Return how far the catalog has come."""
    newest = latest_generation(db)
    return mark_of(newest) if newest is not None else Mark()


def mark_of(found: Generation) -> Mark:
    """Return the mark of a generation of the history."""
    row = found.provenance.get(HIGH_WATER)
    named = {k: v for k, v in row.items() if k != "crc"} if isinstance(row, dict) else {}
    whole = bool(named) and row == {**named, "crc": zlib.crc32(canonical_json(named).encode())}
    own = generation_digest(found.row_sum, found.index_fp, found.embed_fp) == found.digest
    if not (whole and own):
        raise sqlite3.DatabaseError(f"generation {found.n} is not what was written")
    return Mark(found.n, Position(**named), found.embed_fp, found.index_fp, found.digest)


def damage(db: sqlite3.Connection) -> list[str]:
    """Return what is not as it was written in the turns and the mark; for any catalog."""
    if not has_table(db):
        return []
    try:
        current_mark(db)
        paths = {row.path for row in read_turns(db)}
    except (sqlite3.DatabaseError, RagstreamError, TypeError, ValueError, IntegrityError) as error:
        return [str(error)]
    live = {path for (path,) in db.execute("SELECT path FROM files WHERE to_gen IS NULL")}
    lost = sorted(live ^ paths)
    return [f"{len(lost)} turns are not in both tables, e.g. {lost[0]}"] if lost else []


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
    """Return the turns by conversation and month, the newest first."""

    def look(db: sqlite3.Connection) -> list[TurnCount]:
        return [TurnCount(*row) for row in db.execute(_COUNTS)]

    return read_catalog(index_dir, look)


def first_texts(index_dir: Path, seqs: Sequence[int]) -> list[tuple[str, str]]:
    """Return (chunk id, text) of the first chunk of some turns; those without one are left out."""

    def look(db: sqlite3.Connection) -> list[tuple[str, str]]:
        return [row for seq in seqs for row in db.execute(_TEXTS, (seq,))]

    return read_catalog(index_dir, look)
