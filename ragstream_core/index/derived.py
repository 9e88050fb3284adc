"""The files that are derived from a committed generation: term arrays and the manifest.

Each is stamped with the digest of what it was made from. ``file_manifest.json`` is for people and
tools, its times are mtimes in seconds since the epoch; the catalog holds the truth. Of the term
arrays there is one file of all rows, and a small one of what changed since, until that is a
sixteenth of it; then both are merged. A reader takes the two as one, and builds from the catalog
what is damaged or of another generation.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError
from ragstream_core.index.rows import (
    CAME,
    Delta,
    FileEntry,
    Generation,
    kept_generation,
    live_files,
    meta_value,
    place_terms,
)
from ragstream_core.index.schema import CATALOG_NAME, LEXICAL_KEY, LIVE, rebuild_hint, transaction
from ragstream_core.platform import array_file
from ragstream_core.platform.files import (
    make_private_dir,
    remove_path,
    rename_file,
    replace_bytes,
    sync_dir,
)
from ragstream_core.records.identity import sha256_hex
from ragstream_core.text.terms import LEXICAL_VERSION, term_blob

if TYPE_CHECKING:
    from ragstream_core.text.bm25 import LexicalArrays, PostingLists
    from ragstream_core.text.bm25_merge import MergedLists


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
    publish_terms(db, index_dir, newest)
    if rewrite_manifest or not _is_manifest_of(index_dir, newest):
        entries = live_files(db, newest.n).values()
        replace_bytes(index_dir / MANIFEST_NAME, manifest(newest, entries, refused))


def publish_again(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> list[str]:
    """Compare the files with what they should hold; write those that differ, return their names."""
    entries = live_files(db, newest.n).values()
    again = manifest(newest, entries, _refused(index_dir / MANIFEST_NAME))
    written = publish_terms_again(db, index_dir, newest)
    if _bytes_of(index_dir / MANIFEST_NAME) != again:
        replace_bytes(index_dir / MANIFEST_NAME, again)
        written.append(MANIFEST_NAME)
    return written


def is_published(index_dir: Path, newest: Generation) -> bool:
    """Return whether the files are those of a generation; reads no more than their stamps."""
    return _is_manifest_of(index_dir, newest) and terms_are_published(index_dir, newest)


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


# Rows whose terms are derived again in one transaction.
REFRESHED_ROWS = 8_192
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
    if meta_value(db, LEXICAL_KEY) == LEXICAL_VERSION:
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
    return term_blob(text)


LEXICAL_FILE = Path("lexical-latest", "arrays.bin")
CHANGES_FILE = Path("lexical-latest", "changes.bin")

# A file of fewer rows is written anew by every change: that takes a tenth of a second.
WHOLE_BELOW = 4_096
# Share of the rows of the file that may have ended or come before both are merged.
#
# Every ingest writes the changes since the merge anew; a merge reads no terms of the catalog and
# takes 3.3 CPU s for a million rows.
MOST_CHANGED = 1 / 16
# What changes name the file by that they are of.
_OF = ("digest", "lexical", "crc32")
_TERMS = "unpack_terms(c.heading_terms), c.heading_crc, unpack_terms(t.terms), t.terms_crc"
_PLACE_AND_TEXT = "c.heading, t.text, t.text_hash"
_ALL = (
    f"SELECT {_TERMS} FROM chunks c LEFT JOIN texts t ON t.text_hash = c.text_hash "
    f"WHERE {LIVE} ORDER BY c.chunk_id"
)
_CAME_TERMS = f"SELECT {_TERMS} " + CAME.format(
    joined="LEFT JOIN texts t ON t.text_hash = c.text_hash"
)


def terms_are_published(index_dir: Path, made_for: Generation) -> bool:
    """Return whether the files are those of a generation; reads no more than their stamps."""
    return _are_terms_of(index_dir, _terms_stamp(made_for))


def _are_terms_of(index_dir: Path, stamp: dict[str, str]) -> bool:
    path = index_dir / LEXICAL_FILE
    if array_file.has_stamp(path, stamp):
        return True
    told = array_file.read_description(index_dir / CHANGES_FILE)
    return told.items() >= stamp.items() and array_file.has_stamp(path, _file_of(told))


def _file_of(told: dict[str, Any]) -> dict[str, object]:
    """Return the stamp of the file that changes are of; it holds the crc of its arrays."""
    return {name: told.get(f"of_{name}") for name in _OF}


def load_terms(db: sqlite3.Connection, index_dir: Path, wanted: Generation) -> PostingLists:
    """Return the term arrays of a generation, by chunk id: the published ones if they are its."""
    from ragstream_core.text.bm25 import build_lexical

    try:
        return _published_terms(index_dir, _terms_stamp(wanted))
    except (OSError, ValueError):  # derived: missing or damaged arrays are built again
        return build_lexical(terms_of(db, index_dir, wanted.n))


def _published_terms(index_dir: Path, stamp: dict[str, str]) -> LexicalArrays | MergedLists:
    """Return the published arrays if they are those of a stamp."""
    from ragstream_core.index import term_files

    path, beside = index_dir / LEXICAL_FILE, index_dir / CHANGES_FILE
    if array_file.has_stamp(path, stamp) or not beside.exists():
        return term_files.mapped(path, stamp)
    # others may take their place while they are read
    of = _file_of(array_file.read_description(beside))
    changes = term_files.read_changes(beside, {**stamp, **{f"of_{name}": of[name] for name in _OF}})
    return changes.merged(term_files.mapped(path, of))


def publish_terms(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> None:
    """Bring the files up to the newest generation."""
    path, stamp = index_dir / LEXICAL_FILE, _terms_stamp(newest)
    if not _are_terms_of(index_dir, stamp) and not _publish_changes(db, index_dir, newest):
        from ragstream_core.index import term_files

        term_files.write(path, stamp, terms_of(db, index_dir, newest.n))
    if array_file.has_stamp(path, stamp):
        _drop_changes(index_dir)


def publish_terms_again(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> list[str]:
    """Build all arrays, keep them as one file, and name the files that held something else.

    Nothing of a row that ended is left on the disk.
    """
    import filecmp

    from ragstream_core.index import term_files

    path, stamp = index_dir / LEXICAL_FILE, _terms_stamp(newest)
    blobs = terms_of(db, index_dir, newest.n)
    with term_files.written(path, stamp, blobs) as made:
        same = path.is_file() and filecmp.cmp(made, path, shallow=False)
        sound = same or _holds(index_dir, made, stamp)
        if not same:
            rename_file(made, path)
            sync_dir(path.parent)
    _drop_changes(index_dir)
    return [] if sound else [str(LEXICAL_FILE)]


def _holds(index_dir: Path, made: Path, stamp: dict[str, str]) -> bool:
    """Return whether both published files together hold what a whole file does."""
    from ragstream_core.index import term_files
    from ragstream_core.text.bm25_merge import MergedLists

    try:
        found = _published_terms(index_dir, stamp)
        return isinstance(found, MergedLists) and term_files.holds(made, stamp, found)
    except (OSError, ValueError):
        return False


def hardlink_into(db: sqlite3.Connection, index_dir: Path, to: Path) -> None:
    """Let another folder begin with these files: only what differs is then written there.

    Not if the generation that the file of all rows was written of is gone there: that may hold rows
    that were erased meanwhile, and ended in a later generation, whose digest stays.
    """
    if not kept_generation(db, array_file.read_description(index_dir / LEXICAL_FILE).get("digest")):
        return
    for name in (LEXICAL_FILE, CHANGES_FILE):
        with contextlib.suppress(OSError):  # none as yet, or no hard links: they are built
            make_private_dir((to / name).parent)
            (to / name).hardlink_to(index_dir / name)


def _drop_changes(index_dir: Path) -> None:
    path = index_dir / CHANGES_FILE
    if path.exists():
        remove_path(path)
        sync_dir(path.parent)


def _publish_changes(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> bool:
    """Write what changed since the file of all rows, or merge it; False if neither can be done."""
    from ragstream_core.index import term_files

    path, beside, stamp = index_dir / LEXICAL_FILE, index_dir / CHANGES_FILE, _terms_stamp(newest)
    told, changes_of = array_file.read_description(path), array_file.read_description(beside)
    of = {f"of_{name}": told.get(name) for name in _OF}
    changed = changes_of.items() >= of.items()
    rows = _rows(told)
    since = kept_generation(db, (changes_of if changed else told).get("digest", ""))
    most = rows * MOST_CHANGED
    delta = Delta.of(db, since, most) if since else None
    if told.get("lexical") != stamp["lexical"] or delta is None:
        return False
    try:
        old = term_files.mapped(path, _file_of(of))
        before = term_files.read_changes(beside, of) if changed else term_files.no_changes()
        blobs = list(_terms(db, index_dir, _CAME_TERMS, p=delta.since.n))
        changes = term_files.extended(db, before, delta, blobs, file_rows=rows)
    except (OSError, ValueError):  # damaged: written anew as a whole
        return False
    if rows - len(changes.ended) + len(changes.names) != newest.counts.get("chunks"):
        return False
    expired = len(changes.ended) and not kept_generation(db, told.get("digest"))
    if len(changes) > most or expired:  # what ended goes with the text that the catalog kept of it
        term_files.write_merged(path, stamp, changes.merged(old))
    else:
        term_files.write_changes(beside, {**stamp, **of}, changes)
    return True


def _rows(told: dict[str, Any]) -> int:
    """Return how many rows a file of all rows has; 0 if it is written anew by every change."""
    rows = told["arrays"]["lengths"][1] // 4 if told else 0
    return rows if rows >= WHOLE_BELOW else 0


def _terms_stamp(made_for: Generation) -> dict[str, str]:
    return {"digest": made_for.digest, "lexical": LEXICAL_VERSION}


def terms_of(db: sqlite3.Connection, index_dir: Path, n: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the terms of the rows of a generation, by chunk id."""
    return _terms(db, index_dir, _ALL, n=n)


