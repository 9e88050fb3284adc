"""The structural check of an index: what asset checks and `doctor` show. Read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ragstream_core.errors import RagstreamError
from ragstream_core.index import catalog_read, vectors
from ragstream_core.index.erase import tombstones
from ragstream_core.index.schema import CATALOG_NAME, LIVE, connect_reader, guard
from ragstream_core.index.view_cache import load_rows
from ragstream_core.ingestion.index_store import Generation
from ragstream_core.records.identity import chunk_id, sha256_hex

NameChunk = Callable[[str, str, int], str]


class Finding(NamedTuple):
    """One thing that is not as it should be.

    Attributes:
        check: ``catalog``, ``ids``, ``digest``, ``vectors``, ``texts``, ``search``,
            ``erasing`` or ``derived``.
        message: What and where.
    """

    check: str
    message: str


def check(
    index_dir: Path, *, read_texts: bool = True, name_chunk: NameChunk = chunk_id
) -> list[Finding]:
    """Check the newest generation of a project.

    Live ids are exactly the manifest's; the digest recomputed from all rows is the generation's;
    every chunk has a finite unit vector with its crc; every text has its hash.

    Args:
        index_dir: The project's folder below the index root.
        read_texts: Hash every live text again.
        name_chunk: Makes a chunk's id of its path, its file's sha256 and its index.

    Returns:
        The findings; empty for a sound index.
    """
    path = index_dir / CATALOG_NAME
    try:
        with guard(path):
            db = connect_reader(index_dir)
            try:
                db.execute("BEGIN")
                return _check(db, index_dir, read_texts=read_texts, name_chunk=name_chunk)
            finally:
                db.close()
    except (RagstreamError, OSError) as error:
        return [Finding("catalog", str(error))]


def _check(
    db: sqlite3.Connection, index_dir: Path, *, read_texts: bool, name_chunk: NameChunk
) -> list[Finding]:
    answer = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if answer != "ok":
        return [Finding("catalog", f"{index_dir / CATALOG_NAME}: {answer}")]
    newest = catalog_read.latest(db)
    if newest is None:
        return [Finding("catalog", f"{index_dir} has no generation yet")]
    findings = [
        Finding("erasing", f"the erasing of {path} was interrupted") for path in tombstones(db)
    ]
    findings += _ids(db, newest, name_chunk)
    if not catalog_read.digest_matches(newest, catalog_read.row_sum(db, newest.n)):
        findings.append(Finding("digest", f"generation {newest.n} does not have its digest"))
    if read_texts:
        findings += _texts(db, newest)
    return findings + _vectors(db, index_dir, newest)


def _ids(db: sqlite3.Connection, newest: Generation, name_chunk: NameChunk) -> list[Finding]:
    files = {
        e.path: e.sha256
        for e in catalog_read.live_files(db, newest.n).values()
        if e.decision == "ingested"
    }
    findings = []
    indices: dict[str, int] = {}
    rows = db.execute(
        f"SELECT chunk_id, path, sha256, chunk_idx FROM chunks WHERE {LIVE} "
        "ORDER BY path, chunk_idx", {"n": newest.n},
    )  # fmt: skip
    total = 0
    for identifier, path, sha256, idx in rows:
        total += 1
        if files.get(path) != sha256 or identifier != name_chunk(path, sha256, idx):
            findings.append(Finding("ids", f"chunk {identifier} is not of a live file"))
        elif idx != indices.get(path, 0):
            findings.append(Finding("ids", f"chunks of {path} are not numbered 0…N-1"))
        indices[path] = idx + 1
    if (len(files), total) != (newest.counts.get("files"), newest.counts.get("chunks")):
        findings.append(Finding("ids", f"generation {newest.n} does not have its counts"))
    return findings


def _texts(db: sqlite3.Connection, newest: Generation) -> list[Finding]:
    rows = db.execute(
        "SELECT DISTINCT c.text_hash, t.text FROM chunks c "
        f"LEFT JOIN texts t ON t.text_hash = c.text_hash WHERE {LIVE}", {"n": newest.n},
    )  # fmt: skip
    return [
        Finding("texts", f"text {text_hash} is missing or damaged")
        for text_hash, text in rows
        if not isinstance(text, str) or sha256_hex(text) != text_hash
    ]


def _vectors(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> list[Finding]:
    try:
        loaded = load_rows(db, index_dir, newest)
    except RagstreamError as error:
        return [Finding("vectors", error.message)]
    bad = int((~vectors.unit_rows(loaded.vectors)).sum())
    return [Finding("vectors", f"{bad} vectors are not finite unit vectors")] if bad else []
