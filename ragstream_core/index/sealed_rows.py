"""What a check of the newest generation's rows came to, in a sealed file for the next process.

The file says of which generation it is, and of the vectors their file's state and crc. While the
vector file has that state no byte of it was written. Of a generation that came after, only rows
that ended or came are read from the catalog: less and plus them, the sum of the rows must be that
of the new digest. A file that is damaged or cannot be followed up is as good as none.
"""

from __future__ import annotations

import contextlib
import sqlite3
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError
from ragstream_core.index import catalog_read
from ragstream_core.index.generation_rows import (
    COLUMNS,
    VECTORS,
    GenerationRows,
    ReadRows,
    file_state,
)
from ragstream_core.index.rows import Generation
from ragstream_core.index.schema import CHUNK_CANON, FILE_CANON
from ragstream_core.index.vectors import VectorFile
from ragstream_core.platform import array_file
from ragstream_core.platform.files import replace_bytes
from ragstream_core.platform.names import CodedNames, Names
from ragstream_core.records.identity import multiset_sum

if TYPE_CHECKING:
    import numpy.typing as npt


ROWS_FILE = Path("stores", "rows-newest.bin")
"""Beside the other stores that are made from an index: erasing a file takes them all away."""
MOST_CHANGED = 1 / 8
"""Share of the rows that may have ended or come; above that all are read from the catalog.

Twice the share of the term arrays, which write what changed again with every ingest: here it is
read once, by whoever opens the generation next, and left behind as rows of that one."""
_FEW = 4_096  # to read so many costs less than 0.1 s, whatever the share
_ARRAYS = {
    "ids": "|u1", "ends": "<i8", "files": "|u1", "codes": "<i4", "places": "<i8", "crcs": "<u4",
}  # fmt: skip
ENDED = "FROM chunks c WHERE c.to_gen > :p AND c.from_gen <= :p ORDER BY c.chunk_id"
"""SQL source of the chunks that ended since generation ``:p``."""
# CROSS JOIN is SQLite's way to fix the order of a join: the few files that came, then their chunks
# by path; the other way round all chunks are read
CAME = (
    "FROM files f CROSS JOIN chunks c ON c.path = f.path AND c.to_gen IS NULL "
    "AND c.from_gen = f.from_gen {joined} WHERE f.from_gen > :p AND f.to_gen IS NULL "
    "ORDER BY c.chunk_id"
)
"""SQL source of the chunks that came since generation ``:p``, up to the newest."""
_CAME = f"SELECT {COLUMNS} " + CAME.format(joined=VECTORS)
_FILES_ENDED = f"SELECT {FILE_CANON} FROM files f WHERE f.to_gen > :p AND f.from_gen <= :p"
_FILES_CAME = f"SELECT {FILE_CANON} FROM files f WHERE f.from_gen > :p AND f.to_gen IS NULL"


@dataclass(frozen=True)
class Delta:
    """The chunks that end or come with a later generation, which is the newest.

    Attributes:
        since: The earlier generation.
        ended: Their ids, ascending.
        came: Their ids, ascending; one may have ended with another text.
    """

    since: Generation
    ended: Sequence[str]
    came: Sequence[str]

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


def kept(db: sqlite3.Connection, digest: object) -> Generation | None:
    """Return the last generation of a digest that is still kept."""
    generations = reversed(catalog_read.generations(db))
    return next((g for g in generations if g.digest == digest), None)


def save(index_dir: Path, made_for: Generation, loaded: GenerationRows) -> None:
    """Write the rows of a generation that was checked; a disk that cannot take them is no error."""
    file = loaded.file
    stamp = {
        "digest": made_for.digest, "epoch": file.epoch, "rows": file.count,
        "dimension": file.dimension, "vectors": loaded.vectors_crc, "state": loaded.state,
    }  # fmt: skip
    arrays = {
        "ids": loaded.chunk_ids.packed,
        "ends": loaded.chunk_ids.ends.astype("<i8").tobytes(),
        "files": Names.of(loaded.paths.distinct).packed,
        "codes": loaded.paths.codes.astype("<i4").tobytes(),
        "places": loaded.places.astype("<i8").tobytes(),
        "crcs": loaded.crcs.astype("<u4").tobytes(),
    }
    parts = array_file.stream(stamp, ((name, [bytes(raw)]) for name, raw in arrays.items()))
    with contextlib.suppress(OSError):
        replace_bytes(index_dir / ROWS_FILE, b"".join(parts), durable=False)


def drop(index_dir: Path) -> None:
    """Remove the file; no error where it cannot be."""
    with contextlib.suppress(OSError):
        (index_dir / ROWS_FILE).unlink()


def load(db: sqlite3.Connection, index_dir: Path, wanted: Generation) -> GenerationRows | None:
    """Return the rows of a generation, checked; None if they cannot be had from the file.

    The caller holds a read transaction.
    """
    before = _before(db, array_file.read_description(index_dir / ROWS_FILE), wanted)
    if before is None:
        return None
    try:
        data = (index_dir / ROWS_FILE).read_bytes()
        stamp, arrays = array_file.decode(data, _ARRAYS, {"digest": before.digest})
        shape = stamp["epoch"], stamp["rows"], stamp["dimension"]
        file = VectorFile.named(index_dir, before.embed_fp, *shape)
        held = _held(arrays, file, stamp["vectors"])
        if before is wanted:
            return _with_vectors(db, index_dir, held, stamp["state"])
        return _brought_up(db, index_dir, held, (before, wanted))
    except (OSError, ValueError, IntegrityError):
        return None  # also a vector file that is gone or cut off: the catalog says so


