"""What the next ingest would embed and how long it would take, from the catalog alone.

Stdlib only and read-only: this stands behind `ragstream status`. The speed is that of the last
ingests on this machine; before the first it is a default, and says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ragstream_core.errors import RagstreamError
from ragstream_core.ingestion.file_types import file_type, kind_of
from ragstream_core.ingestion.index_store import EMBED_SECONDS, EMBEDDED, Generation
from ragstream_core.ingestion.parsers.engines import untagged
from ragstream_core.ingestion.scan import Scan
from ragstream_core.stores import catalog_read
from ragstream_core.stores.schema import CATALOG_NAME, LIVE, connect_reader, guard

DEFAULT_CHUNKS_PER_S = 20.0
"""All-MiniLM-L6-v2 on two cores embeds about so many chunks of 250 tokens a second."""

BYTES_PER_CHUNK = {"text": 900, "code": 900, "pdf": 10_000, "office": 10_000}
_MEASURED_FROM = 32  # texts: fewer say nothing about the speed


class Known(NamedTuple):
    """What the catalog knows.

    Attributes:
        skipped: (path, reason) of documents that were read or looked at and not taken.
        bytes_per_chunk: Of the live text files; 0 where there are none.
        chunks_per_s: Of the newest ingest that says something about it; 0 where none does.
    """

    skipped: tuple[tuple[str, str], ...] = ()
    bytes_per_chunk: float = 0.0
    chunks_per_s: float = 0.0


class Forecast(NamedTuple):
    """What an ingest would do at most: texts that have a vector already cost nothing.

    Attributes:
        files: Files to read whose content is new.
        chunks: Their chunks, estimated from their bytes.
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
    sizes = db.execute(
        f"SELECT type, sum(size) FROM files WHERE decision = 'ingested' AND {LIVE} GROUP BY type",
        {"n": newest.n},
    ).fetchall()
    plain = all(kind_of(kind) in ("text", "code") for kind, _ in sizes)
    chunks = newest.counts.get("chunks", 0)
    per_chunk = sum(size for _, size in sizes) / chunks if chunks and plain else 0.0
    left_out = tuple((path, untagged(reason)) for path, reason in skipped)
    return Known(left_out, per_chunk, _speed(db))


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


def forecast(paths: Iterable[str], found: Scan, known: Known) -> Forecast:
    """Reckon what an ingest of some files would embed.

    Args:
        paths: New and changed files.
        found: The scan, for their sizes.
        known: From `known`.
    """
    count, chunks = 0, 0.0
    for path in paths:
        size = found.files[path][0]
        kind = kind_of(file_type(path))
        plain = kind in ("text", "code")
        count += 1
        chunks += size / (known.bytes_per_chunk if plain and known.bytes_per_chunk else
                          BYTES_PER_CHUNK[kind])  # fmt: skip
    speed = known.chunks_per_s or DEFAULT_CHUNKS_PER_S
    wanted = round(chunks) if chunks >= 1 else int(chunks > 0)
    return Forecast(count, wanted, wanted / speed, speed, known.chunks_per_s > 0)
