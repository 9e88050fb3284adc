"""Makes texts and vectors durable, batch by batch: written, synced, and only then named.

Recording texts leaves a mark, the commit that names them takes it away. A writer that finds it
when it opens the catalog renames it: from then on it stands for an earlier ingest, and the commit
that ends this one also drops every text and vector that no chunk names.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import IntegrityError
from ragstream_core.index.lock import rebuild_hint
from ragstream_core.index.rows import TextRow
from ragstream_core.index.schema import CATALOG_NAME, INSERT_TEXT, transaction
from ragstream_core.index.vectors import (
    VectorFile,
    append_rows,
    check_vectors,
    free_epoch,
    vector_path,
)

if TYPE_CHECKING:
    from ragstream_core.ports import F32


_RECORDING, _UNFINISHED = "recording", "unfinished"


def note(db: sqlite3.Connection) -> None:
    """Leave the mark of an ingest that records texts, inside the caller's transaction."""
    db.execute("INSERT OR IGNORE INTO meta VALUES(?, '')", (_RECORDING,))


def take_over(db: sqlite3.Connection, path: Path) -> None:
    """Make a mark that is there when the catalog is opened that of an earlier ingest."""
    if db.execute("SELECT 1 FROM meta WHERE key = ?", (_RECORDING,)).fetchone():
        with transaction(db, path):
            rename = "UPDATE OR REPLACE meta SET key = ? WHERE key = ?"
            db.execute(rename, (_UNFINISHED, _RECORDING))


def finish(db: sqlite3.Connection) -> bool:
    """Take this ingest's mark away inside its commit; say whether an earlier one's is there."""
    db.execute("DELETE FROM meta WHERE key = ?", (_RECORDING,))
    return is_left(db)


def is_left(db: sqlite3.Connection) -> bool:
    """Say whether an ingest recorded texts and did not come to its commit."""
    query = "SELECT 1 FROM meta WHERE key IN (?, ?)"
    return db.execute(query, (_RECORDING, _UNFINISHED)).fetchone() is not None


def clear(db: sqlite3.Connection) -> None:
    """Take all marks away: what no chunk names was dropped in the same transaction."""
    db.execute("DELETE FROM meta WHERE key IN (?, ?)", (_RECORDING, _UNFINISHED))


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
    """
    dimension = int(vectors.shape[-1])
    checked = check_vectors(vectors, count=len(rows), dimension=dimension)
    epoch, first = _place(db, index_dir, embed_fp, dimension)
    hashes = [row.text_hash for row in rows]
    path = vector_path(index_dir, embed_fp, epoch)
    crcs = append_rows(path, checked, hashes, first_row=first)

    def name(db: sqlite3.Connection) -> None:
        db.executemany(
            INSERT_TEXT,
            ((r.text_hash, r.tokens, r.terms, zlib.crc32(r.terms), r.text) for r in rows),
        )
        db.executemany(
            "INSERT OR REPLACE INTO vectors VALUES(?,?,?,?,?)",
            ((embed_fp, text_hash, epoch, first + i, crc)
             for i, (text_hash, crc) in enumerate(zip(hashes, crcs, strict=True))),
        )  # fmt: skip
        note(db)
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
    file = VectorFile.of(db, index_dir, embed_fp)
    if file.epoch and file.dimension == dimension:
        return file.epoch, file.count
    if not db.execute("SELECT 1 FROM vectors WHERE embed_fp = ?", (embed_fp,)).fetchone():
        return free_epoch(index_dir, embed_fp), 0  # there is none, or all failed their checks
    raise IntegrityError(
        f"{index_dir / CATALOG_NAME}: model {embed_fp} has {dimension} dimensions, its stored "
        f"vectors {file.dimension}",
        hint=rebuild_hint(index_dir),
    )