def _before(
    db: sqlite3.Connection, told: Mapping[str, Any], wanted: Generation
) -> Generation | None:
    """Return the generation that a file is of, if the wanted one can be made from it."""
    if told.get("digest") == wanted.digest:
        return wanted
    found, newest = kept(db, told.get("digest")), catalog_read.latest(db)
    if found is None or newest is None or newest.n != wanted.n:
        return None
    same = found.embed_fp == wanted.embed_fp
    return found if same and catalog_read.digest_matches(found, found.row_sum) else None


def _held(
    arrays: Mapping[str, npt.NDArray[Any]], file: VectorFile, vectors_crc: int
) -> GenerationRows:
    """Return the rows that a file holds; their vectors are not looked at."""
    import numpy as np

    ends = np.flatnonzero(arrays["files"] == 0)
    distinct = tuple(Names(arrays["files"].tobytes(), ends))
    return GenerationRows(
        Names(arrays["ids"].data, arrays["ends"]),
        CodedNames(distinct, arrays["codes"]),
        arrays["places"],
        arrays["crcs"],
        file,
        vectors_crc,
    )


def _with_vectors(
    db: sqlite3.Connection, index_dir: Path, held: GenerationRows, checked: Sequence[int]
) -> GenerationRows | None:
    """Return the rows with their vector file; None if it is not in the state that was checked."""
    if not len(held.chunk_ids):
        return replace(held, sealed=True)
    file = held.file
    now = VectorFile.of(db, index_dir, file.embed_fp)
    if (now.epoch, now.dimension) != (file.epoch, file.dimension):
        return None
    state = file_state(file.path)
    file.rows  # noqa: B018 - mapped now: a compaction takes the file's name away
    same = bool(state) and list(state) == checked
    if not same and file.crc() != (held.vectors_crc, 0):
        return None
    return replace(held, state=state, sealed=same or not state)


def _brought_up(
    db: sqlite3.Connection,
    index_dir: Path,
    held: GenerationRows,
    generations: tuple[Generation, Generation],
) -> GenerationRows | None:
    """Return the rows of a later generation: what changed is read, and checked by its digest."""
    before, wanted = generations
    known, file = held.file, VectorFile.of(db, index_dir, wanted.embed_fp)
    if (file.epoch, file.dimension) != (known.epoch, known.dimension):
        return None
    delta = Delta.of(db, before, max(_FEW, int(len(held.chunk_ids) * MOST_CHANGED)))
    if delta is None:
        return None
    at = {"fp": wanted.embed_fp, "p": before.n}
    read = ReadRows(file)
    read.add(db.execute(_CAME, at).fetchall())
    ended = _texts(db, f"SELECT {CHUNK_CANON} {ENDED}", at) + _texts(db, _FILES_ENDED, at)
    total = before.row_sum + read.total
    total = multiset_sum(total, _texts(db, _FILES_CAME, at), removed=ended)
    gone = [bisect_left(held.chunk_ids, name) for name in delta.ended]
    there = [i for row in gone for i in held.chunk_ids[row : row + 1]] == delta.ended
    if not (there and read.named and catalog_read.digest_matches(wanted, total)):
        return None
    ids, paths, (crcs, places, heads, vector_crcs) = read.made()
    fresh, state = (places, heads, vector_crcs), file_state(file.path)
    crc, bad = file.crc(fresh, end=known.count)
    if bad or crc != held.vectors_crc:
        return None
    crc, bad = file.crc(fresh, first=known.count, crc=crc)
    if bad:
        return None
    return _merged(held, gone, GenerationRows(ids, paths, places, crcs, file, crc, state))


def _texts(db: sqlite3.Connection, query: str, at: Mapping[str, object]) -> list[str]:
    return [str(canon) for (canon,) in db.execute(query, at)]


def _merged(held: GenerationRows, gone: Sequence[int], came: GenerationRows) -> GenerationRows:
    """Return rows less some, and plus others, with the vector file of the others."""
    import numpy as np

    at = [bisect_left(held.chunk_ids, i) for i in came.chunk_ids]
    rows = np.array(at, dtype=np.int64) - np.searchsorted(gone, at)

    def changed(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.insert(np.delete(old, gone), rows, new)

    code_of = {path: code for code, path in enumerate(held.paths.distinct)}
    codes = [code_of.setdefault(path, len(code_of)) for path in came.paths]
    return GenerationRows(
        held.chunk_ids.changed(gone, list(zip(at, came.chunk_ids, strict=True))),
        CodedNames(tuple(code_of), changed(held.paths.codes, np.array(codes, dtype="<i4"))),
        changed(held.places, came.places),
        changed(held.crcs, came.crcs),
        came.file,
        came.vectors_crc,
        came.state,
    )
