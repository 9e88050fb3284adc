"""What the next ingest would do: whether anything is due, and about how much and how long.

Stdlib only and read-only: this runs before every ingest and stands behind `ragstream status`.
Whatever cannot be told from signatures alone counts as pending. Chunks are reckoned from the bytes
of the files, by what each type came to in the index; for a type that it has little of, by a look
into a few of the files: those that hold certain bytes of all bytes of the type, evenly apart, so
that the mean of what they hold a byte is that of the type, however uneven they are. A look costs
about 0.2 s of CPU at most. The speed is that of the last ingests on this machine; before the first
it is a default, and says so.
"""

from __future__ import annotations

import codecs
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ragstream_core.errors import RagstreamError
from ragstream_core.index.derived import is_published
from ragstream_core.index.remove import is_unfinished
from ragstream_core.index.rows import (
    EMBED_SECONDS,
    EMBEDDED,
    Generation,
    all_generations,
    last_scan,
    latest_generation,
    pages_without_text,
    reading_remark,
    recorded_signatures,
)
from ragstream_core.index.schema import CATALOG_NAME, LIVE, reading
from ragstream_core.ingestion.document_tree import DocumentTree
from ragstream_core.ingestion.file_types import file_type, kind_of
from ragstream_core.ingestion.parsers.engines import is_current, missing, untagged
from ragstream_core.ingestion.parsers.peek import html_text, pdf_tokens
from ragstream_core.ingestion.scan import DEFAULT_RULES, Changes, Scan, ScanRules, compare
from ragstream_core.ingestion.stats import FILE_KEYS, IngestionStats
from ragstream_core.text.chunk_profiles import PROFILES, ChunkProfile
from ragstream_core.text.tokenizer import about_tokens

# All-MiniLM-L6-v2 on two cores embeds about so many chunks of 250 tokens a second.
DEFAULT_CHUNKS_PER_S = 20.0

# Bytes of a file a chunk of 250 tokens, by kind, for what no look can tell: Office files, and PDFs
# whose text is packed in an unusual way.
BYTES_PER_CHUNK = {"text": 700, "code": 670, "pdf": 1_500, "office": 3_000, "picture": 200_000}

# Share of its size that a chunk holds of a text that is new: it ends with a sentence or a section,
# and repeats the end of the one before. 0.77 to 0.92 in 30 manuals, packages and libraries.
FILL = 0.82

_CHARACTERS_PER_TOKEN = 4
_PRIOR_CHUNKS = 4  # so much does a look count beside what was read here
_LITTLE = 32  # chunks: with more of a type there is no look
_MEASURED_FROM = 32  # texts: fewer say nothing about the speed


# Begins the reason of a damaged catalog; what to run stands on its second line.
UNREADABLE = "the catalog cannot be read"


# The reason where settings, or what reads a type, are others than at the last ingest.
SETTINGS = "settings changed"


# Most files of a type, and most bytes of all types together; of PDF below.
FILES, BYTES = 24, 1_200_000

# Most PDFs, and most bytes of each.
PDF_FILES, PDF_BYTES = 6, 4_000_000

_HTML = ("html", "htm")
_PACKED = frozenset(  # or hold more pictures than words
    ["docx", "docm", "dotx", "pptx", "xlsx", "mht", "mhtml", "epub", "odt", "odp", "ods", "rtf",
     "eml", "mbox", "ipynb", "parquet", "doc", "xls", "ppt", "msg", "slack"]
)  # fmt: skip


class Pending(NamedTuple):
    """Why an ingest is due."""

    reason: str
    changes: Changes | None  # differences by signature; None where the catalog could not tell