def _terms(
    db: sqlite3.Connection, index_dir: Path, query: str, **at: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the terms of the rows of a query, checked.

    Stored terms of other rules are not those that questions are asked in: they are derived here.
    """
    if meta_value(db, LEXICAL_KEY) != LEXICAL_VERSION:
        yield from _derived_terms(db, index_dir, query.replace(_TERMS, _PLACE_AND_TEXT), **at)
        return
    for heading, heading_crc, terms, terms_crc in db.execute(query, at):
        whole = isinstance(terms, bytes) and isinstance(heading, bytes)
        if not (whole and zlib.crc32(heading) == heading_crc and zlib.crc32(terms) == terms_crc):
            raise _damaged(index_dir)
        yield heading, terms


def _derived_terms(
    db: sqlite3.Connection, index_dir: Path, query: str, **at: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the terms of headings and texts by the rules of this program."""
    for place, text, text_hash in db.execute(query, at):
        if not isinstance(text, str) or sha256_hex(text) != text_hash:
            raise _damaged(index_dir)
        yield place_terms(place), term_blob(text)


def _damaged(index_dir: Path) -> IntegrityError:
    return IntegrityError(
        f"{index_dir / CATALOG_NAME}: the terms of a chunk are damaged",
        hint=rebuild_hint(index_dir),
    )
