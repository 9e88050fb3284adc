"""The files that are derived from a committed generation: term arrays and the manifest.

Each is stamped with the digest of what it was made from. ``file_manifest.json`` is for people and
tools, its times are mtimes in seconds since the epoch; the catalog holds the truth.
"""

from __future__ import annotations

import functools
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ragstream_core.index import lexical
from ragstream_core.index.catalog_read import live_files, meta
from ragstream_core.index.rows import FileEntry, Generation, place_terms
from ragstream_core.index.schema import LEXICAL_KEY, transaction
from ragstream_core.platform.files import replace_bytes

MANIFEST_NAME = "file_manifest.json"
MANIFEST_VERSION = 1


def publish(
    db: sqlite3.Connection,
    index_dir: Path,
    newest: Generation,
    *,
    refused: Sequence[tuple[str, str]],
    rewrite_manifest: bool,
) -> None:
    """Write those files that do not have the stamp of the newest generation."""
    lexical.publish(db, index_dir, newest)
    if rewrite_manifest or not _is_manifest_of(index_dir, newest):
        entries = live_files(db, newest.n).values()
        replace_bytes(index_dir / MANIFEST_NAME, manifest(newest, entries, refused))


def publish_again(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> list[str]:
    """Compare the files with what they should hold; write those that differ, return their names."""
    entries = live_files(db, newest.n).values()
    again = manifest(newest, entries, _refused(index_dir / MANIFEST_NAME))
    written = lexical.publish_again(db, index_dir, newest)
    if _bytes_of(index_dir / MANIFEST_NAME) != again:
        replace_bytes(index_dir / MANIFEST_NAME, again)
        written.append(MANIFEST_NAME)
    return written


def is_published(index_dir: Path, newest: Generation) -> bool:
    """Return whether the files are those of a generation; reads no more than their stamps."""
    return _is_manifest_of(index_dir, newest) and lexical.is_published(index_dir, newest)


def manifest(
    made_for: Generation, entries: Iterable[FileEntry], refused: Iterable[tuple[str, str]]
) -> bytes:
    """Return the content of ``file_manifest.json``."""
    rows: list[dict[str, Any]] = [
        {"path": e.path, "rel_path": e.path, "sha256": e.sha256, "size": e.size,
         "mtime": e.mtime_ns / 1e9, "type": e.type, "decision": e.decision, "reason": e.reason}
        for e in entries
    ]  # fmt: skip
    rows += [
        {"path": p, "rel_path": p, "decision": "refused", "reason": reason} for p, reason in refused
    ]
    lines = ",\n".join(
        json.dumps(row, ensure_ascii=False) for row in sorted(rows, key=lambda r: r["path"])
    )
    return f'{_manifest_stamp(made_for)}, "files": [\n{lines}\n]}}\n'.encode()


def _manifest_stamp(made_for: Generation) -> str:
    n, digest = made_for.n, made_for.digest
    return f'{{"version": {MANIFEST_VERSION}, "generation": {n}, "digest": "{digest}"'


def _is_manifest_of(index_dir: Path, generation: Generation) -> bool:
    stamp = _manifest_stamp(generation).encode()
    try:
        with (index_dir / MANIFEST_NAME).open("rb") as handle:
            return handle.read(len(stamp)) == stamp
    except OSError:
        return False


def _refused(path: Path) -> list[tuple[str, str]]:
    """Return (path, reason) of the files that were no documents, as far as they can be read."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    files = data.get("files") if isinstance(data, dict) else None
    rows = [row for row in files if isinstance(row, dict)] if isinstance(files, list) else []
    refused = [row for row in rows if row.get("decision") == "refused"]
    return [(str(row.get("path", "")), str(row.get("reason", ""))) for row in refused]


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


REFRESHED_ROWS = 8_192
"""Rows whose terms are derived again in one transaction."""
_REFRESH = {
    "texts": "UPDATE texts SET terms = pack_terms(text_terms(text)), "
    "terms_crc = crc_of(text_terms(text))",
    "chunks": "UPDATE chunks SET heading_terms = pack_terms(place_terms(heading)), "
    "heading_crc = crc_of(place_terms(heading))",
}


def refresh_terms(db: sqlite3.Connection, path: Path) -> None:
    """Derive the stored terms again after the rules for terms changed.

    In one reading of each table, some rows a transaction. Until the last one is written the terms
    are those of no rules, so a reader takes none of them, and a kill in between is made good by
    the next call.
    """
    from ragstream_core.text.terms import LEXICAL_VERSION

    if meta(db, LEXICAL_KEY) == LEXICAL_VERSION:
        return
    db.create_function("text_terms", 1, _text_terms, deterministic=True)
    db.create_function("place_terms", 1, place_terms, deterministic=True)
    db.create_function("crc_of", 1, zlib.crc32, deterministic=True)
    _say_version(db, path, "")
    for table, statement in _REFRESH.items():
        for rows in _row_ranges(db, table):
            with transaction(db, path):
                db.execute(f"{statement} {rows}")
    _say_version(db, path, LEXICAL_VERSION)


def _row_ranges(db: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield conditions that hold for some rows of a table each, and together for all."""
    first, last = db.execute(f"SELECT min(rowid), max(rowid) FROM {table}").fetchone()
    for start in range(first or 0, (last or -1) + 1, REFRESHED_ROWS):
        yield f"WHERE rowid >= {start} AND rowid < {start + REFRESHED_ROWS}"


def _say_version(db: sqlite3.Connection, path: Path, version: str) -> None:
    with transaction(db, path):
        db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (LEXICAL_KEY, version))


@functools.lru_cache(maxsize=1)  # SQLite asks for a row's terms, then for their crc
def _text_terms(text: str) -> bytes:
    from ragstream_core.text.terms import term_blob

    return term_blob(text)
