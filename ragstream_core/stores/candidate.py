"""`CandidateView`: the generation that a commit would make, readable before it is committed.

It lives as long as the store that staged it is open, and is for judging only: its vectors and
texts are the recorded ones, its rows those that stay and those that are staged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.records import Chunk
from ragstream_core.stores.view_load import damaged, gathered_vectors

if TYPE_CHECKING:
    from ragstream_core.ingestion.index_store import Generation
    from ragstream_core.lexical import LexicalArrays
    from ragstream_core.ports import F32

_STAYING = "to_gen IS NULL AND path NOT IN (SELECT path FROM closing)"
_COLUMNS = "chunk_id, path, start, end, page, heading, heading_terms, text_hash"
_ALL = f"SELECT {_COLUMNS} FROM staged UNION ALL SELECT {_COLUMNS} FROM chunks WHERE {_STAYING}"
_ROWS = (
    "SELECT r.chunk_id, r.path, r.text_hash, v.epoch, v.row, v.crc32, r.heading_terms, t.terms "
    f"FROM ({_ALL}) r LEFT JOIN vectors v ON v.embed_fp = ? AND v.text_hash = r.text_hash "
    "LEFT JOIN texts t ON t.text_hash = r.text_hash ORDER BY r.chunk_id"
)
_CHUNK = (
    "SELECT r.chunk_id, r.path, r.start, r.end, r.page, r.heading, t.text FROM "
    f"(SELECT {_COLUMNS} FROM staged WHERE chunk_id = :id UNION ALL "
    f"SELECT {_COLUMNS} FROM chunks WHERE chunk_id = :id AND {_STAYING}) r "
    "JOIN texts t ON t.text_hash = r.text_hash"
)


@dataclass(frozen=True, slots=True)
class CandidateView:
    """What a commit would publish; implements `ragstream_core.ports.IndexView`."""

    db: sqlite3.Connection
    project: str
    generation: int
    digest: str
    embed_fp: str
    chunk_ids: Sequence[str]
    paths: Sequence[str]
    vectors: F32
    lexical: LexicalArrays

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        """Load chunks with their texts, in the order asked for.

        Raises:
            KeyError: An id is not live in this generation.
        """
        found = []
        for identifier in chunk_ids:
            row = self.db.execute(_CHUNK, {"id": identifier}).fetchone()
            if row is None:
                raise KeyError(identifier)
            _, path, start, end, page, heading, text = row
            meta = {"path": path, "page_number": page, "heading": heading, "project": self.project}
            found.append(Chunk(identifier, path, text, (start, end), meta))
        return found


def candidate_view(db: sqlite3.Connection, index_dir: Path, prepared: Generation) -> CandidateView:
    """Return the view of a prepared generation; nothing is written.

    Args:
        db: The catalog, with the change of `commit.prepare` in its temporary tables.
        index_dir: The project's folder below the index root.
        prepared: As from `commit.prepare`.

    Raises:
        IntegrityError: A row has no text, or no sound vector.
    """
    from ragstream_core.lexical import build_lexical

    rows = db.execute(_ROWS, (prepared.embed_fp,)).fetchall()
    if not all(isinstance(row[7], bytes) for row in rows):
        raise damaged(index_dir, f"a chunk of generation {prepared.n} has no text")
    return CandidateView(
        db,
        index_dir.name,
        prepared.n,
        prepared.digest,
        prepared.embed_fp,
        tuple(row[0] for row in rows),
        tuple(row[1] for row in rows),
        gathered_vectors(db, index_dir, prepared, rows),
        build_lexical((row[6], row[7]) for row in rows),
    )
