"""The catalog of the conversations: the documents' catalog, with turns in the place of files.

A turn is a file ``<session>/<seq>`` whose digest is that of its texts; its chunks and vectors lie
in the same tables and vector file. What is added is the table ``turns`` and, in the generation row,
the journal's position; both are part of the one transaction that commits the chunks.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ragstream_core.errors import IntegrityError, RagstreamError
from ragstream_core.index import commit, history_turns
from ragstream_core.index.catalog import Catalog, open_catalog
from ragstream_core.index.history_turns import Mark, TurnRow
from ragstream_core.index.lock import rebuild_hint
from ragstream_core.index.rows import Change, ChunkRow, FileEntry, ScanStamp
from ragstream_core.index.schema import JOURNAL_NAME, transaction

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
    with open_catalog(index_dir, rebuild=rebuild) as catalog:
        history_turns.make_table(catalog.db, catalog.path)
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
    before = history_turns.mark(catalog.db)
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
        provenance={**provenance, history_turns.HIGH_WATER: history_turns.high_water(position)},
    )
    opened = {entry.path for entry in change.opened}
    rows = [row for row in turns if row.path in opened]

    def also(db: sqlite3.Connection) -> None:
        _require_vectors(catalog, mark.embed_fp, everything=mark.embed_fp != before.embed_fp)
        history_turns.write(db, rows, retagged)

    catalog.commit(made, change, stamp=_STAMP, also=also)
    if made.n % _RETAIN_EVERY == 0:
        try:
            catalog.retain(KEPT_GENERATIONS)
        except (RagstreamError, OSError) as error:  # the next commit tries again
            catalog.notes.append(f"old generations were not dropped: {error}")
    return history_turns.mark_of(made)


def _stage(
    catalog: Catalog, turns: Sequence[TurnRow], chunks: Iterable[ChunkRow], *, above: int
) -> Change:
    """Stage the chunks of those turns that are not there just so."""
    by_turn = defaultdict[str, list[ChunkRow]](list)
    for chunk in chunks:
        by_turn[chunk.path].append(chunk)
    change, staged = Change(), list[ChunkRow]()
    for row in turns:
        mine = by_turn.get(row.path, [])
        if row.seq <= above:
            if _is_there(catalog.db, row, mine):
                continue
            change.closed += history_turns.other_paths(catalog.db, row.seq, row.path)
        entry = FileEntry(row.path, row.sha256, 0, row.timestamp_ns, "turn", "ingested")
        change.opened.append(entry)
        change.closed.append(row.path)
        staged += mine
    catalog.db.execute("DELETE FROM staged")
    catalog.stage(staged)
    return change


def _is_there(db: sqlite3.Connection, row: TurnRow, chunks: Sequence[ChunkRow]) -> bool:
    query = "SELECT sha256 FROM files WHERE path = ? AND to_gen IS NULL"
    if db.execute(query, (row.path,)).fetchone() != (row.sha256,):
        return False
    live = db.execute(_LIVE_CHUNKS, (row.path,)).fetchall()
    return chunks == live and history_turns.is_there(db, row)


def _require_vectors(catalog: Catalog, embed_fp: str, *, everything: bool) -> None:
    """Refuse inside the transaction what could not be searched afterwards."""
    rows = _LIVE if everything else "SELECT * FROM staged"
    lost = catalog.db.execute(_NO_VECTOR.format(rows=rows), (embed_fp,)).fetchone()
    if lost is not None:
        raise IntegrityError(
            f"{catalog.path}: {lost[0]} has no vector under model {embed_fp[:12]}",
            hint=rebuild_hint(catalog.index_dir),
        )
