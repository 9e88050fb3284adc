"""The catalog of the conversations: the documents' catalog, with turns in the place of files.

A turn is a file ``<session>/<seq>`` whose digest is that of its texts; its chunks and vectors lie
in the same tables and vector file. What is added is the table ``turns`` and, in the generation row,
the journal's position; both are part of the one transaction that commits the chunks. What the
publisher reads of it is every live row up to a turn, checked.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.columns import SelectedRow
from ragstream_core.conversations.non_answers import is_non_answer, is_non_answer_text
from ragstream_core.conversations.units import parse_history_chunk_id
from ragstream_core.conversations.use import labels_of
from ragstream_core.errors import GenerationGone, IntegrityError, RagstreamError
from ragstream_core.index import commit, history_turns
from ragstream_core.index.catalog import Catalog, open_catalog
from ragstream_core.index.generation_rows import damaged, load_rows
from ragstream_core.index.history_turns import (
    HIGH_WATER,
    Mark,
    TurnRow,
    current_mark,
    high_water,
    is_there,
    make_table,
    mark_of,
    other_paths,
    write_turns,
)
from ragstream_core.index.look import read
from ragstream_core.index.rows import (
    Change,
    ChunkRow,
    FileEntry,
    Generation,
    ScanStamp,
    latest_generation,
    meta_value,
)
from ragstream_core.index.schema import (
    CATALOG_NAME,
    JOURNAL_NAME,
    LEXICAL_KEY,
    rebuild_hint,
    transaction,
    update_hint,
)
from ragstream_core.records.identity import canonical_json, sha256_hex
from ragstream_core.text.terms import LEXICAL_VERSION, term_blob

if TYPE_CHECKING:
    from ragstream_core.ports import F32


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
        make_table(catalog.db, catalog.path)
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

    def also(db: sqlite3.Connection) -> None:
        _require_vectors(catalog, mark.embed_fp, everything=mark.embed_fp != before.embed_fp)
        write_turns(db, rows, retagged)

    catalog.commit(made, change, stamp=_STAMP, also=also)
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
        mine = by_turn.get(row.path, [])
        if row.seq <= above:
            if _is_there(catalog.db, row, mine):
                continue
            change.closed += other_paths(catalog.db, row.seq, row.path)
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
    return chunks == live and is_there(db, row)


def _require_vectors(catalog: Catalog, embed_fp: str, *, everything: bool) -> None:
    """Refuse inside the transaction what could not be searched afterwards."""
    rows = _LIVE if everything else "SELECT * FROM staged"
    lost = catalog.db.execute(_NO_VECTOR.format(rows=rows), (embed_fp,)).fetchone()
    if lost is not None:
        raise IntegrityError(
            f"{catalog.path}: {lost[0]} has no vector under model {embed_fp[:12]}",
            hint=rebuild_hint(catalog.index_dir),
        )


_CHUNKS = (
    "SELECT c.chunk_id, c.chunk_idx, c.start, c.end, c.text_hash, t.text, unpack_terms(t.terms), "
    "t.terms_crc FROM chunks c LEFT JOIN texts t ON t.text_hash = c.text_hash "
    "WHERE c.to_gen IS NULL ORDER BY c.chunk_id"
)


@dataclass(frozen=True, slots=True)
class LiveRows:
    """The live rows of the history up to a turn.

    Attributes:
        mark: How far the catalog has come; its digest covers all turns, also those left out.
        turns: ``seq`` → turn, also those without a chunk, without texts; tags as of the mark.
        rows: Chunk rows, sorted by chunk id.
        vectors: Shape (rows, dimension), float32, unit rows, aligned with ``rows``, read-only.
    """

    mark: Mark
    turns: Mapping[int, TurnRow]
    rows: tuple[SelectedRow, ...]
    vectors: F32


def selection_rows(index_dir: Path, upto: int | None = None) -> LiveRows:
    """Read and check all live rows: digest, every text's hash, every vector's crc, every turn."""
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError):  # compacted meanwhile: look again
            return read(index_dir, lambda db: _live_rows(db, index_dir, upto))
    return read(index_dir, lambda db: _live_rows(db, index_dir, upto))


def _live_rows(db: sqlite3.Connection, index_dir: Path, upto: int | None) -> LiveRows:
    found = latest_generation(db)
    if found is None:
        raise GenerationGone("the history has no generation yet", hint=update_hint(index_dir))
    loaded = load_rows(db, index_dir, found)
    turns = {row.seq: row for row in history_turns.read_turns(db)}
    rows: list[SelectedRow] = []
    stored = meta_value(db, LEXICAL_KEY) == LEXICAL_VERSION
    for chunk_id, idx, start, end, text_hash, text, terms, crc in db.execute(_CHUNKS):
        _, seq, *_ = parse_history_chunk_id(chunk_id)
        if not isinstance(text, str) or sha256_hex(text) != text_hash or zlib.crc32(terms) != crc:
            raise damaged(index_dir, f"the text of {chunk_id} is missing or damaged")
        terms = terms if stored else term_blob(text)
        if seq not in turns:
            raise damaged(index_dir, f"the turn of {chunk_id} is missing")
        rows.append(_row(turns[seq], (chunk_id, idx, start, end, text_hash), text, terms))
    import numpy as np

    kept = [i for i, row in enumerate(rows) if upto is None or row.seq <= upto]
    vectors = loaded.vectors[kept] if upto is not None else np.asarray(loaded.vectors)
    vectors.flags.writeable = False
    turns = {seq: row for seq, row in turns.items() if upto is None or seq <= upto}
    return LiveRows(history_turns.mark_of(found), turns, tuple(rows[i] for i in kept), vectors)


def _row(
    of: TurnRow, chunk: tuple[str, int, int, int, str], text: str, terms: bytes
) -> SelectedRow:
    chunk_id, idx, start, end, text_hash = chunk
    turn = of.turn
    return SelectedRow(
        chunk_id, of.seq, idx, text, text_hash, terms,
        session=turn.session_id,
        turn_id=turn.id,
        timestamp_ns=of.timestamp_ns,
        tags=of.tags,
        projects=tuple(sorted(labels_of(turn))),
        active_dbs=turn.active_dbs,
        source=turn.source,
        importance=turn.importance,
        start=start,
        end=end,
        versions=canonical_json(list(turn.versions)),
        prompt_key=turn.prompt_key,
        sha256=of.sha256,
        is_non_answer=is_non_answer(turn) or is_non_answer_text(text),
    )  # fmt: skip


def live_turns(index_dir: Path) -> list[TurnRow]:
    """Return every live turn without its texts, ascending by ``seq``; reads no vector."""
    return read(index_dir, lambda db: list(history_turns.read_turns(db)))


def newest(index_dir: Path) -> tuple[Mark, Generation] | None:
    """Return the mark and the newest generation, None before the first; light."""
    if not (index_dir / CATALOG_NAME).exists():
        return None

    def look(db: sqlite3.Connection) -> tuple[Mark, Generation] | None:
        found = latest_generation(db)
        return (history_turns.mark_of(found), found) if found is not None else None

    return read(index_dir, look)
