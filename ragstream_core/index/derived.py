"""What is derived from a committed generation: its terms, their arrays, and the manifest file."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import IntegrityError
from ragstream_core.index.catalog_read import live_files, meta
from ragstream_core.index.lock import rebuild_hint
from ragstream_core.index.manifest import (
    MANIFEST_NAME,
    manifest_is,
    manifest_stamp,
    write_manifest,
)
from ragstream_core.index.rows import Generation
from ragstream_core.index.schema import CATALOG_NAME, LIVE, transaction
from ragstream_core.platform import array_file
from ragstream_core.platform.files import replace_bytes

if TYPE_CHECKING:
    from ragstream_core.text.bm25 import LexicalArrays

LEXICAL_FILE = Path("lexical-latest", "arrays.bin")
_ARRAYS = {
    "term_ids": "<i8", "offsets": "<i8", "rows": "<i4", "counts": "<i4", "lengths": "<i4",
}  # fmt: skip
_TERMS = (
    "SELECT c.heading_terms, c.heading_crc, t.terms, t.terms_crc FROM chunks c "
    f"LEFT JOIN texts t ON t.text_hash = c.text_hash WHERE {LIVE} ORDER BY c.chunk_id"
)


def lexical_from_catalog(db: sqlite3.Connection, index_dir: Path, n: int) -> LexicalArrays:
    """Build the term arrays of generation ``n`` from the stored terms, rows by chunk id.

    Raises:
        IntegrityError: Terms are missing or damaged.
    """
    from ragstream_core.text.bm25 import build_lexical

    return build_lexical(_blobs(db, index_dir, n))


def _blobs(db: sqlite3.Connection, index_dir: Path, n: int) -> Iterator[tuple[bytes, bytes]]:
    for heading, heading_crc, terms, terms_crc in db.execute(_TERMS, {"n": n}):
        whole = isinstance(terms, bytes) and isinstance(heading, bytes)
        if not (whole and zlib.crc32(heading) == heading_crc and zlib.crc32(terms) == terms_crc):
            raise IntegrityError(
                f"{index_dir / CATALOG_NAME}: the terms of a chunk are damaged",
                hint=rebuild_hint(index_dir),
            )
        yield heading, terms


def load_lexical(db: sqlite3.Connection, index_dir: Path, wanted: Generation) -> LexicalArrays:
    """Return the term arrays of a generation: the published ones where they are its own.

    Raises:
        IntegrityError: The catalog's terms are damaged.
    """
    from ragstream_core.text.bm25 import LexicalArrays

    try:
        data = (index_dir / LEXICAL_FILE).read_bytes()
        _, arrays = array_file.decode(data, _ARRAYS, _lexical_stamp(wanted))
        return LexicalArrays(**arrays)
    except (OSError, ValueError):  # derived: missing or damaged arrays are built again
        return lexical_from_catalog(db, index_dir, wanted.n)


def _lexical_stamp(made_for: Generation) -> dict[str, str]:
    from ragstream_core.text.bm25 import LEXICAL_VERSION

    return {"digest": made_for.digest, "lexical": LEXICAL_VERSION}


def lexical_file(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> bytes:
    """Return the content of ``lexical-latest/arrays.bin``.

    Raises:
        IntegrityError: The catalog's terms are damaged.
    """
    arrays = lexical_from_catalog(db, index_dir, newest.n)
    named = {name: getattr(arrays, name) for name in _ARRAYS}
    return array_file.encode(_lexical_stamp(newest), named)


def publish_lexical(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> None:
    """Write ``lexical-latest`` where it is not that of the newest generation.

    Raises:
        IntegrityError: The catalog's terms are damaged.
        OSError: Disk full; the old file is untouched.
    """
    path = index_dir / LEXICAL_FILE
    if not array_file.says(path, _lexical_stamp(newest)):
        replace_bytes(path, lexical_file(db, index_dir, newest))


def publish_manifest(
    db: sqlite3.Connection,
    index_dir: Path,
    newest: Generation,
    *,
    refused: Sequence[tuple[str, str]],
    force: bool,
) -> None:
    """Write ``file_manifest.json`` where it is not that of the newest generation, or when forced.

    Raises:
        OSError: Disk full; the old file is untouched.
    """
    stamp = manifest_stamp(newest.n, newest.digest)
    path = index_dir / MANIFEST_NAME
    if force or not manifest_is(path, stamp):
        write_manifest(path, live_files(db, newest.n).values(), refused, stamp=stamp)


def is_published(index_dir: Path, newest: Generation) -> bool:
    """Return whether what is derived is that of a generation; reads no more than two stamps."""
    if not manifest_is(index_dir / MANIFEST_NAME, manifest_stamp(newest.n, newest.digest)):
        return False
    return array_file.says(index_dir / LEXICAL_FILE, {"digest": newest.digest})


def refresh_terms(db: sqlite3.Connection, path: Path) -> None:
    """Derive the stored terms again after the rules for terms changed.

    Raises:
        OperationFailed: The catalog could not be written.
        IntegrityError: The catalog is damaged.
    """
    from ragstream_core.text.bm25 import LEXICAL_VERSION
    from ragstream_core.text.terms import term_blob

    if meta(db, "lexical_version") == LEXICAL_VERSION:
        return
    with transaction(db, path):
        for text_hash, text in db.execute("SELECT text_hash, text FROM texts").fetchall():
            terms = term_blob(text)
            db.execute(
                "UPDATE texts SET terms = ?, terms_crc = ? WHERE text_hash = ?",
                (terms, zlib.crc32(terms), text_hash),
            )
        for (heading,) in db.execute("SELECT DISTINCT heading FROM chunks").fetchall():
            terms = term_blob(heading) if heading else b""
            db.execute(
                "UPDATE chunks SET heading_terms = ?, heading_crc = ? WHERE heading = ?",
                (terms, zlib.crc32(terms), heading),
            )
        db.execute("INSERT OR REPLACE INTO meta VALUES('lexical_version', ?)", (LEXICAL_VERSION,))