class Inspection(NamedTuple):
    """A project's folder against its catalog."""

    found: Scan
    newest: Generation | None
    pending: Pending | None
    away: int = 0  # known documents of folders that are not there

    def idle_stats(self, project: str, *, seconds: float) -> IngestionStats:
        """Return the stats of the ingest that is not needed."""
        scanned = len(self.found.files)
        newest = self.newest
        counts = newest.counts if newest else {}
        files = dict.fromkeys(FILE_KEYS, 0)
        # a file is "skipped" each time it is met, read or not
        known = scanned + self.away
        skipped = known - counts.get("files", 0)
        files.update(scanned=scanned, unchanged=known - skipped, skipped=skipped)
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
    index_dir: Path, documents: DocumentTree, *, scan_fp: str, rules: ScanRules = DEFAULT_RULES
) -> Inspection:
    """Compare a project's documents with its catalog by signatures alone."""
    found = documents.scan(rules)
    if not (index_dir / CATALOG_NAME).exists():
        return Inspection(found, None, Pending("never ingested", None))
    try:
        with reading(index_dir) as db:
            newest = latest_generation(db)
            stamp = last_scan(db)
            recorded = recorded_signatures(db)
            unfinished = is_unfinished(db)
    except (RagstreamError, ValueError) as error:
        return Inspection(found, None, Pending(f"{UNREADABLE}: {error}", None))
    found = documents.guarded(found, (), recorded)
    changes = compare(found, recorded, last_started_ns=stamp.started_ns)
    # a folder that is not there as a whole is no work: its documents stay until it is back
    gone = {root.label for root, _ in documents.absent(found)}
    unlisted = any(top not in gone for top, _ in found.unreadable)
    reason = _reason(changes, unlisted=unlisted, same_settings=stamp.scan_fp == scan_fp)
    if not reason and unfinished:
        reason = "an earlier ingest did not finish"
    if not reason and newest is not None and not is_published(index_dir, newest):
        reason = "derived files are out of date"
    away = sum(path not in found.files for path in recorded) if gone else 0
    return Inspection(found, newest, Pending(reason, changes) if reason else None, away)


def _reason(changes: Changes, *, unlisted: bool, same_settings: bool) -> str:
    if not same_settings:
        return SETTINGS
    if changes.any():
        return "files changed"
    return "a folder cannot be listed" if unlisted else ""


def without_reader(found: Scan) -> dict[str, str]:
    """Return the files whose reader is not installed, each with what has to be installed."""
    lacking = {kind: missing(kind) for kind in {file_type(path) for path in found.files}}
    return {path: lacking[file_type(path)] for path in found.files if lacking[file_type(path)]}


class Known(NamedTuple):
    """What the catalog knows."""

    # (path, reason) of documents that were read or looked at and not taken
    skipped: tuple[tuple[str, str], ...] = ()
    # live (bytes, chunks) of the files that have chunks, by type
    read: Mapping[str, tuple[int, int]] = MappingProxyType({})
    # of the newest ingest that says something about it; 0 where none does
    chunks_per_s: float = 0.0
    # tokens a byte by type, from a look into files that were not read yet
    looked: Mapping[str, float] = MappingProxyType({})
    # (path, which pages) of documents with pages that have no text
    unread: tuple[tuple[str, str], ...] = ()
    # (path, what was assumed, left out or read by OCR) of documents
    assumed: tuple[tuple[str, str], ...] = ()
    # of the skipped ones, those that another reader may be able to read now
    again: tuple[str, ...] = ()


class Forecast(NamedTuple):
    """What an ingest would do, about; texts that have a vector already cost nothing."""

    files: int
    chunks: int  # their chunks, estimated from their bytes, type by type
    seconds: float  # wall time inside the model
    chunks_per_s: float  # the speed this is reckoned with
    measured: bool  # whether that speed was measured here; else it is a default


def known(index_dir: Path, newest: Generation | None) -> Known:
    """Ask the catalog; nothing is known where it cannot be read."""
    if newest is None:
        return Known()
    try:
        with reading(index_dir) as db:
            return _known(db, newest)
    except (RagstreamError, ValueError):
        return Known()


def _known(db: sqlite3.Connection, newest: Generation) -> Known:
    skipped = db.execute(
        f"SELECT path, reason FROM files WHERE decision = 'skipped' AND {LIVE} ORDER BY path",
        {"n": newest.n},
    ).fetchall()
    read = db.execute(
        "SELECT type, sum(size), sum(chunks) FROM files JOIN (SELECT path AS of, count(*) AS chunks"
        " FROM chunks WHERE to_gen IS NULL GROUP BY path) ON of = path"
        f" WHERE decision = 'ingested' AND {LIVE} GROUP BY type",
        {"n": newest.n},
    ).fetchall()
    notes = db.execute(
        "SELECT path, reason FROM files WHERE decision = 'ingested' AND (reason LIKE '% no text%'"
        " OR reason LIKE '% not read%' OR reason LIKE '%(assumed)%' OR reason LIKE '% left out:%'"
        " OR reason LIKE '% accepted: %' OR reason LIKE '% without a value: %'"
        " OR reason LIKE '%read by OCR%')"
        f" AND {LIVE} ORDER BY path",
        {"n": newest.n},
    ).fetchall()
    without = tuple((path, told) for path, reason in notes if (told := pages_without_text(reason)))
    assumed = tuple((path, told) for path, reason in notes if (told := reading_remark(reason)))
    left_out = tuple((path, untagged(reason)) for path, reason in skipped)
    by_type = {kind: (size, chunks) for kind, size, chunks in read}
    again = tuple(path for path, reason in skipped if not is_current(reason, file_type(path)))
    return Known(left_out, by_type, _speed(db), unread=without, assumed=assumed, again=again)


