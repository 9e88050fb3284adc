"""The rows of one generation, checked against its digest and the crc of every vector.

Both are read in blocks, and of a row no more is kept than a reader needs: id, path, place of the
vector and a crc32. So memory grows by about 150 bytes a chunk. Vectors are taken from their mapped
file when they are asked for. Chunks are read from the catalog when they are shown, and their rows
must have their crc.

What a check of the newest generation came to lies in a sealed file for the next process, stamped
with the generation and with state and crc of the vector file: while that has the state, no byte of
it was written. Of a later generation only what changed is read: less and plus that, the sum of the
rows must be that of the new digest. A file that is damaged or cannot be followed up is none.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError
from ragstream_core.index.rows import (
    CAME,
    ENDED,
    Delta,
    Generation,
    digest_matches,
    kept_generation,
    latest_generation,
)
from ragstream_core.index.schema import CATALOG_NAME, CHUNK_CANON, FILE_CANON, LIVE, rebuild_hint
from ragstream_core.index.vectors import VectorFile
from ragstream_core.platform import array_file
from ragstream_core.platform.files import replace_bytes
from ragstream_core.platform.names import CodedNames, Names
from ragstream_core.records.identity import multiset_sum

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ragstream_core.platform.placed_rows import PlacedRows


@dataclass(frozen=True)
class GenerationRows:
    """The rows of a generation, aligned and sorted by chunk id."""

    chunk_ids: Names
    paths: CodedNames  # source path of each
    places: npt.NDArray[np.int64]  # row of each in the vector file, int64
    crcs: npt.NDArray[np.uint32]  # crc32 of each row as it enters the digest, uint32
    file: VectorFile  # where their vectors lie
    vectors_crc: int = 0  # of all bytes of that file, named or not
    state: tuple[int, ...] = ()  # of that file before it was checked; empty if that says nothing
    are_saved: bool = False  # whether the sealed file says all of this

    @cached_property
    def vectors(self) -> PlacedRows:
        """The vectors, read where they lie; raises `IntegrityError` if their file is cut off."""
        from ragstream_core.platform.placed_rows import PlacedRows

        return PlacedRows(self.file.rows, self.places, self.file.read)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Row number by chunk id."""
        return {chunk_id: row for row, chunk_id in enumerate(self.chunk_ids)}

    @cached_property
    def _by_place(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Places, ascending, and the row of each."""
        import numpy as np

        order = np.argsort(self.places, kind="stable")
        return self.places[order], order

    def first_rows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the places that rows have, ascending, each once, and the first row at each."""
        import numpy as np

        places, order = self._by_place
        fresh = np.ones(len(places), dtype=bool)
        fresh[1:] = places[1:] != places[:-1]
        return places[fresh], order[fresh]

    def rows_at(self, wanted: npt.NDArray[np.int64]) -> list[int]:
        """Return the rows at some places: chunks of equal text share one."""
        import numpy as np

        places, order = self._by_place
        begins = np.searchsorted(places, wanted, "left").tolist()
        ends = np.searchsorted(places, wanted, "right").tolist()
        return [row for at, end in zip(begins, ends, strict=True) for row in order[at:end].tolist()]


# A file whose times are older was written before the look: they are of the kernel's coarse clock,
# which ticks every 1 to 10 ms.
_SETTLED_NS = 50_000_000
# Times further ahead are of another clock, as over NFS: they say nothing of when.
_AHEAD_NS = 1_000_000_000
# Rows that are read and checked at once.
_BLOCK = 8_192
# What `ReadRows` are made from; of chunks ``c`` and their vectors ``v``.
COLUMNS = f"c.chunk_id, c.path, c.text_hash, v.epoch, v.row, v.crc32, {CHUNK_CANON}"
VECTORS = "LEFT JOIN vectors v ON v.embed_fp = :fp AND v.text_hash = c.text_hash"
_ROWS = f"SELECT {COLUMNS} FROM chunks c {VECTORS} WHERE {LIVE} ORDER BY c.chunk_id"


def damaged(index_dir: Path, detail: str) -> IntegrityError:
    """Return the error for a catalog or vector file that is not what was committed."""
    return IntegrityError(f"{index_dir / CATALOG_NAME}: {detail}", hint=rebuild_hint(index_dir))


def file_state(path: Path) -> tuple[int, ...]:
    """Return size, inode and times of a file; empty if it may have been written just now."""
    status = path.stat()
    times = status.st_mtime_ns, status.st_ctime_ns
    settled = not -_AHEAD_NS < time.time_ns() - max(times) < _SETTLED_NS
    return (status.st_size, status.st_ino, *times) if settled else ()


class ReadRows:
    """Rows of the catalog as they are read: what is kept of them, and what checks them.

    Attributes:
        total: The sum of the rows, as it enters the digest.
        named: Whether each row names a row of the file.
    """

    def __init__(self, file: VectorFile) -> None:
        self._file = file
        self.total, self.named = 0, True
        self._codes: dict[str, int] = {}
        self._names: list[Names] = []
        self._blocks: list[list[npt.NDArray[Any]]] = []

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows in the order of their ids; each is `COLUMNS`."""
        import numpy as np

        if not rows:
            return
        ids, paths, hashes, epochs, places, crcs, canons = zip(*rows, strict=True)
        texts = list(map(str, canons))
        self.total = multiset_sum(self.total, texts)
        self._names.append(Names.of(map(str, ids)))
        known = self._codes
        self.named &= all(map(self._file.holds, epochs, places))
        self._blocks.append([
            np.array([known.setdefault(str(path), len(known)) for path in paths], dtype="<i4"),
            np.array(list(map(canon_crc, texts)), dtype="<u4"),
            np.array(places if self.named else [0] * len(rows), dtype="<i8"),
            np.array([zlib.crc32(str(h).encode()) for h in hashes], dtype="<u4"),
            np.array([crc if type(crc) is int else -1 for crc in crcs], dtype="<i8"),
        ])  # fmt: skip

    def made(self) -> tuple[Names, CodedNames, list[npt.NDArray[Any]]]:
        """Return ids, paths, and crcs, places, crcs of text hashes, and crcs of vectors."""
        import numpy as np

        types = "<i4", "<u4", "<i8", "<u4", "<i8"
        blocks = zip(*self._blocks, strict=True) if self._blocks else [[]] * len(types)
        codes, *arrays = (
            np.concatenate([np.zeros(0, dtype=kind), *parts])
            for kind, parts in zip(types, blocks, strict=True)
        )
        return Names.joined(self._names), CodedNames(tuple(self._codes), codes), arrays


def load_rows(db: sqlite3.Connection, index_dir: Path, wanted: Generation) -> GenerationRows:
    """Load and check one generation; the caller holds a read transaction."""
    file = VectorFile.of(db, index_dir, wanted.embed_fp)
    read = ReadRows(file)
    cursor = db.execute(_ROWS, {"fp": wanted.embed_fp, "n": wanted.n})
    while block := cursor.fetchmany(_BLOCK):
        try:
            read.add(block)
        except ValueError as error:
            raise damaged(index_dir, str(error)) from error
    files = db.execute(f"SELECT {FILE_CANON} FROM files f WHERE {LIVE}", {"n": wanted.n})
    total = multiset_sum(read.total, (str(canon) for (canon,) in files))
    if not digest_matches(wanted, total):
        raise damaged(index_dir, f"the rows of generation {wanted.n} do not have its digest")
    if not read.named:
        raise damaged(index_dir, f"generation {wanted.n} has chunks without vectors")
    ids, paths, (crcs, places, heads, vector_crcs) = read.made()
    file = file if len(ids) else replace(file, count=0)  # of an empty generation nothing is mapped
    try:
        state = file_state(file.path) if file.count else ()
        crc, bad = file.crc((places, heads, vector_crcs))
    except FileNotFoundError:
        if _epoch_now(db, wanted.embed_fp) != file.epoch:
            raise
        raise damaged(index_dir, f"{file.path.name} is missing") from None
    if bad:
        raise damaged(index_dir, f"{bad} vectors in {file.path.name} fail their crc")
    return GenerationRows(ids, paths, places, crcs, file, crc, state)


def canon_crc(canon: object) -> int:
    """Return the crc32 of a row's canonical text."""
    return zlib.crc32(str(canon).encode("utf-8", "surrogatepass"))


def _epoch_now(db: sqlite3.Connection, embed_fp: str) -> int | None:
    """Return the epoch outside of the read transaction that was being held."""
    db.execute("ROLLBACK")
    row = db.execute("SELECT epoch FROM vector_files WHERE embed_fp = ?", (embed_fp,)).fetchone()
    return row[0] if row else None


# Beside the other stores that are made from an index: erasing a file takes them all away.
ROWS_FILE = Path("stores", "rows-newest.bin")
# Share of the rows that may have ended or come; above that all are read from the catalog.
#
# Twice the share of the term arrays, which write what changed again with every ingest: here it is
# read once, by whoever opens the generation next, and left behind as rows of that one.
MOST_CHANGED = 1 / 8
_FEW = 4_096  # to read so many costs less than 0.1 s, whatever the share
_ARRAYS = {
    "ids": "|u1", "ends": "<i8", "files": "|u1", "codes": "<i4", "places": "<i8", "crcs": "<u4",
}  # fmt: skip
_CAME = f"SELECT {COLUMNS} " + CAME.format(joined=VECTORS)
_FILES_ENDED = f"SELECT {FILE_CANON} FROM files f WHERE f.to_gen > :p AND f.from_gen <= :p"
_FILES_CAME = f"SELECT {FILE_CANON} FROM files f WHERE f.from_gen > :p AND f.to_gen IS NULL"


def save_rows(index_dir: Path, made_for: Generation, loaded: GenerationRows) -> None:
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


def drop_saved(index_dir: Path) -> None:
    """Remove the file; no error where it cannot be."""
    with contextlib.suppress(OSError):
        (index_dir / ROWS_FILE).unlink()


def load_saved(
    db: sqlite3.Connection, index_dir: Path, wanted: Generation
) -> GenerationRows | None:
    """Return the rows of a generation, checked; None if they cannot be had from the file.

    The caller holds a read transaction.
    """
    before = _saved_for(db, array_file.read_description(index_dir / ROWS_FILE), wanted)
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


def _saved_for(
    db: sqlite3.Connection, told: Mapping[str, Any], wanted: Generation
) -> Generation | None:
    """Return the generation that a file is of, if the wanted one can be made from it."""
    if told.get("digest") == wanted.digest:
        return wanted
    found, newest = kept_generation(db, told.get("digest")), latest_generation(db)
    if found is None or newest is None or newest.n != wanted.n:
        return None
    same = found.embed_fp == wanted.embed_fp
    return found if same and digest_matches(found, found.row_sum) else None


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
        return replace(held, are_saved=True)
    file = held.file
    now = VectorFile.of(db, index_dir, file.embed_fp)
    if (now.epoch, now.dimension) != (file.epoch, file.dimension):
        return None
    state = file_state(file.path)
    file.rows  # noqa: B018 - mapped now: a compaction takes the file's name away
    same = bool(state) and list(state) == checked
    if not same and file.crc() != (held.vectors_crc, 0):
        return None
    return replace(held, state=state, are_saved=same or not state)


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
    ended = _canons(db, f"SELECT {CHUNK_CANON} {ENDED}", at) + _canons(db, _FILES_ENDED, at)
    total = before.row_sum + read.total
    total = multiset_sum(total, _canons(db, _FILES_CAME, at), removed=ended)
    gone = [bisect_left(held.chunk_ids, name) for name in delta.ended]
    there = [i for row in gone for i in held.chunk_ids[row : row + 1]] == delta.ended
    if not (there and read.named and digest_matches(wanted, total)):
        return None
    ids, paths, (crcs, places, heads, vector_crcs) = read.made()
    fresh, state = (places, heads, vector_crcs), file_state(file.path)
    crc, bad = file.crc(fresh, end=known.count)
    if bad or crc != held.vectors_crc:
        return None
    crc, bad = file.crc(fresh, first=known.count, crc=crc)
    if bad:
        return None
    return _changed(held, gone, GenerationRows(ids, paths, places, crcs, file, crc, state))


def _canons(db: sqlite3.Connection, query: str, at: Mapping[str, object]) -> list[str]:
    return [str(canon) for (canon,) in db.execute(query, at)]


def _changed(held: GenerationRows, gone: Sequence[int], came: GenerationRows) -> GenerationRows:
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
