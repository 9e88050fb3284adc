"""What `ingest --verify` and `--rebuild` find besides the vectors of the model at hand.

A damaged text is read again from its file. A damaged vector of another model cannot be made again
here: it goes, with the generations that nobody can read without it.

The check that reads everything: every text hashed, every vector by its crc and by a search.

Counts and samples pass on broken stores, so nothing is sampled here: a run over ``n/t`` looks at
the n-th of t parts by text hash, and t such runs look at every row of every kept generation.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import RagstreamError, UsageError
from ragstream_core.index import catalog_read, retention, vectors
from ragstream_core.index.generations import read
from ragstream_core.index.schema import CATALOG_NAME, transaction
from ragstream_core.index.vectors import broken_vectors
from ragstream_core.index.verify_structure import Finding
from ragstream_core.index.view_cache import load_rows
from ragstream_core.ingestion.index_store import Generation
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.ports import F32


_BLOCK = 1024
_SELF_MARGIN = 1e-5
_SHOWN = 5


class Part(NamedTuple):
    """The n-th of t parts, 1 ≤ n ≤ t."""

    n: int
    of: int

    def holds(self, text_hash: str) -> bool:
        """Say whether a text belongs to this part; damage of the hash itself is everyone's."""
        try:
            return int(text_hash[:8], 16) % self.of == self.n - 1
        except (TypeError, ValueError):
            return True


WHOLE = Part(1, 1)


def parse_part(text: str) -> Part:
    """Read ``n/t``.

    Raises:
        UsageError: Not two numbers with 1 ≤ n ≤ t.
    """
    n, slash, of = text.partition("/")
    if not (slash and n.isascii() and n.isdigit() and of.isascii() and of.isdigit()) or not (
        1 <= int(n) <= int(of)
    ):
        raise UsageError(f"{text!r} is no part", hint="n/t, e.g. 1/1 for all or 2/7 for a seventh")
    return Part(int(n), int(of))


def read_data(index_dir: Path, part: Part) -> list[Finding]:
    """Check texts, terms and vectors of all kept generations; read-only.

    Args:
        index_dir: The project's folder below the index root.
        part: Which part of the texts.

    Returns:
        The findings; empty where every byte is what was committed.
    """
    found: list[Finding] = []
    try:
        read(index_dir, lambda db: found.extend(findings(db, index_dir, part)))
        if not found:
            read(index_dir, lambda db: found.extend(_searched(db, index_dir, part)))
    except (RagstreamError, OSError) as error:
        found.append(Finding("catalog", getattr(error, "message", str(error))))
    return found


def _searched(db: sqlite3.Connection, index_dir: Path, part: Part) -> list[Finding]:
    newest = catalog_read.latest(db)
    if newest is None:
        return []
    lonely = _not_found(db, index_dir, newest=newest, part=part)
    return _summed("search", "vectors do not find themselves", lonely)


def findings(db: sqlite3.Connection, index_dir: Path, part: Part = WHOLE) -> Iterator[Finding]:
    """Yield what is not as it was committed in a part, over an open catalog; searches nothing.

    Raises:
        RagstreamError: A vector file lost its end.
        OSError: A vector file is gone.
        sqlite3.DatabaseError: A row cannot be read.
    """
    for found in catalog_read.generations(db):
        catalog_read.live_files(db, found.n)  # raises where a row fails its crc
        if not catalog_read.digest_matches(found, catalog_read.row_sum(db, found.n)):
            yield Finding("digest", f"generation {found.n} does not have its digest")
    yield from _summed("texts", "texts do not have their hash or crc", bad_texts(db, part))
    headings = db.execute("SELECT chunk_id, heading_terms, heading_crc FROM chunks")
    bad = (i for i, terms, crc in headings if not _has_crc(terms, crc))
    yield from _summed("texts", "headings do not have their crc", bad)
    lost = db.execute(
        "SELECT DISTINCT c.text_hash FROM chunks c LEFT JOIN texts t USING(text_hash) "
        "WHERE t.text_hash IS NULL"
    )
    yield from _summed("texts", "texts are missing", (h for (h,) in lost))
    yield from _summed("vectors", "vectors fail their crc", _bad_vectors(db, index_dir, part))


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
        "SELECT text_hash, text, terms, terms_crc FROM texts"
    ):
        if part.holds(text_hash):
            whole = isinstance(text, str) and sha256_hex(text) == text_hash
            if not (whole and _has_crc(terms, crc)):
                yield text_hash


def _bad_vectors(db: sqlite3.Connection, index_dir: Path, part: Part) -> Iterator[str]:
    for embed_fp, epoch, rows, dimension in db.execute(
        "SELECT embed_fp, epoch, rows, dimension FROM vector_files"
    ).fetchall():
        path = vectors.vector_path(index_dir, embed_fp, epoch)
        mapped = vectors.map_rows(path, rows=rows, dimension=dimension)
        named = db.execute(
            "SELECT text_hash, epoch, row, crc32 FROM vectors WHERE embed_fp = ?", (embed_fp,)
        )
        while block := named.fetchmany(_BLOCK):
            mine = [r for r in block if part.holds(r[0])]
            here = [r for r in mine if vectors.names_row(r[1], r[2], in_epoch=epoch, rows=rows)]
            yield from {r[0] for r in mine} - {r[0] for r in here}
            yield from _damaged_rows(mapped, here)


