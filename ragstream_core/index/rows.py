"""The rows of a catalog, what an ingest hands over for a commit, and how they are read back.

Both sources of an index, a folder of documents and the journal of the conversations, come as these:
a turn is a file named ``<session>/<seq>``. Stdlib only: the no-op path needs no more. Functions
take an open connection; callers that need several answers of one moment hold a read transaction.
"""

from __future__ import annotations

import functools
import json
import re
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ragstream_core.index.schema import CHUNK_CANON, FILE_CANON, LIVE
from ragstream_core.records.identity import generation_digest, multiset_sum
from ragstream_core.text.terms import term_blob

# Key of a generation's provenance: how many texts the encoder cut while it was made.
TRUNCATED = "truncated_inputs"

# Keys of a generation's provenance: texts given to the model, and wall time inside it.
EMBEDDED, EMBED_SECONDS = "embedded", "embed_seconds"

_NO_TEXT = re.compile(
    r"pages? \d[\d, -]*(?:and \d+ more )?of \d+ ha(?:s|ve) no text"
    r"|\d+ (?:picture|chart|embedded object)[\w, ]* (?:is|are) not read"
)
_BY_OCR = r"(?:pages? \d[\d, -]* of \d+ (?:was|were) )?read by OCR"
_REMARK = re.compile(
    rf"{_BY_OCR}"
    r"|(?:utf-8, some lines |utf-8 and )?[\w-]+ \(assumed\)"
    r"(?:, \d+ broken characters? (?:was|were) replaced)?"
    r"|junk left out: [^;\[]*[^;\[ ]"
    r"|(?:hidden passages left out|tracked changes read as accepted|formulas without a value): \d+"
)

# Size in bytes, mtime_ns, ctime_ns, inode.
Signature = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One document as it was read."""

    path: str  # POSIX path relative to the project
    sha256: str  # of the bytes read, 64 hex digits; empty where the file was refused unread
    size: int  # bytes
    mtime_ns: int  # modification time
    type: str  # extension without dot, lower case
    decision: str  # ``ingested`` or ``skipped``
    reason: str = ""  # why it was skipped, or how it was decoded; one phrase


def pages_without_text(reason: str) -> str:
    """Return which pages or parts have no text by the reason of a row; empty if all have some."""
    match = _NO_TEXT.search(reason)
    return match[0] if match else ""


def read_by_ocr(reason: str, page: int) -> bool:
    """Say whether a page of a file was read by OCR, by the reason of the file's row."""
    return "read by OCR" in reason and any(page in run for run in _ocr_pages(reason))


@functools.lru_cache(maxsize=256)
def _ocr_pages(reason: str) -> tuple[range, ...]:
    match = re.search(_BY_OCR, reason)
    if match is None:
        return ()
    runs = match[0].partition(" of ")[0].removeprefix("pages ").removeprefix("page ")
    ends = [run.partition("-") for run in runs.split(", ") if run[:1].isdecimal()]
    return tuple(range(int(a), int(b or a) + 1) for a, _, b in ends) or (range(1),)


def reading_remark(reason: str) -> str:
    """Return what was assumed, left out or read by OCR of a file, by the reason of its row."""
    return "; ".join(_REMARK.findall(reason))


class ChunkRow(NamedTuple):
    """One chunk of one version of a file; every column is part of the generation's digest.

    A chunk that is read with a context in front of it has that behind its heading (`placed`), and
    its text begins with it: that is what is embedded, and what words are taken from.
    """

    chunk_id: str
    path: str
    sha256: str
    chunk_idx: int
    start: int
    end: int
    page: int
    heading: str
    text_hash: str


def placed(heading: str, context: str) -> str:
    """Return what a chunk's row keeps of where the chunk stands."""
    return f"{heading}\n{context}" if context else heading


def heading_of(place: str) -> str:
    """Return the heading path of what `placed` returned."""
    return place.partition("\n")[0]


@functools.lru_cache(maxsize=4096)
def place_terms(place: str) -> bytes:
    """Return the terms of a row's heading, as the row keeps it; its context's are of its text."""
    heading = heading_of(place)
    return term_blob(heading) if heading else b""


def parted(place: str, text: str) -> tuple[str, str, str]:
    """Return heading path, context, and the text behind it."""
    heading, _, context = place.partition("\n")
    if not text.startswith(context):
        raise ValueError("a chunk's text does not begin with what it stands in")
    return heading, context, text[len(context) :]


