"""The check that reads everything: every text hashed, every vector by its crc and by a search.

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
from ragstream_core.ingestion.index_store import Generation
from ragstream_core.records.identity import sha256_hex
from ragstream_core.stores import catalog_read, vector_file
from ragstream_core.stores.generations import read
from ragstream_core.stores.health import Finding
from ragstream_core.stores.view_load import load_rows

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
        path = vector_file.vector_path(index_dir, embed_fp, epoch)
        mapped = vector_file.map_rows(path, rows=rows, dimension=dimension)
        named = db.execute(
            "SELECT text_hash, epoch, row, crc32 FROM vectors WHERE embed_fp = ?", (embed_fp,)
        )
        while block := named.fetchmany(_BLOCK):
            mine = [r for r in block if part.holds(r[0])]
            here = [r for r in mine if vector_file.names_row(r[1], r[2], in_epoch=epoch, rows=rows)]
            yield from {r[0] for r in mine} - {r[0] for r in here}
            yield from _damaged_rows(mapped, here)


def _damaged_rows(mapped: F32, rows: list[tuple[str, int, int, int]]) -> Iterator[str]:
    if not rows:
        return
    gathered = mapped[[row for _, _, row, _ in rows]]
    whole = vector_file.intact(gathered, [r[0] for r in rows], [r[3] for r in rows])
    unit = vector_file.unit_rows(gathered)
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
