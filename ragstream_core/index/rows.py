"""The rows of a catalog, and what an ingest hands over for a commit.

Both sources of an index, a folder of documents and the journal of the conversations, come as these:
a turn is a file named ``<session>/<seq>``. Stdlib only: the no-op path needs no more.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TRUNCATED = "truncated_inputs"
"""Key of a generation's provenance: how many texts the encoder cut while it was made."""

EMBEDDED, EMBED_SECONDS = "embedded", "embed_seconds"
"""Keys of a generation's provenance: texts given to the model, and wall time inside it."""

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

Signature = tuple[int, int, int, int]
"""Size in bytes, mtime_ns, ctime_ns, inode."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One document as it was read.

    Attributes:
        path: POSIX path relative to the project.
        sha256: Of the bytes read, 64 hex digits; empty where the file was refused unread.
        size: Bytes.
        mtime_ns: Modification time.
        type: Extension without dot, lower case.
        decision: ``ingested`` or ``skipped``.
        reason: Why it was skipped, or how it was decoded; one phrase.
    """

    path: str
    sha256: str
    size: int
    mtime_ns: int
    type: str
    decision: str
    reason: str = ""


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
    from ragstream_core.text.terms import term_blob

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
    """A committed generation.

    Attributes:
        n: Number, ≥ 1.
        digest: Digest of the live rows and both fingerprints, 64 hex digits.
        row_sum: Order-independent sum over the live rows.
        parent: Number of the one before, 0 for the first.
        created: ISO 8601, UTC.
        index_fp: Fingerprint of model, chunker and parsers.
        embed_fp: Fingerprint of the model.
        counts: ``files``, ``chunks``.
        provenance: What made it; free JSON, e.g. a run id.
    """

    n: int
    digest: str
    row_sum: int
    parent: int
    created: str
    index_fp: str
    embed_fp: str
    counts: Mapping[str, int]
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Change:
    """What one ingest found, besides the staged chunks.

    Attributes:
        opened: Manifest rows that become live: new, updated or newly skipped files.
        closed: Paths whose live rows end: updated, deleted, or skipped from now on.
        touched: Rows whose bytes are the same; size, mtime and reason are rewritten.
        signatures: Signatures to record.
        forgotten: Paths whose signature is dropped, so that the next ingest looks again.
    """

    opened: list[FileEntry] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    touched: list[FileEntry] = field(default_factory=list)
    signatures: dict[str, Signature] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ScanStamp:
    """When the scan behind an ingest began, and under which settings."""

    started_ns: int
    scan_fp: str
