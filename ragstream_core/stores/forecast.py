"""What the next ingest would embed, about, and how long it would take.

Stdlib only and read-only: this stands behind `ragstream status`. Chunks are reckoned from the bytes
of the files, by what each type came to in the index; for a type that it does not have there are
usual figures, and a look into a few PDFs. The speed is that of the last ingests on this machine;
before the first it is a default, and says so.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ragstream_core.chunking.profiles import PROFILES, ChunkProfile
from ragstream_core.errors import RagstreamError
from ragstream_core.ingestion.file_types import file_type, kind_of
from ragstream_core.ingestion.index_store import EMBED_SECONDS, EMBEDDED, Generation
from ragstream_core.ingestion.parsers.engines import untagged
from ragstream_core.ingestion.scan import Scan
from ragstream_core.stores import catalog_read
from ragstream_core.stores.schema import CATALOG_NAME, LIVE, connect_reader, guard

DEFAULT_CHUNKS_PER_S = 20.0
"""All-MiniLM-L6-v2 on two cores embeds about so many chunks of 250 tokens a second."""

BYTES_PER_CHUNK = {"text": 700, "code": 670, "pdf": 1_500, "office": 3_000}
"""Bytes of a file a chunk of 250 tokens, by kind, and by type where it differs. Measured over 4 to
12 manuals, packages and libraries each, but for Word, Excel and PowerPoint, which are assumed."""

BYTES_PER_CHUNK_OF = {"html": 1_200, "htm": 1_200, "json": 480, "yml": 480, "yaml": 480}
_CHARACTERS_PER_TOKEN = 4
_SHOWN_PER_CHUNK = 600  # characters that a PDF shows without its spaces
_PEEKED, _PEEK_BYTES = 6, 2_000_000
_PRIOR_CHUNKS = 4  # so much do the figures above count beside what was read here
_MEASURED_FROM = 32  # texts: fewer say nothing about the speed


class Known(NamedTuple):
    """What the catalog knows.

    Attributes:
        skipped: (path, reason) of documents that were read or looked at and not taken.
        read: Live (bytes, chunks) of the files that have chunks, by type.
        chunks_per_s: Of the newest ingest that says something about it; 0 where none does.
    """

    skipped: tuple[tuple[str, str], ...] = ()
    read: Mapping[str, tuple[int, int]] = MappingProxyType({})
    chunks_per_s: float = 0.0


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


def peeked(folder: Path, paths: Iterable[str], known: Known) -> Known:
    """Return what is known, with a look into a few PDFs where none was read before.

    The size of a PDF says little: fonts and pictures are most of it.

    Args:
        folder: The project's documents.
        paths: New and changed files.
        known: From `known`.
    """
    waiting = [path for path in paths if file_type(path) == "pdf"]
    if not waiting or "pdf" in known.read:
        return known
    from ragstream_core.ingestion.loader import open_beneath
    from ragstream_core.ingestion.names import decode_name
    from ragstream_core.ingestion.parsers.pdf_peek import shown_characters

    size = chunks = 0
    for path in waiting[:: -(-len(waiting) // _PEEKED)]:
        with contextlib.suppress(OSError):
            file = open_beneath(folder, decode_name(path))
            with os.fdopen(file, "rb") as opened:
                data = opened.read(_PEEK_BYTES)
            if shown := shown_characters(data):
                size += len(data)
                chunks += -(-shown // _SHOWN_PER_CHUNK)
    return known._replace(read={**known.read, "pdf": (size, chunks)}) if chunks else known


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
    """Return how many bytes of a type make a chunk: what was read here, beside the usual figure."""
    usual = BYTES_PER_CHUNK_OF.get(kind, BYTES_PER_CHUNK[kind_of(kind)])
    tokens = profile.max_tokens / (_CHARACTERS_PER_TOKEN if profile.unit == "characters" else 1)
    scaled = usual * tokens / PROFILES["default"].max_tokens
    size, chunks = known.read.get(kind, (0, 0))
    return (size + _PRIOR_CHUNKS * scaled) / (chunks + _PRIOR_CHUNKS)
