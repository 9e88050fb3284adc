"""Catalogs of older formats are brought up to date: one step a version, one transaction a step.

A step is taken only where the tables are exactly those of its version, and committed only where
every generation still has its digest afterwards: a migration changes how rows are kept, never what
they say. Whoever opens the catalog for writing migrates it; readers ask for that first.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ragstream_core.errors import IntegrityError
from ragstream_core.index import catalog_read, vectors
from ragstream_core.index.lock import rebuild_hint
from ragstream_core.index.schema import CATALOG_NAME, DDL, SCHEMA_VERSION
from ragstream_core.ingestion.manifest import FileEntry


class Step(NamedTuple):
    """The way from one version to the next.

    Attributes:
        missing: (table, column) that the next version has and this one has not.
        apply: Rewrites the tables inside a transaction.
    """

    missing: frozenset[tuple[str, str]]
    apply: Callable[[sqlite3.Connection, Path], None]


def is_due(db: sqlite3.Connection) -> bool:
    """Say whether a catalog is of an older version that can be brought up to date."""
    step = STEPS.get(_version(db))
    return step is not None and _columns(db) == _columns_of_ddl() - step.missing


def is_due_on_disk(index_dir: Path) -> bool:
    """Say the same of a file; False where there is none or it cannot be read."""
    path = index_dir / CATALOG_NAME
    if not path.exists():
        return False
    db = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
    try:
        return is_due(db)
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    finally:
        db.close()


def migrate(db: sqlite3.Connection, index_dir: Path) -> None:
    """Take every step that is due; each is durable, or nothing of it happened.

    Args:
        db: A writable connection outside of a transaction; the lock is held.
        index_dir: The project's folder, where the vector files lie.

    Raises:
        IntegrityError: The rows do not have their digests, or a vector file lost its end.
    """
    while is_due(db):
        version = _version(db)
        db.execute("BEGIN IMMEDIATE")
        try:
            STEPS[version].apply(db, index_dir)
            _require_digests(db, index_dir)
            db.execute(f"PRAGMA user_version={version + 1}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _columns(db: sqlite3.Connection) -> frozenset[tuple[str, str]]:
    query = (
        "SELECT m.name, p.name FROM sqlite_master m, pragma_table_info(m.name) p "
        "WHERE m.type = 'table'"
    )
    return frozenset(db.execute(query).fetchall())


def _columns_of_ddl() -> frozenset[tuple[str, str]]:
    memory = sqlite3.connect(":memory:")
    try:
        memory.executescript(DDL)
        return _columns(memory)
    finally:
        memory.close()


def _require_digests(db: sqlite3.Connection, index_dir: Path) -> None:
    for found in catalog_read.generations(db):
        if not catalog_read.digest_matches(found, catalog_read.row_sum(db, found.n)):
            raise IntegrityError(
                f"{index_dir / CATALOG_NAME}: generation {found.n} does not have its digest, so "
                f"the catalog is not brought to format {SCHEMA_VERSION}",
                hint=rebuild_hint(index_dir),
            )


def _add_crcs(db: sqlite3.Connection, index_dir: Path) -> None:
    """Version 0 → 1: manifest rows, terms and vectors get a crc of their own."""
    crcs = _VectorCrcs(db, index_dir)
    db.create_function("file_crc", -1, lambda *row: catalog_read.file_crc(FileEntry(*row)))
    db.create_function("blob_crc", 1, zlib.crc32)
    db.create_function("vector_crc", 4, crcs.of)
    entry = "path, sha256, size, mtime_ns, type, decision, reason"
    chunk = "chunk_id, path, sha256, chunk_idx, start, end, page, heading, text_hash, heading_terms"
    vector = "embed_fp, text_hash, epoch, row"
    _refill(db, "files", f"{entry}, file_crc({entry}), from_gen, to_gen")
    _refill(db, "chunks", f"{chunk}, blob_crc(heading_terms), from_gen, to_gen")
    _refill(db, "texts", "text_hash, tokens, terms, blob_crc(terms), text")
    _refill(db, "vectors", f"{vector}, vector_crc({vector})")
    crcs.require_whole()


def _refill(db: sqlite3.Connection, table: str, columns: str) -> None:
    """Make a table anew as `DDL` says and fill it from its old self."""
    indexes = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? "
        "AND sql IS NOT NULL", (table,),
    ).fetchall()  # fmt: skip
    for (name,) in indexes:
        db.execute(f"DROP INDEX {name}")
    db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in DDL.split(";"):
        if f"TABLE {table}(" in statement or f" ON {table}(" in statement:
            db.execute(statement)
    db.execute(f"INSERT INTO {table} SELECT {columns} FROM old_{table}")
    db.execute(f"DROP TABLE old_{table}")


class _VectorCrcs:
    """Computes the crcs of stored vectors from the files, once, at the migration."""

    def __init__(self, db: sqlite3.Connection, index_dir: Path) -> None:
        self._index_dir = index_dir
        self._lost: list[str] = []
        self._maps = {}
        shapes = db.execute("SELECT embed_fp, epoch, rows, dimension FROM vector_files").fetchall()
        for embed_fp, epoch, rows, dimension in shapes:
            path = vectors.vector_path(index_dir, embed_fp, epoch)
            if rows and not path.exists():
                raise IntegrityError(f"{path} is missing", hint=rebuild_hint(index_dir))
            self._maps[embed_fp, epoch] = vectors.map_rows(path, rows=rows, dimension=dimension)

    def of(self, embed_fp: str, text_hash: str, epoch: int, row: int) -> int:
        """Return the crc of one vector; what is no unit vector is noted."""
        mapped = self._maps.get((embed_fp, epoch))
        if mapped is None or not 0 <= row < len(mapped):
            self._lost.append(text_hash)
            return 0
        if not vectors.unit_rows(mapped[row : row + 1])[0]:
            self._lost.append(text_hash)
        return vectors.row_crc(text_hash, mapped[row].tobytes())

    def require_whole(self) -> None:
        """Refuse to bless what is no vector with a crc.

        Raises:
            IntegrityError: A vector is missing or not a finite unit vector.
        """
        if self._lost:
            raise IntegrityError(
                f"{self._index_dir / CATALOG_NAME}: {len(self._lost)} vectors are missing or no "
                "finite unit vectors",
                hint=rebuild_hint(self._index_dir),
            )


STEPS: dict[int, Step] = {
    0: Step(
        frozenset(
            {("files", "crc"), ("chunks", "heading_crc"), ("texts", "terms_crc"),
             ("vectors", "crc32")}
        ),
        _add_crcs,
    )
}  # fmt: skip
"""What to do with a catalog of each older version."""
