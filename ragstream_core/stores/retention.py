"""What is no longer kept: dead rows, texts nobody names, vector rows nobody names.

A row is dropped when no kept generation lies in [from_gen, to_gen). The vector file is compacted
into the next epoch when more than a quarter of it is unnamed; readers that hold the old file keep
it, new ones find the new one.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.stores import vector_file
from ragstream_core.stores.schema import CATALOG_NAME, transaction

if TYPE_CHECKING:
    from ragstream_core.ports import F32

COMPACT_MIN_ROWS = 1024
_BLOCK = 4096
_ORPHANS = "text_hash IN (SELECT text_hash FROM dropped) AND NOT EXISTS "


def drop_old(db: sqlite3.Connection, path: Path, keep: int) -> bool:
    """Drop what only generations before the last ``keep`` hold; say whether anything was.

    Raises:
        OperationFailed: The catalog could not be written; nothing was dropped.
        IntegrityError: The catalog is damaged.
    """
    row = db.execute(
        "SELECT n FROM generations ORDER BY n DESC LIMIT 1 OFFSET ?", (max(keep, 1) - 1,)
    ).fetchone()
    if row is None or not db.execute("SELECT 1 FROM generations WHERE n < ?", row).fetchone():
        return False
    with transaction(db, path):
        db.execute("CREATE TEMP TABLE IF NOT EXISTS dropped(text_hash TEXT PRIMARY KEY)")
        db.execute("DELETE FROM dropped")
        db.execute("DELETE FROM generations WHERE n < ?", row)
        db.execute(
            "INSERT OR IGNORE INTO dropped SELECT text_hash FROM chunks "
            "WHERE to_gen IS NOT NULL AND to_gen <= ?", row,
        )  # fmt: skip
        for table in ("chunks", "files"):
            db.execute(f"DELETE FROM {table} WHERE to_gen IS NOT NULL AND to_gen <= ?", row)
        for table in ("texts", "vectors"):
            named = f"(SELECT 1 FROM chunks c WHERE c.text_hash = {table}.text_hash)"
            db.execute(f"DELETE FROM {table} WHERE {_ORPHANS}{named}")
        for table in ("vectors", "vector_files"):
            db.execute(
                f"DELETE FROM {table} WHERE embed_fp NOT IN (SELECT embed_fp FROM generations)"
            )
    return True


def compact(db: sqlite3.Connection, index_dir: Path) -> None:
    """Write the named rows of each vector file that is more than a quarter unnamed anew.

    Raises:
        OSError: Disk full; the old epoch stays in use.
        OperationFailed: The catalog could not be written; the old epoch stays in use.
    """
    files = db.execute("SELECT embed_fp, epoch, rows, dimension FROM vector_files").fetchall()
    for embed_fp, epoch, rows, dimension in files:
        named = db.execute(
            "SELECT count(*) FROM vectors WHERE embed_fp = ?", (embed_fp,)
        ).fetchone()[0]
        if rows >= COMPACT_MIN_ROWS and (rows - named) * 4 > rows:
            mapped = vector_file.map_rows(
                vector_file.vector_path(index_dir, embed_fp, epoch), rows=rows, dimension=dimension
            )
            _rewrite(db, index_dir, embed_fp, mapped)


def _rewrite(db: sqlite3.Connection, index_dir: Path, embed_fp: str, mapped: F32) -> None:
    epoch = vector_file.free_epoch(index_dir, embed_fp)
    path = vector_file.vector_path(index_dir, embed_fp, epoch)
    named = db.execute(
        "SELECT text_hash, row FROM vectors WHERE embed_fp = ? ORDER BY row", (embed_fp,)
    ).fetchall()
    for at in range(0, len(named), _BLOCK):
        block = named[at : at + _BLOCK]
        rows = mapped[[row for _, row in block]]
        vector_file.append_rows(path, rows, [h for h, _ in block], first_row=at)
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


def sweep(db: sqlite3.Connection, index_dir: Path) -> None:
    """Unlink vector files that the catalog does not name; readers that map one keep it."""
    named = {
        vector_file.vector_path(index_dir, embed_fp, epoch).name
        for embed_fp, epoch in db.execute("SELECT embed_fp, epoch FROM vector_files")
    }
    for path in index_dir.glob("vectors-*.f32"):
        if path.name not in named:
            with contextlib.suppress(OSError):
                path.unlink()
