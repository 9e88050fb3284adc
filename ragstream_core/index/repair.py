"""Damage and its way out: recovery after a kill, and putting a damaged catalog aside.

What survives in a catalog that was put aside: texts with their hash, vectors with their crc.

Nothing is believed: a row is taken over when its text has its hash and its vector, read from the
file, the crc that covers both hash and bytes. Terms are derived again; the rest is made anew.
"""

from __future__ import annotations

import itertools
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ragstream_core.errors import RagstreamError
from ragstream_core.index import catalog_read, text_writer, vectors
from ragstream_core.index.schema import (
    CATALOG_NAME,
    JOURNAL_NAME,
    connect_writer,
    guard,
    transaction,
)
from ragstream_core.platform.files import move_aside
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.ports import F32


_BLOCK = 1024
_NAMES = "SELECT text_hash FROM vectors WHERE embed_fp = ? ORDER BY text_hash"
_ROW = (
    "SELECT v.embed_fp, v.text_hash, v.epoch, v.row, v.crc32, t.tokens, t.text "
    "FROM vectors v JOIN texts t ON t.text_hash = v.text_hash "
    "WHERE v.embed_fp = ? AND v.text_hash = ?"
)
_KINDS = (str, str, int, int, int, int, str)

Row = tuple[str, str, int, int, int, int, str]
"""embed_fp, text_hash, epoch, row, crc32, tokens, text."""


def salvage(db: sqlite3.Connection, index_dir: Path, aside: Path) -> int:
    """Take over into a new catalog what is sound in a damaged one.

    Args:
        db: The new catalog, writable and empty.
        index_dir: Where the vector files lie.
        aside: The damaged catalog.

    Returns:
        How many embedded texts survived.

    Raises:
        OperationFailed: The new catalog could not be written.
    """
    old = sqlite3.connect(f"file:{quote(str(aside.absolute()))}?mode=ro", uri=True)
    try:
        return sum(_take_over(db, old, index_dir=index_dir, shape=shape) for shape in _shapes(old))
    finally:
        old.close()


def _shapes(old: sqlite3.Connection) -> list[tuple[str, int, int, int]]:
    found = _readable(old, "SELECT embed_fp, epoch, rows, dimension FROM vector_files", ())
    kinds = (str, int, int, int)
    return [r for r in found if all(map(isinstance, r, kinds)) and min(r[1:]) > 0]


def _take_over(
    db: sqlite3.Connection,
    old: sqlite3.Connection,
    *,
    index_dir: Path,
    shape: tuple[str, int, int, int],
) -> int:
    embed_fp, epoch, rows, dimension = shape
    path = vectors.vector_path(index_dir, embed_fp, epoch)
    stride = dimension * vectors.FLOAT_BYTES
    there = min(rows, path.stat().st_size // stride) if path.exists() else 0
    try:
        mapped = vectors.map_rows(path, rows=there, dimension=dimension)
    except (RagstreamError, OSError):
        return 0
    taken = 0
    for block in _blocks(old, embed_fp):
        sound = _sound(block, mapped, epoch)
        with transaction(db, index_dir / CATALOG_NAME):
            db.executemany("INSERT OR REPLACE INTO texts VALUES(?,?,?,?,?)", map(_text_row, sound))
            db.executemany(
                "INSERT OR IGNORE INTO vectors VALUES(?,?,?,?,?)", (r[:5] for r in sound)
            )
        taken += len(sound)
    if taken:
        with transaction(db, index_dir / CATALOG_NAME):
            text_writer.note(db)  # texts of files that are gone have no chunk to come
            db.execute("INSERT INTO vector_files VALUES(?,?,?,?)", (embed_fp, epoch, *mapped.shape))
    return taken


def _text_row(row: Row) -> tuple[str, int, bytes, int, str]:
    from ragstream_core.text.terms import term_blob

    terms = term_blob(row[6])
    return row[1], row[5], terms, zlib.crc32(terms), row[6]


def _readable(old: sqlite3.Connection, query: str, values: tuple[str, ...]) -> Iterator[Any]:
    """Yield rows until the damage."""
    try:
        yield from old.execute(query, values)
    except (sqlite3.Error, UnicodeDecodeError):
        return


def _blocks(old: sqlite3.Connection, embed_fp: str) -> Iterator[list[Row]]:
    """Yield the rows that can be read, from both ends up to the damage, each text once."""
    names = {
        name: None
        for query in (_NAMES, f"{_NAMES} DESC")
        for (name,) in _readable(old, query, (embed_fp,))
        if isinstance(name, str)
    }
    rows = (row for name in names for row in _readable(old, _ROW, (embed_fp, name)))
    whole = (row for row in rows if all(map(isinstance, row, _KINDS)))
    while block := list(itertools.islice(whole, _BLOCK)):
        yield block


def _sound(block: list[Row], mapped: F32, epoch: int) -> list[Row]:
    whole = [
        row
        for row in block
        if vectors.names_row(row[2], row[3], in_epoch=epoch, rows=len(mapped))
        and sha256_hex(row[6]) == row[1]
    ]
    if not whole:
        return []
    rows = mapped[[r[3] for r in whole]]
    crc = vectors.intact(rows, [r[1] for r in whole], [r[4] for r in whole])
    unit = vectors.unit_rows(rows)
    return [r for r, ok, u in zip(whole, crc, unit, strict=True) if ok and u]


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
    from ragstream_core.index import history_turns
    from ragstream_core.records.identity import sha256_hex

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
