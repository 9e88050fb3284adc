"""The catalog of the conversations: the documents' catalog, with turns in the place of files.

A turn is a file ``<session>/<seq>`` whose digest is that of its texts; its chunks and vectors lie
in the same tables and vector file. What is added is the table ``turns``: a row holds what is known
of a turn, with its tags as of the mark. It is no part of the generation's digest, since tags change
without a chunk changing; its crc covers every column. The mark, the journal's position, lies in the
newest generation's provenance. All are part of the one transaction that commits the chunks.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ragstream_core.conversations.journal.records import Position, Turn, record_from, record_json
from ragstream_core.conversations.units import turn_path
from ragstream_core.errors import IntegrityError, RagstreamError
from ragstream_core.index import commit
from ragstream_core.index.catalog import Catalog, open_catalog
from ragstream_core.index.rows import (
    Change,
    ChunkRow,
    FileEntry,
    Generation,
    ScanStamp,
    latest_generation,
)
from ragstream_core.index.schema import CATALOG_NAME, JOURNAL_NAME, read, rebuild_hint, transaction
from ragstream_core.records.identity import Json, canonical_json, generation_digest

# Key of a generation's provenance: the journal's position it was made from.
HIGH_WATER = "high_water"
# Key of a generation's provenance: the sizes by which its turns were cut.
CUT = "chunks"
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


class TurnRow(NamedTuple):
    """One turn in the catalog: its record has no texts, its tags are those as of the mark.

    ``sha256`` is of both texts and the speakers; where its line lies is a hint.
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
    """How far the catalog has come: every turn up to ``position`` is embedded.

    ``index_fp`` is of model and unit rules, the digest of the live rows.
    """

    generation: int = 0
    position: Position = field(default_factory=Position)
    embed_fp: str = ""
    index_fp: str = ""
    digest: str = ""


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
    except (sqlite3.DatabaseError, RagstreamError, TypeError, ValueError) as error:
        return [str(error)]
    live = {path for (path,) in db.execute("SELECT path FROM files WHERE to_gen IS NULL")}
    lost = sorted(live ^ paths)
    return [f"{len(lost)} turns are not in both tables, e.g. {lost[0]}"] if lost else []


class TurnCount(NamedTuple):
    """Turns of one conversation in one month, as ``2026-10`` by the clock they were written with.

    ``first`` and ``last`` are numbers of turns in the journal.
    """

    session: str
    month: str
    turns: int
    chunks: int
    first: int
    last: int


def turn_counts(index_dir: Path) -> list[TurnCount]:
    """Return the turns by conversation and month, the newest first."""
    return read(index_dir, lambda db: [TurnCount(*row) for row in db.execute(_COUNTS)])


KEPT_GENERATIONS = 20
_RETAIN_EVERY = 10  # dropping one generation costs as much as dropping several
_STAMP = ScanStamp(0, "")
_LIVE_CHUNKS = (
    "SELECT chunk_id, path, sha256, chunk_idx, start, end, page, heading, text_hash FROM chunks "
    "WHERE path = ? AND to_gen IS NULL ORDER BY chunk_idx"
)
_NO_VECTOR = (
    "SELECT r.chunk_id FROM ({rows}) r LEFT JOIN vectors v "
    "ON v.embed_fp = ? AND v.text_hash = r.text_hash WHERE v.text_hash IS NULL LIMIT 1"
)
_LACKING = (
    "SELECT c.path, t.text_hash, t.text FROM chunks c JOIN texts t ON t.text_hash = c.text_hash "
    "LEFT JOIN vectors v ON v.embed_fp = ? AND v.text_hash = c.text_hash "
    "WHERE c.to_gen IS NULL AND v.text_hash IS NULL"
)
_LIVE = "SELECT * FROM chunks WHERE to_gen IS NULL"


@contextlib.contextmanager
def open_history_catalog(index_dir: Path, *, rebuild: bool = False) -> Iterator[Catalog]:
    """Lock the history's index and open it for writing, creating it when missing."""
    with open_catalog(index_dir, rebuild=rebuild, damage=damage) as catalog:
        if not has_table(catalog.db):
            with transaction(catalog.db, catalog.path):
                catalog.db.execute(_DDL)
                catalog.db.execute("CREATE INDEX IF NOT EXISTS turns_id ON turns(id)")
        if (index_dir / JOURNAL_NAME).exists():
            # of a writer killed before there was anything to roll back: only a write removes it
            with transaction(catalog.db, catalog.path):
                catalog.db.execute("INSERT OR REPLACE INTO meta VALUES('recovered', '')")
        yield catalog


def lacking(
    db: sqlite3.Connection, embed_fp: str, *, besides: Collection[int]
) -> list[tuple[str, str]]:
    """Return (hash, text) of live chunks without a vector under a model."""
    found = db.execute(_LACKING, (embed_fp,)).fetchall()
    return [(h, text) for path, h, text in found if int(path.rpartition("/")[2]) not in besides]


