"""What the next ingest would embed, about, and how long it would take.

Stdlib only and read-only: this stands behind `ragstream status`. Chunks are reckoned from the bytes
of the files, by what each type came to in the index; for a type that it has little of, by a look
into a few of the files. The speed is that of the last ingests on this machine; before the first it
is a default, and says so.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ragstream_core.errors import RagstreamError
from ragstream_core.index import catalog_read
from ragstream_core.index.schema import CATALOG_NAME, LIVE, connect_reader, guard
from ragstream_core.ingestion.file_types import file_type, kind_of
from ragstream_core.ingestion.index_store import EMBED_SECONDS, EMBEDDED, Generation
from ragstream_core.ingestion.parsers.engines import untagged
from ragstream_core.ingestion.scan import Scan
from ragstream_core.text.chunk_profiles import PROFILES, ChunkProfile

DEFAULT_CHUNKS_PER_S = 20.0
"""All-MiniLM-L6-v2 on two cores embeds about so many chunks of 250 tokens a second."""

BYTES_PER_CHUNK = {"text": 700, "code": 670, "pdf": 1_500, "office": 3_000}
"""Bytes of a file a chunk of 250 tokens, by kind, for what no look can tell: Office files, and PDFs
whose text is packed in an unusual way."""

FILL = 0.82
"""Share of its size that a chunk holds of a text that is new: it ends with a sentence or a section,
and repeats the end of the one before. 0.77 to 0.92 in 30 manuals, packages and libraries."""

_CHARACTERS_PER_TOKEN = 4
_PRIOR_CHUNKS = 4  # so much does a look count beside what was read here
_LITTLE = 32  # chunks: with more of a type there is no look
_MEASURED_FROM = 32  # texts: fewer say nothing about the speed


class Known(NamedTuple):
    """What the catalog knows.

    Attributes:
        skipped: (path, reason) of documents that were read or looked at and not taken.
        read: Live (bytes, chunks) of the files that have chunks, by type.
        chunks_per_s: Of the newest ingest that says something about it; 0 where none does.
        looked: Tokens a byte by type, from a look into files that were not read yet.
    """

    skipped: tuple[tuple[str, str], ...] = ()
    read: Mapping[str, tuple[int, int]] = MappingProxyType({})
    chunks_per_s: float = 0.0
    looked: Mapping[str, float] = MappingProxyType({})


class Forecast(NamedTuple):
    """What an ingest would do, about; texts that have a vector already cost nothing.

    Attributes:
        files: Files to read whose content is new.
        chunks: Their chunks, estimated from their bytes, type by type.
        seconds: Wall time inside the model.
        chunks_per_s: The speed this is reckoned with.
        measured: Whether that speed was measured here; else it is a default.
    """

    files: int
    chunks: int
    seconds: float
    chunks_per_s: float
    measured: bool


def known(index_dir: Path, newest: Generation | None) -> Known:
    """Ask the catalog; nothing is known where it cannot be read."""
    if newest is None:
        return Known()
    try:
        with guard(index_dir / CATALOG_NAME):
            db = connect_reader(index_dir)
            try:
                return _known(db, newest)
            finally:
                db.close()
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
    left_out = tuple((path, untagged(reason)) for path, reason in skipped)
    by_type = {kind: (size, chunks) for kind, size, chunks in read}
    return Known(left_out, by_type, _speed(db))


def _speed(db: sqlite3.Connection) -> float:
    for made in reversed(catalog_read.generations(db)):
        try:
            texts = int(made.provenance.get(EMBEDDED, 0))
            seconds = float(made.provenance.get(EMBED_SECONDS, 0))
        except ValueError:
            continue
        if texts >= _MEASURED_FROM and seconds > 0:
            return texts / seconds
    return 0.0


def peeked(folder: Path, paths: Iterable[str], found: Scan, known: Known) -> Known:
    """Return what is known, with a look into files of the types that little was read of.

    Args:
        folder: The project's documents.
        paths: New and changed files.
        found: The scan, for their sizes.
        known: From `known`.
    """
    sizes = {
        path: found.files[path][0]
        for path in paths
        if known.read.get(file_type(path), (0, 0))[1] < _LITTLE
    }
    if not sizes:
        return known
    from ragstream_core.ingestion.sample import tokens_per_byte

    return known._replace(looked=tokens_per_byte(folder, sizes))


def forecast(
    paths: Iterable[str],
    found: Scan,
    known: Known,
    *,
    profile: ChunkProfile = PROFILES["default"],
) -> Forecast:
    """Reckon what an ingest of some files would embed.

    Args:
        paths: New and changed files.
        found: The scan, for their sizes.
        known: From `known`.
        profile: How they would be cut; counts where little of a type was read before.
    """
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
