"""Compare an index with what was committed, and make again what is damaged.

`verify_structure` takes seconds and reads the newest generation. `verify_data` reads every text and
every vector of all generations, or one of n parts of them: damage is never sampled, since counts
and samples pass on broken stores. Neither changes anything.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ragstream_core.errors import Advice, ProjectLocked, RagstreamError, UsageError, worded
from ragstream_core.index import derived, remove, vectors
from ragstream_core.index.generation_rows import load_rows
from ragstream_core.index.rows import (
    Generation,
    all_generations,
    digest_matches,
    latest_generation,
    live_files,
    row_sum,
)
from ragstream_core.index.schema import (
    CATALOG_NAME,
    LIVE,
    connect_writer,
    guard,
    project_lock,
    read,
    transaction,
)
from ragstream_core.index.vectors import VectorFile, broken_vectors
from ragstream_core.records.identity import chunk_id, sha256_hex

NameChunk = Callable[[str, str, int], str]

_BLOCK = 1024
_SHOWN = 5
_WITHOUT_TEXT = (
    "SELECT DISTINCT c.text_hash FROM chunks c LEFT JOIN texts t ON t.text_hash = c.text_hash "
    "WHERE t.text_hash IS NULL"
)
_NO_VECTOR = (
    "SELECT c.chunk_id FROM chunks c LEFT JOIN vectors v "
    f"ON v.embed_fp = :fp AND v.text_hash = c.text_hash WHERE {LIVE} AND v.text_hash IS NULL"
)


class Finding(NamedTuple):
    """One thing that is not as it should be, for indexes, the history and what is made of them."""

    check: str  # which check says so, e.g. ``catalog``, ``vectors`` or ``erasing``
    message: str  # what and where
    subject: str = ""  # the file whose erasing was interrupted
    remedy: Advice = ()  # what makes it good

    @property
    def run(self) -> str:
        """What makes it good, in the words of the command line."""
        return worded(self.remedy)

    def to_json(self) -> dict[str, str]:
        """Return the documented JSON form."""
        return {"check": self.check, "message": self.message, "run": self.run}


class Part(NamedTuple):
    """The n-th of t parts, 1 ≤ n ≤ t."""

    n: int
    of: int

    def holds(self, text_hash: str) -> bool:
        """Return whether a text belongs to this part; a damaged hash belongs to every part."""
        try:
            return int(text_hash[:8], 16) % self.of == self.n - 1
        except (TypeError, ValueError):
            return True


WHOLE = Part(1, 1)


def parse_part(text: str) -> Part:
    """Read ``n/t``."""
    n, slash, of = text.partition("/")
    if not (slash and n.isascii() and n.isdigit() and of.isascii() and of.isdigit()) or not (
        1 <= int(n) <= int(of)
    ):
        raise UsageError(f"{text!r} is no part", hint="n/t, e.g. 1/1 for all or 2/7 for a seventh")
    return Part(int(n), int(of))


def verify_structure(
    index_dir: Path, *, read_texts: bool = True, name_chunk: NameChunk = chunk_id
) -> list[Finding]:
    """Verify the newest generation of a project.

    Live ids are exactly the manifest's; the digest recomputed from all rows is the generation's;
    every chunk has a finite unit vector with its crc; every text has its hash.
    """

    def query(db: sqlite3.Connection) -> list[Finding]:
        answer = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            return [Finding("catalog", f"{index_dir / CATALOG_NAME}: {answer}")]
        newest = latest_generation(db)
        if newest is None:
            return [Finding("catalog", f"{index_dir} has no generation yet")]
        return [
            *(
                Finding("erasing", f"the erasing of {path} was interrupted", path)
                for path in remove.tombstones(db)
            ),
            *_ids(db, newest, name_chunk),
            *_digest(db, newest),
            *(_live_texts(db, newest) if read_texts else ()),
            *_live_vectors(db, index_dir, newest),
        ]

    try:
        return read(index_dir, query)
    except (RagstreamError, OSError) as error:
        return [Finding("catalog", getattr(error, "message", str(error)))]


def _ids(db: sqlite3.Connection, newest: Generation, name_chunk: NameChunk) -> list[Finding]:
    files = {
        e.path: e.sha256 for e in live_files(db, newest.n).values() if e.decision == "ingested"
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


def _digest(db: sqlite3.Connection, found: Generation) -> Iterator[Finding]:
    if not digest_matches(found, row_sum(db, found.n)):
        yield Finding("digest", f"generation {found.n} does not have its digest")


def _live_texts(db: sqlite3.Connection, newest: Generation) -> Iterator[Finding]:
    rows = db.execute(
        "SELECT DISTINCT c.text_hash, t.text FROM chunks c "
        f"LEFT JOIN texts t ON t.text_hash = c.text_hash WHERE {LIVE}", {"n": newest.n},
    )  # fmt: skip
    for text_hash, text in rows:
        if not isinstance(text, str) or sha256_hex(text) != text_hash:
            yield Finding("texts", f"text {text_hash} is missing or damaged")


def _live_vectors(db: sqlite3.Connection, index_dir: Path, newest: Generation) -> Iterator[Finding]:
    try:
        loaded = load_rows(db, index_dir, newest)
    except RagstreamError as error:
        yield Finding("vectors", error.message)
        return
    starts = range(0, len(loaded.places), _BLOCK)
    blocks = (loaded.vectors[at : at + _BLOCK] for at in starts)
    if bad := sum(int((~vectors.unit_rows(block)).sum()) for block in blocks):
        yield Finding("vectors", f"{bad} vectors are not finite unit vectors")


def verify_data(index_dir: Path, part: Part) -> list[Finding]:
    """Verify texts, terms and vectors of all kept generations."""
    found: list[Finding] = []
    try:
        read(index_dir, lambda db: found.extend(data_findings(db, index_dir, part)))
        read(index_dir, lambda db: found.extend(_without_vectors(db)))
    except (RagstreamError, OSError) as error:
        found.append(Finding("catalog", getattr(error, "message", str(error))))
    return found


def data_findings(db: sqlite3.Connection, index_dir: Path, part: Part = WHOLE) -> Iterator[Finding]:
    """Yield what is not as it was committed in a part, over an open catalog."""
    yield from row_findings(db, part)
    yield from _summed("texts", "texts are missing", missing_texts(db))
    yield from _summed("vectors", "vectors fail their crc", _bad_vectors(db, index_dir, part))


def row_findings(db: sqlite3.Connection, part: Part = WHOLE) -> Iterator[Finding]:
    """Yield what is wrong in the catalog's own rows: those that no ingest makes again in place."""
    for found in all_generations(db):
        live_files(db, found.n)  # raises if a row fails its crc
        yield from _digest(db, found)
    yield from _summed("texts", "texts do not have their hash or crc", bad_texts(db, part))
    headings = db.execute("SELECT chunk_id, unpack_terms(heading_terms), heading_crc FROM chunks")
    bad = (i for i, terms, crc in headings if not _has_crc(terms, crc))
    yield from _summed("texts", "headings do not have their crc", bad)