class TextRow(NamedTuple):
    """One distinct chunk text with what is derived from it."""

    text_hash: str
    text: str
    tokens: int
    terms: bytes


@dataclass(frozen=True, slots=True)
class Generation:
    """A committed generation."""

    n: int  # number, ≥ 1
    digest: str  # digest of the live rows and both fingerprints, 64 hex digits
    row_sum: int  # order-independent sum over the live rows
    parent: int  # number of the one before, 0 for the first
    created: str  # ISO 8601, UTC
    index_fp: str  # fingerprint of model, chunker and parsers
    embed_fp: str  # fingerprint of the model
    counts: Mapping[str, int]  # ``files``, ``chunks``
    # what made it; free JSON, e.g. a run id
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Change:
    """What one ingest found, besides the staged chunks."""

    # manifest rows that become live: new, updated or newly skipped files
    opened: list[FileEntry] = field(default_factory=list)
    # paths whose live rows end: updated, deleted, or skipped from now on
    closed: list[str] = field(default_factory=list)
    # rows whose bytes are the same; size, mtime and reason are rewritten
    touched: list[FileEntry] = field(default_factory=list)
    signatures: dict[str, Signature] = field(default_factory=dict)  # signatures to record
    # paths whose signature is dropped, so that the next ingest looks again
    forgotten: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ScanStamp:
    """When the scan behind an ingest began, and under which settings."""

    started_ns: int
    scan_fp: str


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


def latest_generation(db: sqlite3.Connection) -> Generation | None:
    """Return the newest committed generation, or None before the first commit."""
    return _generation(db.execute(_GENERATION + "ORDER BY n DESC LIMIT 1").fetchone())


def numbered_generation(db: sqlite3.Connection, n: int) -> Generation | None:
    """Return generation ``n``, or None if it was never made or is no longer kept."""
    return _generation(db.execute(_GENERATION + "WHERE n = ?", (n,)).fetchone())


def all_generations(db: sqlite3.Connection) -> list[Generation]:
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


def recorded_signatures(db: sqlite3.Connection) -> dict[str, Signature]:
    """Return the recorded stat signatures by path."""
    rows = db.execute("SELECT path, size, mtime_ns, ctime_ns, inode FROM signatures").fetchall()
    return {path: (size, mtime, ctime, inode) for path, size, mtime, ctime, inode in rows}


def meta_value(db: sqlite3.Connection, key: str) -> str:
    """Return a value of the meta table, "" if it was never set."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return str(row[0]) if row else ""


def last_scan(db: sqlite3.Connection) -> ScanStamp:
    """Return the stamp of the last finished scan; zero and "" before the first."""
    return ScanStamp(int(meta_value(db, "scan_started_ns") or 0), meta_value(db, "scan_fp"))


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


# SQL source of the chunks that ended since generation ``:p``.
ENDED = "FROM chunks c WHERE c.to_gen > :p AND c.from_gen <= :p ORDER BY c.chunk_id"
# CROSS JOIN is SQLite's way to fix the order of a join: the few files that came, then their chunks
# by path; the other way round all chunks are read
# SQL source of the chunks that came since generation ``:p``, up to the newest.
CAME = (
    "FROM files f CROSS JOIN chunks c ON c.path = f.path AND c.to_gen IS NULL "
    "AND c.from_gen = f.from_gen {joined} WHERE f.from_gen > :p AND f.to_gen IS NULL "
    "ORDER BY c.chunk_id"
)


@dataclass(frozen=True)
class Delta:
    """The chunks that end or come with a later generation, which is the newest."""

    since: Generation  # the earlier generation
    ended: Sequence[str]  # their ids, ascending
    came: Sequence[str]  # their ids, ascending; one may have ended with another text

    @classmethod
    def of(cls, db: sqlite3.Connection, since: Generation, most: float) -> Delta | None:
        """Return what changed; None if more than so many chunks ended or came."""
        sources = (ENDED, CAME.format(joined=""))
        at = {"p": since.n, "most": int(most) + 1}
        ended, came = (
            [str(name) for (name,) in db.execute(f"SELECT c.chunk_id {source} LIMIT :most", at)]
            for source in sources
        )
        return cls(since, ended, came) if len(ended) + len(came) <= most else None


def kept_generation(db: sqlite3.Connection, digest: object) -> Generation | None:
    """Return the last generation of a digest that is still kept."""
    generations = reversed(all_generations(db))
    return next((g for g in generations if g.digest == digest), None)
