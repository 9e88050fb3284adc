"""Write a catalog of an earlier format anew in today's: the same rows in about half of the bytes.

The new file is written beside the old one, checked, and takes its name; readers that have the old
one open keep it. Generations, digests and vectors stay as they are.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from urllib.parse import quote

from ragstream_core.errors import IntegrityError, RunCommand
from ragstream_core.index import verify
from ragstream_core.index.lock import project_lock
from ragstream_core.index.pulled import require_own
from ragstream_core.index.schema import (
    CATALOG_NAME,
    SCHEMA_VERSION,
    connect_writer,
    guard,
    initialise,
    reading,
    settle_format,
)
from ragstream_core.platform.files import rename_file, sync_dir

_PACKED = {"terms": "pack_terms(terms)", "heading_terms": "pack_terms(heading_terms)"}
_ORDERS = {
    "texts": "LEFT JOIN (SELECT text_hash AS named, min(chunk_id) AS first FROM old.chunks "
    "GROUP BY text_hash) ON named = text_hash ORDER BY first",
    "chunks": "ORDER BY chunk_id, from_gen",
}
_OTHERS = (
    "SELECT sql FROM old.sqlite_master WHERE sql IS NOT NULL AND tbl_name NOT IN "
    "(SELECT name FROM main.sqlite_master) ORDER BY type DESC"  # tables, then their indexes
)


def is_older(index_dir: Path) -> bool:
    """Return whether a catalog is of an earlier format.

    Raises:
        IntegrityError: It is no catalog, or of a later format.
        OperationFailed: It cannot be read.
    """
    with reading(index_dir) as db:  # the lock is not held: another may be writing it anew
        return _version(db) < SCHEMA_VERSION


def upgrade(index_dir: Path) -> bool:
    """Write a catalog of an earlier format anew; return whether it was one.

    Args:
        index_dir: The project's folder below the index root.

    Raises:
        ProjectLocked: Another process writes it.
        Refused: It is made elsewhere and only read here.
        IntegrityError: It is damaged; nothing was changed.
        OperationFailed: Disk full; nothing was changed.
    """
    path = index_dir / CATALOG_NAME
    temporary = path.with_name(f".{CATALOG_NAME}.new.tmp")
    with project_lock(index_dir):
        require_own(index_dir)
        with contextlib.closing(connect_writer(index_dir)) as old, guard(path):
            if _version(old) == SCHEMA_VERSION:
                return False
            _require_sound(old, index_dir)
        try:
            _write(path, temporary)
            rename_file(temporary, path)
            sync_dir(index_dir)
        finally:
            temporary.unlink(missing_ok=True)
    return True


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _require_sound(db: sqlite3.Connection, index_dir: Path) -> None:
    for finding in verify.row_findings(db):
        raise IntegrityError(
            f"{index_dir / CATALOG_NAME}: {finding.message}",
            hint=RunCommand("index check", f"{index_dir.name} --read-data 1/1"),
        )


def _write(path: Path, temporary: Path) -> None:
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    with (
        guard(temporary),
        contextlib.closing(sqlite3.connect(temporary, isolation_level=None, uri=True)) as db,
    ):
        db.execute("PRAGMA journal_mode=OFF")  # a kill leaves a file that nothing names
        db.execute("PRAGMA synchronous=EXTRA")
        initialise(db)
        settle_format(db, temporary)
        db.execute(f"ATTACH 'file:{quote(str(path.absolute()))}?mode=ro' AS old")
        db.execute("BEGIN")
        for (ddl,) in db.execute(_OTHERS).fetchall():
            db.execute(ddl)
        for (table,) in db.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'"):
            _copy(db, table)
        _require_sound(db, path.parent)
        db.execute("COMMIT")


def _copy(db: sqlite3.Connection, table: str) -> None:
    """Copy the rows of a table; neighbours in the documents become neighbours in the file."""
    names = [name for _, name, *_ in db.execute(f"PRAGMA main.table_info({table})")]
    values = ", ".join(_PACKED.get(name, name) for name in names)
    db.execute(
        f"INSERT INTO main.{table}({', '.join(names)}) "
        f"SELECT {values} FROM old.{table} {_ORDERS.get(table, '')}"
    )
    counts = [db.execute(f"SELECT count(*) FROM {at}.{table}").fetchone() for at in ("main", "old")]
    if counts[0] != counts[1]:
        raise sqlite3.DatabaseError(f"{table} lost rows while it was copied")