def _summed(check: str, what: str, names: Iterable[str]) -> list[Finding]:
    found = list(names)
    shown = ", ".join(str(name)[:80] for name in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [Finding(check, f"{len(found)} {what}: {shown}{more}")] if found else []


def _has_crc(blob: object, crc: int) -> bool:
    return isinstance(blob, bytes) and zlib.crc32(blob) == crc


def bad_texts(db: sqlite3.Connection, part: Part = WHOLE) -> Iterator[str]:
    """Yield the hash of each stored text that does not have it, or whose terms fail their crc."""
    for text_hash, text, terms, crc in db.execute(
        "SELECT text_hash, text, unpack_terms(terms), terms_crc FROM texts"
    ):
        if part.holds(text_hash):
            whole = isinstance(text, str) and sha256_hex(text) == text_hash
            if not (whole and _has_crc(terms, crc)):
                yield text_hash


def missing_texts(db: sqlite3.Connection) -> Iterator[str]:
    """Yield the hash of each text that a chunk names and the catalog does not hold."""
    return (text_hash for (text_hash,) in db.execute(_WITHOUT_TEXT))


def _without_vectors(db: sqlite3.Connection) -> list[Finding]:
    newest = latest_generation(db)
    at = {"n": newest.n, "fp": newest.embed_fp} if newest else {"n": 0, "fp": ""}
    rows = db.execute(_NO_VECTOR, at)
    return _summed("vectors", "chunks have no vector", (chunk for (chunk,) in rows))


def _bad_vectors(db: sqlite3.Connection, index_dir: Path, part: Part) -> Iterator[str]:
    query = "SELECT text_hash, epoch, row, crc32 FROM vectors WHERE embed_fp = ?"
    for file in VectorFile.every(db, index_dir):
        named = db.execute(query, (file.embed_fp,))
        while block := named.fetchmany(_BLOCK):
            yield from file.damaged([row for row in block if part.holds(row[0])])


_NEEDS_BROKEN = (
    "SELECT 1 FROM chunks c JOIN broken b ON b.text_hash = c.text_hash "
    "WHERE c.from_gen <= :n AND (c.to_gen IS NULL OR c.to_gen > :n) LIMIT 1"
)


def damaged_texts(db: sqlite3.Connection) -> tuple[set[str], set[str]]:
    """Hash every stored text; return those that are damaged or missing, and the files to read."""
    bad = {str(text_hash) for text_hash in bad_texts(db)} | set(missing_texts(db))
    query = "SELECT DISTINCT path FROM chunks WHERE text_hash = ? AND to_gen IS NULL"
    return bad, {path for text_hash in bad for (path,) in db.execute(query, (text_hash,))}


def repair_rest(db: sqlite3.Connection, index_dir: Path, embed_fp: str) -> list[str]:
    """Drop what is damaged and cannot be made again; name what is damaged still.

    A damaged vector of another model cannot be made again here: it goes, with the generations that
    cannot be read without it.
    """
    others = "SELECT embed_fp FROM vector_files WHERE embed_fp <> ? ORDER BY embed_fp"
    said = _drop_unnamed(db, index_dir)
    for (other,) in db.execute(others, (embed_fp,)).fetchall():
        said += _drop_broken(db, index_dir, other)
    try:
        left = [finding.message for finding in data_findings(db, index_dir)]
    except (RagstreamError, OSError, sqlite3.DatabaseError) as error:
        left = [getattr(error, "message", str(error))]
    return said + [f"still damaged: {found}" for found in left]


def _drop_unnamed(db: sqlite3.Connection, index_dir: Path) -> list[str]:
    """Drop damaged rows that stand for no text of a chunk, e.g. one whose hash was damaged."""
    bad = [(text_hash,) for text_hash in bad_texts(db)]
    unnamed = "NOT EXISTS (SELECT 1 FROM chunks c WHERE c.text_hash = texts.text_hash)"
    with transaction(db, index_dir / CATALOG_NAME):
        delete = f"DELETE FROM texts WHERE text_hash = ? AND {unnamed}"
        went = db.executemany(delete, bad).rowcount if bad else 0
    return [f"{went} damaged rows that no chunk names were dropped"] if went > 0 else []


def _drop_broken(db: sqlite3.Connection, index_dir: Path, embed_fp: str) -> list[str]:
    broken = broken_vectors(db, index_dir, embed_fp, everything=True)
    if not broken:
        return []
    db.execute("CREATE TEMP TABLE IF NOT EXISTS broken(text_hash TEXT PRIMARY KEY)")
    db.execute("DELETE FROM broken")
    db.executemany("INSERT OR IGNORE INTO broken VALUES(?)", ((h,) for h in broken))
    made = [g.n for g in all_generations(db) if g.embed_fp == embed_fp]
    gone = [n for n in made if db.execute(_NEEDS_BROKEN, {"n": n}).fetchone()]
    with transaction(db, index_dir / CATALOG_NAME):
        db.execute(
            "DELETE FROM vectors WHERE embed_fp = ? AND text_hash IN (SELECT * FROM broken)",
            (embed_fp,),
        )
        remove.drop(db, gone, unnamed=False)
    which = f", and with them generation {', '.join(map(str, gone))}" if gone else ""
    return [
        f"{len(broken)} damaged vectors of the earlier model {embed_fp[:12]}, which only that "
        f"model could make again, were dropped{which}"
    ]


def repair_derived(index_dir: Path) -> list[str]:
    """Compare term arrays and manifest with the catalog; write those that differ, and name them.

    None while another process writes the project: its ingest publishes them.
    """
    path = index_dir / CATALOG_NAME
    if not path.exists():
        return []
    try:
        with (
            project_lock(index_dir),
            contextlib.closing(connect_writer(index_dir)) as db,
            guard(path),
        ):
            derived.refresh_terms(db, path)
            newest = latest_generation(db)
            return derived.publish_again(db, index_dir, newest) if newest is not None else []
    except ProjectLocked:
        return []