def commit_turns(
    catalog: Catalog,
    turns: Sequence[TurnRow],
    chunks: Iterable[ChunkRow],
    *,
    mark: Mark,
    retagged: Mapping[int, tuple[str, ...]],
    provenance: Mapping[str, str],
) -> Mark:
    """Commit turns, chunks, changed tags and the new mark in one transaction.

    A turn that already exists is replaced together with its chunks, one that is there just so is
    left as it is; the mark's position never goes down. If nothing changes at all, no generation is
    made.
    """
    before = current_mark(catalog.db)
    position = max(before.position, mark.position, key=lambda p: p.seq)
    change = _stage(catalog, turns, chunks, above=before.position.seq)
    same = (position.seq, mark.embed_fp, mark.index_fp) == (
        before.position.seq, before.embed_fp, before.index_fp,
    )  # fmt: skip
    if same and not (change.opened or retagged):
        commit.note_scan(catalog.db, catalog.path, Change(), stamp=_STAMP)
        return before
    made = commit.prepare(
        catalog.db,
        change,
        index_fp=mark.index_fp,
        embed_fp=mark.embed_fp,
        provenance={**provenance, HIGH_WATER: high_water(position)},
    )
    opened = {entry.path for entry in change.opened}
    rows = [row for row in turns if row.path in opened]

    def write(db: sqlite3.Connection) -> None:
        _require_vectors(catalog, mark.embed_fp, everything=mark.embed_fp != before.embed_fp)
        write_turns(db, rows, retagged)

    catalog.commit(made, change, stamp=_STAMP, in_transaction=write)
    if made.n % _RETAIN_EVERY == 0:
        try:
            catalog.retain(KEPT_GENERATIONS)
        except (RagstreamError, OSError) as error:  # the next commit tries again
            catalog.notes.append(f"old generations were not dropped: {error}")
    return mark_of(made)


def _stage(
    catalog: Catalog, turns: Sequence[TurnRow], chunks: Iterable[ChunkRow], *, above: int
) -> Change:
    """Stage the chunks of those turns that are not there just so."""
    by_turn = defaultdict[str, list[ChunkRow]](list)
    for chunk in chunks:
        by_turn[chunk.path].append(chunk)
    change, staged = Change(), list[ChunkRow]()
    for row in turns:
        if row.seq <= above:
            if _is_there(catalog.db, row, by_turn[row.path]):
                continue
            # the path that it has so far, where it was of another session
            moved = "SELECT path FROM turns WHERE seq = ? AND path <> ?"
            change.closed += [p for (p,) in catalog.db.execute(moved, (row.seq, row.path))]
        entry = FileEntry(row.path, row.sha256, 0, row.timestamp_ns, "turn", "ingested")
        change.opened.append(entry)
        change.closed.append(row.path)
        staged += by_turn[row.path]
    catalog.db.execute("DELETE FROM staged")
    catalog.stage(staged)
    return change


def _is_there(db: sqlite3.Connection, row: TurnRow, chunks: Sequence[ChunkRow]) -> bool:
    """Say whether a turn is recorded just so, wherever its line lies by now."""
    query = "SELECT sha256 FROM files WHERE path = ? AND to_gen IS NULL"
    if db.execute(query, (row.path,)).fetchone() != (row.sha256,):
        return False
    if chunks != db.execute(_LIVE_CHUNKS, (row.path,)).fetchall():
        return False
    columns = db.execute(f"{_COLUMNS} WHERE seq = ?", (row.seq,)).fetchone()
    if columns is None or _crc(columns[:-1]) != columns[-1]:
        return False
    was = _decoded(columns)
    return was == row._replace(segment=was.segment, offset=was.offset)


def _require_vectors(catalog: Catalog, embed_fp: str, *, everything: bool) -> None:
    """Refuse inside the transaction what could not be searched afterwards."""
    rows = _LIVE if everything else "SELECT * FROM staged"
    lost = catalog.db.execute(_NO_VECTOR.format(rows=rows), (embed_fp,)).fetchone()
    if lost is not None:
        raise IntegrityError(
            f"{catalog.path}: {lost[0]} has no vector under model {embed_fp[:12]}",
            hint=rebuild_hint(catalog.index_dir),
        )


def live_turns(index_dir: Path) -> list[TurnRow]:
    """Return every live turn without its texts, ascending by ``seq``; reads no vector."""
    return read(index_dir, lambda db: list(read_turns(db)))


def newest(index_dir: Path) -> tuple[Mark, Generation] | None:
    """Return the mark and the newest generation, None before the first; light."""
    if not (index_dir / CATALOG_NAME).exists():
        return None

    def look(db: sqlite3.Connection) -> tuple[Mark, Generation] | None:
        found = latest_generation(db)
        return (mark_of(found), found) if found is not None else None

    return read(index_dir, look)
