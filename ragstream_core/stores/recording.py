"""Makes texts and vectors durable, batch by batch: written, synced, and only then named."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import IntegrityError
from ragstream_core.ingestion.index_store import TextRow
from ragstream_core.stores import unfinished, vector_file
from ragstream_core.stores.naming import rebuild_hint
from ragstream_core.stores.schema import CATALOG_NAME, transaction

if TYPE_CHECKING:
    from ragstream_core.ports import F32


def record_texts(
    db: sqlite3.Connection,
    index_dir: Path,
    rows: Sequence[TextRow],
    *,
    vectors: F32,
    embed_fp: str,
) -> None:
    """Write vectors, sync them, then commit their row numbers and texts in one transaction.

    Args:
        db: The catalog, writable.
        index_dir: Where the vector file lies.
        rows: Texts without a vector under this model.
        vectors: Shape (len(rows), dimension), unit rows.
        embed_fp: The model.

    Raises:
        EmbeddingFailed: The vectors are not as many finite unit vectors; nothing is stored.
        IntegrityError: The model's dimension is not that of its stored vectors, or the vector
            file lost its end.
        OperationFailed: Vector file or catalog could not be written; nothing was recorded.
    """
    name = write_vectors(db, index_dir, rows, vectors=vectors, embed_fp=embed_fp)
    with transaction(db, index_dir / CATALOG_NAME):
        name(db)


def write_vectors(
    db: sqlite3.Connection,
    index_dir: Path,
    rows: Sequence[TextRow],
    *,
    vectors: F32,
    embed_fp: str,
) -> Callable[[sqlite3.Connection], None]:
    """Write vectors and sync them; return what names them inside a transaction.

    Until that has run nothing else may be written: the same place would be taken.

    Raises:
        EmbeddingFailed: The vectors are not as many finite unit vectors; nothing is stored.
        IntegrityError: The model's dimension is not that of its stored vectors, or the vector
            file lost its end.
        OperationFailed: The vector file could not be written.
    """
    dimension = int(vectors.shape[-1])
    checked = vector_file.check_vectors(vectors, count=len(rows), dimension=dimension)
    epoch, first = _place(db, index_dir, embed_fp, dimension)
    hashes = [row.text_hash for row in rows]
    path = vector_file.vector_path(index_dir, embed_fp, epoch)
    crcs = vector_file.append_rows(path, checked, hashes, first_row=first)

    def name(db: sqlite3.Connection) -> None:
        db.executemany(
            "INSERT OR REPLACE INTO texts VALUES(?,?,?,?,?)",
            ((r.text_hash, r.tokens, r.terms, zlib.crc32(r.terms), r.text) for r in rows),
        )
        db.executemany(
            "INSERT OR REPLACE INTO vectors VALUES(?,?,?,?,?)",
            ((embed_fp, text_hash, epoch, first + i, crc)
             for i, (text_hash, crc) in enumerate(zip(hashes, crcs, strict=True))),
        )  # fmt: skip
        unfinished.note(db)
        db.execute("DELETE FROM vector_files WHERE embed_fp = ?", (embed_fp,))
        db.execute(
            "INSERT INTO vector_files VALUES(?,?,?,?)",
            (embed_fp, epoch, first + len(rows), dimension),
        )

    return name


def _place(
    db: sqlite3.Connection, index_dir: Path, embed_fp: str, dimension: int
) -> tuple[int, int]:
    """Return epoch and committed row count of the file to write to."""
    row = db.execute(
        "SELECT epoch, rows, dimension FROM vector_files WHERE embed_fp = ?", (embed_fp,)
    ).fetchone()
    if row is None:
        return vector_file.free_epoch(index_dir, embed_fp), 0
    if row[2] == dimension:
        return int(row[0]), int(row[1])
    if not db.execute("SELECT 1 FROM vectors WHERE embed_fp = ?", (embed_fp,)).fetchone():
        return vector_file.free_epoch(index_dir, embed_fp), 0  # all of them failed their checks
    raise IntegrityError(
        f"{index_dir / CATALOG_NAME}: model {embed_fp} has {dimension} dimensions, its stored "
        f"vectors {row[2]}",
        hint=rebuild_hint(index_dir),
    )
