"""The published term arrays: one file of all rows, and a small one of what changed since.

An ingest writes what changed since the file of all rows, until that is a sixteenth of it; then both
are merged. A reader takes the two as one. Both are derived: what is damaged or of another
generation is built from the catalog.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError
from ragstream_core.index import sealed_rows
from ragstream_core.index.catalog_read import meta
from ragstream_core.index.lock import rebuild_hint
from ragstream_core.index.schema import CATALOG_NAME, LEXICAL_KEY, LIVE
from ragstream_core.index.sealed_rows import Delta
from ragstream_core.platform import array_file
from ragstream_core.platform.files import make_private_dir, remove_path, rename_file, sync_dir

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.text.bm25 import LexicalArrays, PostingLists
    from ragstream_core.text.bm25_merge import MergedLists

LEXICAL_FILE = Path("lexical-latest", "arrays.bin")
CHANGES_FILE = Path("lexical-latest", "changes.bin")
WHOLE_BELOW = 4_096
"""A file of fewer rows is written anew by every change: that takes a tenth of a second."""
MOST_CHANGED = 1 / 16
"""Share of the rows of the file that may have ended or come before both are merged.

Every ingest writes the changes since the merge anew; a merge reads no terms of the catalog and
takes 3.3 CPU s for a million rows."""
_OF = ("digest", "lexical", "crc32")
"""What changes name the file by that they are of."""
_TERMS = "unpack_terms(c.heading_terms), c.heading_crc, unpack_terms(t.terms), t.terms_crc"
_PLACE_AND_TEXT = "c.heading, t.text, t.text_hash"
_ALL = (
    f"SELECT {_TERMS} FROM chunks c LEFT JOIN texts t ON t.text_hash = c.text_hash "
    f"WHERE {LIVE} ORDER BY c.chunk_id"
)
_CAME_TERMS = f"SELECT {_TERMS} " + sealed_rows.CAME.format(
    joined="LEFT JOIN texts t ON t.text_hash = c.text_hash"
)


def is_published(index_dir: Path, made_for: Generation) -> bool:
    """Return whether the files are those of a generation; reads no more than their stamps."""
    return _is_of(index_dir, _stamp(made_for))


def _is_of(index_dir: Path, stamp: dict[str, str]) -> bool:
    path = index_dir / LEXICAL_FILE
    if array_file.has_stamp(path, stamp):
        return True
    told = array_file.read_description(index_dir / CHANGES_FILE)
    return told.items() >= stamp.items() and array_file.has_stamp(path, _file_of(told))


def _file_of(told: dict[str, Any]) -> dict[str, object]:
    """Return the stamp of the file that changes are of; it holds the crc of its arrays."""
    return {name: told.get(f"of_{name}") for name in _OF}


def load(db: sqlite3.Connection, index_dir: Path, wanted: Generation) -> PostingLists:
    """Return the term arrays of a generation, by chunk id: the published ones if they are its."""
    from ragstream_core.text.bm25 import build_lexical

    try:
        return _published(index_dir, _stamp(wanted))
    except (OSError, ValueError):  # derived: missing or damaged arrays are built again
        return build_lexical(terms_of(db, index_dir, wanted.n))


def _published(index_dir: Path, stamp: dict[str, str]) -> LexicalArrays | MergedLists:
    """Return the published arrays if they are those of a stamp."""
    from ragstream_core.index import lexical_changes, lexical_file

    path, beside = index_dir / LEXICAL_FILE, index_dir / CHANGES_FILE
    if array_file.has_stamp(path, stamp) or not beside.exists():
        return lexical_file.mapped(path, stamp)
    of = _file_of(
        array_file.read_description(beside)
    )  # others may take their place while they are read
    changes = lexical_changes.read(beside, {**stamp, **{f"of_{name}": of[name] for name in _OF}})
    return changes.merged(lexical_file.mapped(path, of))


def publish(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> None:
    """Bring the files up to the newest generation."""
    if not _is_of(index_dir, _stamp(newest)) and not _publish_changes(db, index_dir, newest):
        _write_whole(db, index_dir, newest)
    if array_file.has_stamp(index_dir / LEXICAL_FILE, _stamp(newest)):
        _drop_changes(index_dir)


def publish_again(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> list[str]:
    """Build all arrays, keep them as one file, and name the files that held something else.

    Nothing of a row that ended is left on the disk.
    """
    import filecmp

    from ragstream_core.index import lexical_file

    path, stamp = index_dir / LEXICAL_FILE, _stamp(newest)
    blobs = terms_of(db, index_dir, newest.n)
    with lexical_file.written(path, stamp, blobs) as made:
        same = path.is_file() and filecmp.cmp(made, path, shallow=False)
        sound = same or _holds(index_dir, made, stamp)
        if not same:
            rename_file(made, path)
            sync_dir(path.parent)
    _drop_changes(index_dir)
    return [] if sound else [str(LEXICAL_FILE)]


def _holds(index_dir: Path, made: Path, stamp: dict[str, str]) -> bool:
    """Return whether both published files together hold what a whole file does."""
    from ragstream_core.index import lexical_file
    from ragstream_core.text.bm25_merge import MergedLists

    try:
        found = _published(index_dir, stamp)
        return isinstance(found, MergedLists) and lexical_file.holds(made, stamp, found)
    except (OSError, ValueError):
        return False


def _write_whole(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> None:
    from ragstream_core.index import lexical_file

    blobs = terms_of(db, index_dir, newest.n)
    lexical_file.write(index_dir / LEXICAL_FILE, _stamp(newest), blobs)


def lend(db: sqlite3.Connection, index_dir: Path, to: Path) -> None:
    """Let another folder begin with these files: only what differs is then written there.

    Not if the generation that the file of all rows was written of is gone there: that may hold rows
    that were erased meanwhile, and ended in a later generation, whose digest stays.
    """
    if not sealed_rows.kept(
        db, array_file.read_description(index_dir / LEXICAL_FILE).get("digest")
    ):
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
    from ragstream_core.index import lexical_changes, lexical_file

    path, beside, stamp = index_dir / LEXICAL_FILE, index_dir / CHANGES_FILE, _stamp(newest)
    told, changes_of = array_file.read_description(path), array_file.read_description(beside)
    of = {f"of_{name}": told.get(name) for name in _OF}
    changed = changes_of.items() >= of.items()
    rows = _rows(told)
    since = sealed_rows.kept(db, (changes_of if changed else told).get("digest", ""))
    most = rows * MOST_CHANGED
    delta = Delta.of(db, since, most) if since else None
    if told.get("lexical") != stamp["lexical"] or delta is None:
        return False
    try:
        old = lexical_file.mapped(path, _file_of(of))
        before = lexical_changes.read(beside, of) if changed else lexical_changes.none()
        blobs = list(_terms(db, index_dir, _CAME_TERMS, p=delta.since.n))
        changes = lexical_changes.extended(db, before, delta, blobs, file_rows=rows)
    except (OSError, ValueError):  # damaged: written anew as a whole
        return False
    if rows - len(changes.ended) + len(changes.names) != newest.counts.get("chunks"):
        return False
    expired = len(changes.ended) and not sealed_rows.kept(db, told.get("digest"))
    if len(changes) > most or expired:  # what ended goes with the text that the catalog kept of it
        lexical_file.write_merged(path, stamp, changes.merged(old))
    else:
        lexical_changes.write(beside, {**stamp, **of}, changes)
    return True


def _rows(told: dict[str, Any]) -> int:
    """Return how many rows a file of all rows has; 0 if it is written anew by every change."""
    rows = told["arrays"]["lengths"][1] // 4 if told else 0
    return rows if rows >= WHOLE_BELOW else 0


def _stamp(made_for: Generation) -> dict[str, str]:
    from ragstream_core.text.terms import LEXICAL_VERSION

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
    from ragstream_core.text.terms import LEXICAL_VERSION

    if meta(db, LEXICAL_KEY) != LEXICAL_VERSION:
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
    from ragstream_core.index.rows import place_terms
    from ragstream_core.records.identity import sha256_hex
    from ragstream_core.text.terms import term_blob

    for place, text, text_hash in db.execute(query, at):
        if not isinstance(text, str) or sha256_hex(text) != text_hash:
            raise _damaged(index_dir)
        yield place_terms(place), term_blob(text)


def _damaged(index_dir: Path) -> IntegrityError:
    return IntegrityError(
        f"{index_dir / CATALOG_NAME}: the terms of a chunk are damaged",
        hint=rebuild_hint(index_dir),
    )
