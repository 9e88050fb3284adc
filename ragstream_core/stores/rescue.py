"""Damage and its way out: recovery after a kill, and putting a damaged catalog aside."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

from ragstream_core.atomic import move_aside
from ragstream_core.errors import ProjectLocked, RagstreamError
from ragstream_core.stores import catalog_read
from ragstream_core.stores.lock import project_lock
from ragstream_core.stores.migrations import is_due_on_disk
from ragstream_core.stores.schema import CATALOG_NAME, connect_writer, guard

JOURNAL_NAME = f"{CATALOG_NAME}-journal"


def recover(index_dir: Path) -> bool:
    """Roll back what a killed writer left, and bring an older format up to date.

    Readers cannot: they open read-only.

    Returns:
        Whether there was something to do and no living writer.

    Raises:
        RagstreamError: The catalog cannot be opened even so.
    """
    if not ((index_dir / JOURNAL_NAME).exists() or is_due_on_disk(index_dir)):
        return False
    try:
        with project_lock(index_dir):
            connect_writer(index_dir).close()
    except ProjectLocked:
        return False
    return True


def put_damaged_aside(index_dir: Path) -> Path | None:
    """Rename a catalog that fails its checks to ``catalog.sqlite.damaged-n``; the lock is held.

    Returns:
        The new name, or None where the catalog is missing or sound.
    """
    path = index_dir / CATALOG_NAME
    if not path.exists() or _is_sound(index_dir):
        return None
    taken = {p.name for p in index_dir.glob(f"{CATALOG_NAME}.damaged-*")}
    n = next(i for i in range(1, len(taken) + 2) if f"{CATALOG_NAME}.damaged-{i}" not in taken)
    aside = path.with_name(f"{CATALOG_NAME}.damaged-{n}")
    journal = index_dir / JOURNAL_NAME
    if journal.exists():
        move_aside(journal, aside.with_name(f"{aside.name}-journal"))
    move_aside(path, aside)
    return aside


def _is_sound(index_dir: Path) -> bool:
    try:
        db = connect_writer(index_dir)
    except RagstreamError:
        return False
    try:
        with guard(index_dir / CATALOG_NAME):
            return _passes(db)
    except (
        RagstreamError,
        TypeError,
        ValueError,
        AttributeError,
    ):  # the latter: other column types
        return False
    finally:
        db.close()


def _passes(db: sqlite3.Connection) -> bool:
    from ragstream_core.records.identity import sha256_hex
    from ragstream_core.stores import history_turns

    if db.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
        return False
    for text_hash, text, terms, crc in db.execute(
        "SELECT text_hash, text, terms, terms_crc FROM texts"
    ):
        if sha256_hex(text) != text_hash or zlib.crc32(terms) != crc:
            return False
    for terms, crc in db.execute("SELECT heading_terms, heading_crc FROM chunks"):
        if zlib.crc32(terms) != crc:
            return False
    catalog_read.signatures(db), catalog_read.last_scan(db)  # raise where a table is missing
    for found in catalog_read.generations(db):
        catalog_read.live_files(db, found.n)  # raises where a row fails its crc
        if not catalog_read.digest_matches(found, catalog_read.row_sum(db, found.n)):
            return False
    return not history_turns.damage(db)