def _speed(db: sqlite3.Connection) -> float:
    for made in reversed(all_generations(db)):
        try:
            texts = int(made.provenance.get(EMBEDDED, 0))
            seconds = float(made.provenance.get(EMBED_SECONDS, 0))
        except ValueError:
            continue
        if texts >= _MEASURED_FROM and seconds > 0:
            return texts / seconds
    return 0.0


def peeked(documents: DocumentTree, paths: Iterable[str], found: Scan, known: Known) -> Known:
    """Return what is known, with a look into files of the types that little was read of."""
    sizes = {
        path: found.files[path][0]
        for path in paths
        if known.read.get(file_type(path), (0, 0))[1] < _LITTLE
    }
    if not sizes:
        return known
    return known._replace(looked=tokens_per_byte(documents, sizes))


def forecast(
    paths: Iterable[str],
    found: Scan,
    known: Known,
    *,
    profile: ChunkProfile = PROFILES["default"],
) -> Forecast:
    """Reckon what an ingest of some files would embed."""
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for path in paths:
        sizes[file_type(path)].append(found.files[path][0])
    count, chunks = sum(map(len, sizes.values())), 0.0
    for kind, each in sizes.items():
        ratio = _bytes_per_chunk(kind, known, profile)
        chunks += sum(max(1.0, size / ratio) for size in each if size)
    speed = known.chunks_per_s or DEFAULT_CHUNKS_PER_S
    wanted = round(chunks)
    return Forecast(count, wanted, wanted / speed, speed, known.chunks_per_s > 0)


def _bytes_per_chunk(kind: str, known: Known, profile: ChunkProfile) -> float:
    """Return how many bytes of a type make a chunk: what was read here, beside the look."""
    tokens = profile.max_tokens / (_CHARACTERS_PER_TOKEN if profile.unit == "characters" else 1)
    if kind in known.looked:
        likely = FILL * tokens / known.looked[kind]
    else:
        likely = BYTES_PER_CHUNK[kind_of(kind)] * tokens / PROFILES["default"].max_tokens
    size, chunks = known.read.get(kind, (0, 0))
    return (size + _PRIOR_CHUNKS * likely) / (chunks + _PRIOR_CHUNKS)


def tokens_per_byte(documents: DocumentTree, sizes: Mapping[str, int]) -> dict[str, float]:
    """Return about how many tokens a byte of each type holds, of the types that a look can tell."""
    of_type: dict[str, dict[str, int]] = {}
    for path in sorted(sizes):
        if sizes[path] and (kind := file_type(path)) not in _PACKED:
            of_type.setdefault(kind, {})[path] = sizes[path]
    each = BYTES // FILES // max(1, len(of_type))
    ratios = {}
    for kind, paths in of_type.items():
        files, limit = (PDF_FILES, PDF_BYTES) if kind == "pdf" else (FILES, each)
        seen = [
            (_tokens(data, kind) / len(data), times)
            for path, times in _picked(paths, files).items()
            if (data := _beginning(documents, path, limit))
        ]
        mean = sum(one * times for one, times in seen) / max(1, sum(times for _, times in seen))
        if mean:
            ratios[kind] = mean
    return ratios


def _picked(sizes: Mapping[str, int], count: int) -> Counter[str]:
    """Return the files that hold each of so many bytes, evenly apart, and how many of them."""
    step = sum(sizes.values()) / count
    picked, at = Counter[str](), 0
    for path, size in sizes.items():
        before, at = round(at / step), at + size
        if times := round(at / step) - before:
            picked[path] = times
    return picked


def _beginning(documents: DocumentTree, path: str, limit: int) -> bytes:
    try:
        with os.fdopen(documents.open(path), "rb") as opened:
            return opened.read(limit)
    except OSError:
        return b""


def _tokens(data: bytes, kind: str) -> int:
    if kind == "pdf":
        return pdf_tokens(data)
    if kind in _HTML:
        return about_tokens(html_text(data))
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return about_tokens(data.decode("utf-16" if utf16 else "utf-8", "replace"))
