"""Reading the catalog: generations, manifest, signatures. Stdlib only; `status` needs no more.

Every function takes an open connection; callers that need several answers of one moment hold a
read transaction.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Sequence
from typing import Any

from ragstream_core.index.rows import FileEntry, Generation, ScanStamp, Signature
from ragstream_core.index.schema import CHUNK_CANON, FILE_CANON, LIVE
from ragstream_core.records.identity import generation_digest, multiset_sum

_GENERATION = (
    "SELECT n, digest, row_sum, parent, created, index_fp, embed_fp, counts, provenance "
    "FROM generations "
)
_FILE = "SELECT path, sha256, size, mtime_ns, type, decision, reason, crc FROM files "


def _generation(row: tuple[str, ...] | None) -> Generation | None:
    if row is None:
        return None
    try:
        n, digest, row_sum, parent, created, index_fp, embed_fp, counts, provenance = row
        total = int(row_sum, 16)
        tail = (json.loads(counts), json.loads(provenance))
        return Generation(int(n), digest, total, int(parent), created, index_fp, embed_fp, *tail)
    except (ValueError, TypeError) as error:  # not what was written
        raise sqlite3.DatabaseError(f"unreadable generation row: {error}") from error


def latest(db: sqlite3.Connection) -> Generation | None:
    """Return the newest committed generation, or None before the first commit."""
    return _generation(db.execute(_GENERATION + "ORDER BY n DESC LIMIT 1").fetchone())


def generation(db: sqlite3.Connection, n: int) -> Generation | None:
    """Return generation ``n``, or None if it was never made or is no longer kept."""
    return _generation(db.execute(_GENERATION + "WHERE n = ?", (n,)).fetchone())


def generations(db: sqlite3.Connection) -> list[Generation]:
    """Return all kept generations, oldest first."""
    rows = db.execute(_GENERATION + "ORDER BY n").fetchall()
    return [found for row in rows if (found := _generation(row)) is not None]


def live_files(db: sqlite3.Connection, n: int) -> dict[str, FileEntry]:
    """Return the manifest of generation ``n`` by path, sorted."""
    rows = db.execute(f"{_FILE}WHERE {LIVE} ORDER BY path", {"n": n})
    return {row[0]: checked_entry(row) for row in rows}


def file_crc(entry: FileEntry) -> int:
    """Return the crc32 of a manifest row: it covers what the digest leaves out, e.g. the mtime."""
    columns = (entry.path, entry.sha256, entry.size, entry.mtime_ns, entry.type, entry.decision)
    return zlib.crc32(repr((*columns, entry.reason)).encode("utf-8", "surrogatepass"))


def checked_entry(row: Sequence[Any]) -> FileEntry:
    """Return the manifest row of a table row whose last column is its crc."""
    entry = FileEntry(*row[:-1])
    if file_crc(entry) != row[-1]:
        raise sqlite3.DatabaseError(f"the manifest row of {entry.path!r} fails its crc")
    return entry


def signatures(db: sqlite3.Connection) -> dict[str, Signature]:
    """Return the recorded stat signatures by path."""
    rows = db.execute("SELECT path, size, mtime_ns, ctime_ns, inode FROM signatures").fetchall()
    return {path: (size, mtime, ctime, inode) for path, size, mtime, ctime, inode in rows}


def meta(db: sqlite3.Connection, key: str) -> str:
    """Return a value of the meta table, "" if it was never set."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""


def last_scan(db: sqlite3.Connection) -> ScanStamp:
    """Return the stamp of the last finished scan; zero and "" before the first."""
    return ScanStamp(int(meta(db, "scan_started_ns") or 0), meta(db, "scan_fp"))


def row_sum(db: sqlite3.Connection, n: int) -> int:
    """Recompute the order-independent sum over all rows live in generation ``n``."""
    chunk_rows = db.execute(f"SELECT {CHUNK_CANON} FROM chunks c WHERE {LIVE}", {"n": n})
    total = multiset_sum(0, (str(canon) for (canon,) in chunk_rows))
    file_rows = db.execute(f"SELECT {FILE_CANON} FROM files f WHERE {LIVE}", {"n": n})
    return multiset_sum(total, (str(canon) for (canon,) in file_rows))


def digest_matches(found: Generation, live_row_sum: int) -> bool:
    """Return whether a generation's recorded digest is that of its live rows."""
    return found.row_sum == live_row_sum and found.digest == generation_digest(
        live_row_sum, found.index_fp, found.embed_fp
    )


def vector_epoch(db: sqlite3.Connection, embed_fp: str) -> int:
    """Return the epoch of a model's vector file, 0 if there is none; each has other places."""
    row = db.execute("SELECT epoch FROM vector_files WHERE embed_fp = ?", (embed_fp,)).fetchone()
    return int(row[0]) if row else 0
