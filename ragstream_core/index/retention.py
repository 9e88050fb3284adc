"""What is no longer kept: generations, dead rows, texts and files that nothing names.

A row is dropped when no kept generation lies in [from_gen, to_gen).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection
from pathlib import Path

from ragstream_core.index import text_writer
from ragstream_core.index.schema import transaction
from ragstream_core.index.vectors import VectorFile

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
    """Drop what only generations before the last ``keep`` hold; say whether anything was."""
    gone = superfluous(db, keep, pinned)
    if not gone:
        return False
    with transaction(db, path):
        drop(db, gone, unnamed=False)
    return True


def drop(db: sqlite3.Connection, gone: Collection[int], *, unnamed: bool) -> dict[str, int]:
    """Delete generations and what only they hold in the caller's transaction; count it by table.

    ``unnamed`` also drops texts and vectors that no chunk names for other reasons, e.g. those of an
    ingest that was killed before its commit.
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
    # the texts of a file that is being erased are named by its tombstone alone, and have yet to be
    # searched for elsewhere
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


def leftovers(db: sqlite3.Connection, index_dir: Path) -> list[Path]:
    """Return vector files that the catalog does not name, and what killed writers left half-done.

    The lock is held: nobody is writing those.
    """
    named = {file.path.name for file in VectorFile.every(db, index_dir)}
    found = [path for path in index_dir.glob("vectors-*.f32") if path.name not in named]
    return [*found, *index_dir.glob(".*.tmp"), *index_dir.glob("lexical-latest/.*.tmp")]


def sweep(db: sqlite3.Connection, index_dir: Path) -> None:
    """Unlink what is left over; readers that map an old vector file keep it."""
    for path in leftovers(db, index_dir):
        with contextlib.suppress(OSError):
            path.unlink()