def _damaged_rows(mapped: F32, rows: list[tuple[str, int, int, int]]) -> Iterator[str]:
    if not rows:
        return
    gathered = mapped[[row for _, _, row, _ in rows]]
    whole = vectors.intact(gathered, [r[0] for r in rows], [r[3] for r in rows])
    unit = vectors.unit_rows(gathered)
    yield from (r[0] for r, ok, u in zip(rows, whole, unit, strict=True) if not (ok and u))


def _not_found(
    db: sqlite3.Connection, index_dir: Path, *, newest: Generation, part: Part
) -> Iterator[str]:
    """Search the newest generation for each of its own vectors: it must come first, or level."""
    import numpy as np

    loaded = load_rows(db, index_dir, newest)
    mine = [i for i, chunk in enumerate(loaded.chunk_ids) if part.holds(sha256_hex(chunk))]
    for at in range(0, len(mine), _BLOCK):
        block = np.asarray(mine[at : at + _BLOCK])
        scores = loaded.vectors[block] @ loaded.vectors.T
        own = scores[np.arange(len(block)), block]
        lonely = block[own < scores.max(axis=1) - _SELF_MARGIN]
        yield from (loaded.chunk_ids[i] for i in lonely)


_LOST = (
    "SELECT DISTINCT c.text_hash FROM chunks c LEFT JOIN texts t ON t.text_hash = c.text_hash "
    "WHERE t.text_hash IS NULL"
)
_NAMES = (
    "SELECT 1 FROM chunks c JOIN broken b ON b.text_hash = c.text_hash "
    "WHERE c.from_gen <= :n AND (c.to_gen IS NULL OR c.to_gen > :n) LIMIT 1"
)


class DamagedTexts(NamedTuple):
    """Texts that are missing or do not have their hash or their terms' crc.

    Attributes:
        hashes: Of the texts.
        paths: Files of the newest generation that have one of them.
    """

    hashes: frozenset[str]
    paths: frozenset[str]


def damaged_texts(db: sqlite3.Connection) -> DamagedTexts:
    """Hash every stored text; reads all of them."""
    bad = {str(text_hash) for text_hash in bad_texts(db)}
    bad |= {text_hash for (text_hash,) in db.execute(_LOST)}
    query = "SELECT DISTINCT path FROM chunks WHERE text_hash = ? AND to_gen IS NULL"
    paths = (path for text_hash in bad for (path,) in db.execute(query, (text_hash,)))
    return DamagedTexts(frozenset(bad), frozenset(paths))


def mend_rest(db: sqlite3.Connection, index_dir: Path, embed_fp: str) -> list[str]:
    """Drop what is damaged and cannot be made again; say what is damaged still.

    Args:
        db: The catalog, writable, with the staged chunks of this ingest.
        index_dir: Where the vector files lie.
        embed_fp: The model at hand; its own vectors are `broken_vectors`' business.

    Returns:
        A sentence for each thing that went or is still damaged.

    Raises:
        IntegrityError: The vector file of another model lost its end.
        OperationFailed: The catalog could not be written.
    """
    others = "SELECT embed_fp FROM vector_files WHERE embed_fp <> ? ORDER BY embed_fp"
    said = _drop_nameless(db, index_dir)
    for (other,) in db.execute(others, (embed_fp,)).fetchall():
        said += _drop_broken(db, index_dir, other)
    return said + [f"still damaged: {found}" for found in _findings(db, index_dir)]


def _drop_nameless(db: sqlite3.Connection, index_dir: Path) -> list[str]:
    """Drop damaged rows that stand for no text of a chunk, e.g. one whose hash was damaged."""
    bad = [(text_hash,) for text_hash in bad_texts(db)]
    nameless = "NOT EXISTS (SELECT 1 FROM chunks c WHERE c.text_hash = texts.text_hash)"
    with transaction(db, index_dir / CATALOG_NAME):
        delete = f"DELETE FROM texts WHERE text_hash = ? AND {nameless}"
        went = db.executemany(delete, bad).rowcount if bad else 0
    return [f"{went} damaged rows that no chunk names were dropped"] if went > 0 else []


def _drop_broken(db: sqlite3.Connection, index_dir: Path, embed_fp: str) -> list[str]:
    broken = broken_vectors(db, index_dir, embed_fp, everything=True)
    if not broken:
        return []
    db.execute("CREATE TEMP TABLE IF NOT EXISTS broken(text_hash TEXT PRIMARY KEY)")
    db.execute("DELETE FROM broken")
    db.executemany("INSERT OR IGNORE INTO broken VALUES(?)", ((h,) for h in broken))
    made = [g.n for g in catalog_read.generations(db) if g.embed_fp == embed_fp]
    gone = [n for n in made if db.execute(_NAMES, {"n": n}).fetchone()]
    with transaction(db, index_dir / CATALOG_NAME):
        db.execute(
            "DELETE FROM vectors WHERE embed_fp = ? AND text_hash IN (SELECT * FROM broken)",
            (embed_fp,),
        )
        retention.drop(db, gone, unnamed=False)
    which = f", and with them generation {', '.join(map(str, gone))}" if gone else ""
    return [
        f"{len(broken)} damaged vectors of the earlier model {embed_fp[:12]}, which only that "
        f"model could make again, were dropped{which}"
    ]


def _findings(db: sqlite3.Connection, index_dir: Path) -> list[str]:
    try:
        return [finding.message for finding in findings(db, index_dir)]
    except (RagstreamError, OSError, sqlite3.DatabaseError) as error:
        return [getattr(error, "message", str(error))]
