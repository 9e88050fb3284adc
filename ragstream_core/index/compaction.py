"""Compaction: the vectors that a catalog names move to a new file, the others are left behind.

The vector file is compacted into the next epoch when more than a quarter of it is unnamed, and
also when the disk failed to keep it; readers that hold the old file keep it, new ones find the new
one.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.index import vectors
from ragstream_core.index.schema import CATALOG_NAME, transaction
from ragstream_core.platform.files import is_suspect

if TYPE_CHECKING:
    from ragstream_core.ports import F32

COMPACT_MIN_ROWS = 1024
_BLOCK = 4096


def compact(db: sqlite3.Connection, index_dir: Path, *, thorough: bool = False) -> None:
    """Write the named rows of each vector file that is more than a quarter unnamed anew.

    Args:
        db: The catalog, writable.
        index_dir: Where the vector files lie.
        thorough: Whatever the size and the share: one unnamed row is enough.

    Raises:
        OSError: Disk full; the old epoch stays in use.
        OperationFailed: The catalog could not be written; the old epoch stays in use.
    """
    for embed_fp, _, rows, _ in vector_files(db):
        unnamed = rows - _named(db, embed_fp)
        if unnamed and (thorough or (rows >= COMPACT_MIN_ROWS and unnamed * 4 > rows)):
            rewrite(db, index_dir, embed_fp)


def unnamed_bytes(db: sqlite3.Connection) -> int:
    """Return how many bytes of the vector files no text names."""
    return sum(
        (rows - _named(db, embed_fp)) * dimension * vectors.FLOAT_BYTES
        for embed_fp, _, rows, dimension in vector_files(db)
    )


def renew(db: sqlite3.Connection, index_dir: Path, *, lost_end: bool) -> list[str]:
    """Move the vectors out of files whose sync failed, into the next epoch.

    Args:
        db: The catalog, writable; nobody has appended yet.
        index_dir: Where the vector files lie.
        lost_end: Also out of files that lost their end or are gone; the lost rows fail their crc
            and are made anew by the rebuild that follows.

    Returns:
        A sentence for each file whose sync had failed.

    Raises:
        IntegrityError: A suspect file lost its end as well and ``lost_end`` is off.
        OperationFailed: Disk full or failing; the old epoch stays in use.
    """
    notes = []
    for embed_fp, epoch, rows, dimension in vector_files(db):
        path = vectors.vector_path(index_dir, embed_fp, epoch)
        suspect = path.exists() and is_suspect(path)
        if suspect or (lost_end and vectors.rows_there(path, dimension) < rows):
            rewrite(db, index_dir, embed_fp, lost_end=lost_end)
        if suspect:
            notes.append(f"{path.name}: the disk had failed to keep it, its rows are in a new file")
    return notes


def rewrite(
    db: sqlite3.Connection, index_dir: Path, embed_fp: str, *, lost_end: bool = False
) -> None:
    """Write the named vectors of a model into the next epoch and switch to it.

    Args:
        db: The catalog, writable.
        index_dir: Where the vector files lie.
        embed_fp: The model.
        lost_end: Take what is there of a file that lost its end.

    Raises:
        OperationFailed: Disk full or failing; the old epoch stays in use.
        IntegrityError: The old file lost its end.
    """
    (old,) = [row for row in vector_files(db) if row[0] == embed_fp]
    path = vectors.vector_path(index_dir, embed_fp, old[1])
    rows = min(old[2], vectors.rows_there(path, old[3])) if lost_end else old[2]
    mapped = vectors.map_rows(path, rows=rows, dimension=old[3])
    epoch = vectors.free_epoch(index_dir, embed_fp)
    named = db.execute(
        "SELECT text_hash, row FROM vectors WHERE embed_fp = ? ORDER BY row", (embed_fp,)
    ).fetchall()
    _copy(mapped, named, vectors.vector_path(index_dir, embed_fp, epoch))
    with transaction(db, index_dir / CATALOG_NAME):
        # the crcs stay: bytes that were damaged before are still found to be so
        db.executemany(
            "UPDATE vectors SET epoch = ?, row = ? WHERE embed_fp = ? AND text_hash = ?",
            ((epoch, i, embed_fp, text_hash) for i, (text_hash, _) in enumerate(named)),
        )
        db.execute("DELETE FROM vector_files WHERE embed_fp = ?", (embed_fp,))
        db.execute(
            "INSERT INTO vector_files VALUES(?,?,?,?)",
            (embed_fp, epoch, len(named), mapped.shape[1]),
        )


def vector_files(db: sqlite3.Connection) -> list[tuple[str, int, int, int]]:
    """Return the vector files that a catalog names: model, epoch, rows, dimension."""
    return db.execute("SELECT embed_fp, epoch, rows, dimension FROM vector_files").fetchall()


def _named(db: sqlite3.Connection, embed_fp: str) -> int:
    query = "SELECT count(*) FROM vectors WHERE embed_fp = ?"
    return int(db.execute(query, (embed_fp,)).fetchone()[0])


def _copy(mapped: F32, named: list[tuple[str, int]], path: Path) -> None:
    for at in range(0, len(named), _BLOCK):
        block = named[at : at + _BLOCK]
        rows = vectors.gathered(mapped, [row for _, row in block])
        vectors.append_rows(path, rows, [h for h, _ in block], first_row=at)
