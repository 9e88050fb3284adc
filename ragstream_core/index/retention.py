"""What is no longer kept: dead rows, texts nobody names, vector rows nobody names.

A row is dropped when no kept generation lies in [from_gen, to_gen). The vector file is compacted
into the next epoch when more than a quarter of it is unnamed; readers that hold the old file keep
it, new ones find the new one.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.index import text_writer, vectors
from ragstream_core.index.schema import CATALOG_NAME, transaction
from ragstream_core.platform.files import is_suspect

if TYPE_CHECKING:
    from ragstream_core.ports import F32

COMPACT_MIN_ROWS = 1024
_BLOCK = 4096
_DEAD = (
    "to_gen IS NOT NULL AND NOT EXISTS "
    "(SELECT 1 FROM kept k WHERE k.n >= from_gen AND k.n < to_gen)"
)
_TOMBSTONE = "SELECT 1 FROM meta WHERE key >= 'erasing:' AND key < 'erasing;'"
UNNAMED = "NOT EXISTS (SELECT 1 FROM chunks c WHERE c.text_hash = {}.text_hash)"
"""Of a table: that no chunk of any generation has the text."""


def superfluous(
    db: sqlite3.Connection, keep: int, pinned: Collection[int] = frozenset()
) -> list[int]:
    """Return the generations that are neither among the last ``keep`` nor pinned, oldest first."""
    found = [n for (n,) in db.execute("SELECT n FROM generations ORDER BY n DESC")]
    return sorted(n for n in found[max(keep, 1) :] if n not in pinned)


def drop_old(
    db: sqlite3.Connection, path: Path, keep: int, pinned: Collection[int] = frozenset()
) -> bool:
    """Drop what only generations before the last ``keep`` hold; say whether anything was.

    Args:
        db: The catalog, writable.
        path: Its file, for messages.
        keep: How many of the newest generations stay, ≥ 1.
        pinned: Older generations that stay as well.

    Raises:
        OperationFailed: The catalog could not be written; nothing was dropped.
        IntegrityError: The catalog is damaged.
    """
    gone = superfluous(db, keep, pinned)
    if not gone:
        return False
    with transaction(db, path):
        drop(db, gone, unnamed=False)
    return True


def drop(db: sqlite3.Connection, gone: Collection[int], *, unnamed: bool) -> dict[str, int]:
    """Delete generations and what only they hold, inside the caller's transaction.

    Args:
        db: The catalog, in a write transaction.
        gone: Generation numbers.
        unnamed: Also drop texts and vectors that no chunk names for other reasons, e.g. those
            of an ingest that was killed before its commit. Not while a file is being erased: its
            texts are named by the tombstone alone, and have yet to be searched for elsewhere.

    Returns:
        How many rows went, by table.
    """
    for table in ("dropped(text_hash TEXT PRIMARY KEY)", "kept(n INTEGER PRIMARY KEY)"):
        db.execute(f"CREATE TEMP TABLE IF NOT EXISTS {table}")
        db.execute(f"DELETE FROM {table.partition('(')[0]}")
    went = {"generations": 0, "texts": 0, "vectors": 0}
    for n in gone:
        went["generations"] += db.execute("DELETE FROM generations WHERE n = ?", (n,)).rowcount
    db.execute("INSERT INTO kept SELECT n FROM generations")
    db.execute(f"INSERT OR IGNORE INTO dropped SELECT text_hash FROM chunks WHERE {_DEAD}")
    for table in ("chunks", "files"):
        went[table] = db.execute(f"DELETE FROM {table} WHERE {_DEAD}").rowcount
    unnamed = unnamed and not db.execute(_TOMBSTONE).fetchone()
    if unnamed:
        text_writer.clear(db)
    among = "1" if unnamed else "text_hash IN (SELECT text_hash FROM dropped)"
    some = unnamed or db.execute("SELECT 1 FROM dropped").fetchone()
    for table in ("texts", "vectors") if some else ():
        where = f"{among} AND {UNNAMED.format(table)}"
        went[table] = db.execute(f"DELETE FROM {table} WHERE {where}").rowcount
    if gone or unnamed:
        old = "SELECT embed_fp FROM vector_files EXCEPT SELECT embed_fp FROM generations"
        for table in ("vectors", "vector_files"):  # found by index: cheap whatever the size
            db.execute(f"DELETE FROM {table} WHERE embed_fp IN ({old})")
    return went


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
    for embed_fp, _, rows, _ in _files(db):
        unnamed = rows - _named(db, embed_fp)
        if unnamed and (thorough or (rows >= COMPACT_MIN_ROWS and unnamed * 4 > rows)):
            rewrite(db, index_dir, embed_fp)


def unnamed_bytes(db: sqlite3.Connection) -> int:
    """Return how many bytes of the vector files no text names."""
    return sum(
        (rows - _named(db, embed_fp)) * dimension * vectors.FLOAT_BYTES
        for embed_fp, _, rows, dimension in _files(db)
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
    for embed_fp, epoch, rows, dimension in _files(db):
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
    (old,) = [row for row in _files(db) if row[0] == embed_fp]
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


def _files(db: sqlite3.Connection) -> list[tuple[str, int, int, int]]:
    return db.execute("SELECT embed_fp, epoch, rows, dimension FROM vector_files").fetchall()


def _named(db: sqlite3.Connection, embed_fp: str) -> int:
    query = "SELECT count(*) FROM vectors WHERE embed_fp = ?"
    return int(db.execute(query, (embed_fp,)).fetchone()[0])


def _copy(mapped: F32, named: list[tuple[str, int]], path: Path) -> None:
    for at in range(0, len(named), _BLOCK):
        block = named[at : at + _BLOCK]
        rows = vectors.gathered(mapped, [row for _, row in block])
        vectors.append_rows(path, rows, [h for h, _ in block], first_row=at)


def leftovers(db: sqlite3.Connection, index_dir: Path) -> list[Path]:
    """Return vector files that the catalog does not name, and what killed writers left half-done.

    The lock is held: nobody is writing those.
    """
    named = {
        vectors.vector_path(index_dir, embed_fp, epoch).name for embed_fp, epoch, _, _ in _files(db)
    }
    found = [path for path in index_dir.glob("vectors-*.f32") if path.name not in named]
    return [*found, *index_dir.glob(".*.tmp"), *index_dir.glob("lexical-latest/.*.tmp")]


def sweep(db: sqlite3.Connection, index_dir: Path) -> None:
    """Unlink what is left over; readers that map an old vector file keep it."""
    for path in leftovers(db, index_dir):
        with contextlib.suppress(OSError):
            path.unlink()
