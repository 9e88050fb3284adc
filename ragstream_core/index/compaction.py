"""Compaction: the vectors that a catalog names move to a new file, the others are left behind.

The vector file is compacted into the next epoch when more than a quarter of it is unnamed, and
also when the disk failed to keep it; readers that hold the old file keep it, new ones find the new
one.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ragstream_core.index.schema import CATALOG_NAME, transaction
from ragstream_core.index.vectors import (
    FLOAT_BYTES,
    VectorFile,
    append_rows,
    free_epoch,
    vector_path,
)
from ragstream_core.platform.files import is_suspect

COMPACT_MIN_ROWS = 1024
_BLOCK = 4096


def compact(db: sqlite3.Connection, index_dir: Path, *, thorough: bool = False) -> None:
    """Write each vector file anew that is over a quarter unnamed; thorough: if one row is."""
    for file in VectorFile.every(db, index_dir):
        unnamed = file.count - _named(db, file)
        if unnamed and (thorough or (file.count >= COMPACT_MIN_ROWS and unnamed * 4 > file.count)):
            rewrite(db, index_dir, file)


def unnamed_bytes(db: sqlite3.Connection, index_dir: Path) -> int:
    """Return how many bytes of the vector files no text names."""
    files = VectorFile.every(db, index_dir)
    return sum((file.count - _named(db, file)) * file.dimension * FLOAT_BYTES for file in files)


def renew(db: sqlite3.Connection, index_dir: Path, *, lost_end: bool) -> list[str]:
    """Move vectors out of files whose sync failed into the next epoch; say so, a sentence each.

    With ``lost_end`` also out of files that lost their end or are gone: the lost rows fail their
    crc and are made anew by the rebuild that follows.
    """
    notes = []
    for file in VectorFile.every(db, index_dir):
        suspect = file.path.exists() and is_suspect(file.path)
        left = file.cut() if lost_end else file
        if suspect or left.count < file.count:
            rewrite(db, index_dir, left)
        if suspect:
            notes.append(
                f"{file.path.name}: the disk had failed to keep it, its rows are in a new file"
            )
    return notes


def rewrite(db: sqlite3.Connection, index_dir: Path, old: VectorFile) -> None:
    """Write the named vectors of a file into the next epoch; rows that it lost come as zeros."""
    embed_fp, epoch = old.embed_fp, free_epoch(index_dir, old.embed_fp)
    named = db.execute(
        "SELECT text_hash, row FROM vectors WHERE embed_fp = ? ORDER BY row", (embed_fp,)
    ).fetchall()
    path = vector_path(index_dir, embed_fp, epoch)
    for at in range(0, len(named), _BLOCK):
        block = named[at : at + _BLOCK]
        append_rows(path, old.copy([row for _, row in block]), [h for h, _ in block], first_row=at)
    with transaction(db, index_dir / CATALOG_NAME):
        # the crcs stay: bytes that were damaged before are still found to be so
        db.executemany(
            "UPDATE vectors SET epoch = ?, row = ? WHERE embed_fp = ? AND text_hash = ?",
            ((epoch, i, embed_fp, text_hash) for i, (text_hash, _) in enumerate(named)),
        )
        db.execute("DELETE FROM vector_files WHERE embed_fp = ?", (embed_fp,))
        db.execute(
            "INSERT INTO vector_files VALUES(?,?,?,?)", (embed_fp, epoch, len(named), old.dimension)
        )


def _named(db: sqlite3.Connection, file: VectorFile) -> int:
    query = "SELECT count(*) FROM vectors WHERE embed_fp = ?"
    return int(db.execute(query, (file.embed_fp,)).fetchone()[0])
