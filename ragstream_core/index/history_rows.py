"""What the publisher reads of the history catalog: every live row up to a turn, checked."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.columns import SelectedRow
from ragstream_core.conversations.non_answers import is_non_answer, is_non_answer_text
from ragstream_core.conversations.units import parse_history_chunk_id
from ragstream_core.conversations.use import labels_of
from ragstream_core.errors import GenerationGone
from ragstream_core.index import catalog_read, history_turns
from ragstream_core.index.generation_rows import damaged, load_rows
from ragstream_core.index.generations import read
from ragstream_core.index.history_turns import Mark, TurnRow
from ragstream_core.index.lock import update_hint
from ragstream_core.index.rows import Generation
from ragstream_core.index.schema import CATALOG_NAME, LEXICAL_KEY
from ragstream_core.records.identity import canonical_json, sha256_hex
from ragstream_core.text.terms import LEXICAL_VERSION, term_blob

if TYPE_CHECKING:
    from ragstream_core.ports import F32

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
    found = catalog_read.latest(db)
    if found is None:
        raise GenerationGone("the history has no generation yet", hint=update_hint(index_dir))
    loaded = load_rows(db, index_dir, found)
    turns = {row.seq: row for row in history_turns.read(db)}
    rows: list[SelectedRow] = []
    stored = catalog_read.meta(db, LEXICAL_KEY) == LEXICAL_VERSION
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
    return read(index_dir, lambda db: list(history_turns.read(db)))


def newest(index_dir: Path) -> tuple[Mark, Generation] | None:
    """Return the mark and the newest generation, None before the first; light."""
    if not (index_dir / CATALOG_NAME).exists():
        return None

    def look(db: sqlite3.Connection) -> tuple[Mark, Generation] | None:
        found = catalog_read.latest(db)
        return (history_turns.mark_of(found), found) if found is not None else None

    return read(index_dir, look)
