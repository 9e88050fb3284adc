"""The no-op decision: is there anything for an ingest to do? Writes nothing, opens no document.

Imports neither numpy nor an engine: this runs before every ingest and behind every `status`.
Anything that cannot be told from signatures alone counts as pending.

What is derived from a committed generation: lexical arrays and the manifest, each stamped.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import IntegrityError, RagstreamError
from ragstream_core.index import catalog_read
from ragstream_core.index.catalog_read import live_files, meta
from ragstream_core.index.lock import rebuild_hint
from ragstream_core.index.schema import CATALOG_NAME, LIVE, connect_reader, guard, transaction
from ragstream_core.index.text_writer import is_left
from ragstream_core.ingestion.index_store import Generation
from ragstream_core.ingestion.manifest import (
    MANIFEST_NAME,
    manifest_is,
    manifest_stamp,
    write_manifest,
)
from ragstream_core.ingestion.scan import DEFAULT_RULES, Changes, Scan, ScanRules, compare, scan
from ragstream_core.ingestion.stats import FILE_KEYS, IngestionStats
from ragstream_core.platform.files import replace_bytes

if TYPE_CHECKING:
    from ragstream_core.text.bm25 import LexicalArrays


LEXICAL_FILE = Path("lexical-latest", "arrays.bin")
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
    from ragstream_core.text.bm25 import lexical_from_bytes

    try:
        stamp, _, body = (index_dir / LEXICAL_FILE).read_bytes().partition(b"\n")
        if stamp == lexical_stamp(wanted):
            return lexical_from_bytes(body)
    except (OSError, IntegrityError):
        pass  # derived: missing or damaged arrays are built again
    return lexical_from_catalog(db, index_dir, wanted.n)


def lexical_stamp(made_for: Generation) -> bytes:
    """Return the first line of an arrays file."""
    from ragstream_core.text.bm25 import LEXICAL_VERSION

    return json.dumps({"digest": made_for.digest, "lexical": LEXICAL_VERSION}).encode()


def publish_lexical(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> None:
    """Write ``lexical-latest`` where it is not that of the newest generation.

    Raises:
        IntegrityError: The catalog's terms are damaged.
        OSError: Disk full; the old file is untouched.
    """
    path, stamp = index_dir / LEXICAL_FILE, lexical_stamp(newest)
    try:
        with path.open("rb") as handle:
            if handle.readline().rstrip(b"\n") == stamp:
                return
    except OSError:
        pass
    arrays = lexical_from_catalog(db, index_dir, newest.n)
    replace_bytes(path, stamp + b"\n" + arrays.to_bytes())


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
    """Say whether what is derived is that of a generation; reads two first lines, no more."""
    if not manifest_is(index_dir / MANIFEST_NAME, manifest_stamp(newest.n, newest.digest)):
        return False
    try:
        with (index_dir / LEXICAL_FILE).open("rb") as handle:
            return newest.digest.encode() in handle.readline()
    except OSError:
        return False


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


UNREADABLE = "the catalog cannot be read"
"""Begins the reason of a damaged catalog; what to run stands on its second line."""


class Pending(NamedTuple):
    """Why an ingest is due.

    Attributes:
        reason: One phrase.
        changes: Differences by signature; None where the catalog could not tell.
    """

    reason: str
    changes: Changes | None


class Inspection(NamedTuple):
    """A project's folder against its catalog.

    Attributes:
        found: What the folder holds.
        newest: The newest generation, if any could be read.
        pending: Why an ingest is due; None for a no-op.
    """

    found: Scan
    newest: Generation | None
    pending: Pending | None

    def idle_stats(self, project: str, *, seconds: float) -> IngestionStats:
        """Return the stats of the ingest that is not needed."""
        scanned = len(self.found.files)
        newest = self.newest
        counts = newest.counts if newest else {}
        files = dict.fromkeys(FILE_KEYS, 0)
        # a file is "skipped" each time it is met, read or not
        skipped = scanned - counts.get("files", 0)
        files.update(scanned=scanned, unchanged=scanned - skipped, skipped=skipped)
        return IngestionStats(
            project,
            newest.n if newest else 0,
            committed=False,
            files=files,
            chunks={"embedded": 0, "reused": 0, "live": counts.get("chunks", 0)},
            documents=counts.get("files", 0),
            seconds=seconds,
            digest=newest.digest if newest else "",
        )


def inspect(
    index_dir: Path, doc_dir: Path, *, scan_fp: str, rules: ScanRules = DEFAULT_RULES
) -> Inspection:
    """Compare a project's folder with its catalog by signatures alone.

    Args:
        index_dir: The project's folder below the index root.
        doc_dir: The project's folder below ``doc_raw``.
        scan_fp: Digest of every setting that shapes the index; another one makes it pending.
        rules: Which files are documents.

    Raises:
        UnknownProject: There is no folder ``doc_dir``.
    """
    found = scan(doc_dir, rules)
    if not (index_dir / CATALOG_NAME).exists():
        return Inspection(found, None, Pending("never ingested", None))
    try:
        with guard(index_dir / CATALOG_NAME):
            db = connect_reader(index_dir)
            try:
                db.execute("BEGIN")
                newest = catalog_read.latest(db)
                stamp = catalog_read.last_scan(db)
                recorded = catalog_read.signatures(db)
                unfinished = is_left(db)
            finally:
                db.close()
    except (RagstreamError, ValueError) as error:
        return Inspection(found, None, Pending(f"{UNREADABLE}: {error}", None))
    changes = compare(found, recorded, last_started_ns=stamp.started_ns)
    reason = _reason(changes, found, same_settings=stamp.scan_fp == scan_fp)
    if not reason and unfinished:
        reason = "an earlier ingest did not finish"
    if not reason and newest is not None and not is_published(index_dir, newest):
        reason = "derived files are out of date"
    return Inspection(found, newest, Pending(reason, changes) if reason else None)


def _reason(changes: Changes, found: Scan, *, same_settings: bool) -> str:
    if not same_settings:
        return "settings changed"
    if changes.any():
        return "files changed"
    return "a folder cannot be listed" if found.unreadable else ""


def pending(
    index_dir: Path, doc_dir: Path, *, scan_fp: str, rules: ScanRules = DEFAULT_RULES
) -> Pending | None:
    """Return why an ingest is due, or None for a no-op; as `inspect`.

    Raises:
        UnknownProject: There is no folder ``doc_dir``.
    """
    return inspect(index_dir, doc_dir, scan_fp=scan_fp, rules=rules).pending
