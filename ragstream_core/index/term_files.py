"""The file of term arrays, written from blocks of rows: memory does not grow with the index.

Each block's inverted lists go to a part file; then the lists of each term are put together in the
order of the terms and written. The bytes are those of arrays that were built in memory.

Beside it lies what became of its rows since: those that ended are numbers, those that came have
term arrays and their place among the others. A change of a few documents writes no more than that.
"""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from ragstream_core.platform import array_file
from ragstream_core.platform.files import (
    make_private_dir,
    rename_file,
    replace_bytes,
    sync_dir,
    write_blocks,
)
from ragstream_core.text.bm25 import (
    BLOCK_LISTS,
    LexicalArrays,
    begins_of_runs,
    block_arrays,
    build_lexical,
)
from ragstream_core.text.bm25_merge import MergedLists, row_numbers

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragstream_core.index.rows import Delta
    from ragstream_core.text.bm25 import I32, I64


# Name and type of every array.
ARRAYS = {
    "term_ids": "<i8", "offsets": "<i8", "rows": "<i4", "counts": "<i4", "lengths": "<i4",
}  # fmt: skip
# Rows of a block: what is kept of its lists grows more slowly than the block.
BLOCK_ROWS = 16_384
# So many are in memory at once, and those of one term in one block.
_POSTINGS = 1 << 20
_ITEM = np.dtype("<i4").itemsize


@dataclass(frozen=True, slots=True)
class _Lists:
    """The inverted lists of all blocks, by term and then by block; the lists lie in part files."""

    terms: I64  # term of each list, ascending
    begins: I64  # where each begins in the part files
    sizes: I64  # postings of each
    lengths: I32  # terms of each row


def write(path: Path, stamp: Mapping[str, str], blobs: Iterable[Sequence[bytes]]) -> None:
    """Put the term arrays of rows under a path: a reader sees the old file or the new one."""
    with written(path, stamp, blobs) as temporary:
        rename_file(temporary, path)
        sync_dir(path.parent)


@contextmanager
def written(
    path: Path, stamp: Mapping[str, str], blobs: Iterable[Sequence[bytes]]
) -> Iterator[Path]:
    """Write the term arrays of a set of rows beside a path; what is not renamed goes."""
    with _beside(path) as (temporary, rows, counts):
        lists = _spilled(blobs, rows, counts)
        write_blocks(temporary, array_file.stream(stamp, _arrays(lists, rows, counts)))
        yield temporary


def write_merged(path: Path, stamp: Mapping[str, str], lists: MergedLists) -> None:
    """Put merged term arrays under a path; as `write` of the rows that they are of."""
    with _beside(path) as (temporary, rows, counts):
        write_blocks(temporary, array_file.stream(stamp, _merged(lists, rows, counts)))
        rename_file(temporary, path)
        sync_dir(path.parent)


def holds(path: Path, stamp: Mapping[str, str], lists: MergedLists) -> bool:
    """Return whether a file holds merged term arrays, number by number."""
    found = mapped(path, stamp)
    sizes, term, row = np.diff(found.offsets), 0, 0
    for block in lists.blocks():
        terms = slice(term, term + len(block.term_ids))
        rows = slice(row, row + len(block.rows))
        pairs = (
            (found.term_ids[terms], block.term_ids),
            (sizes[terms], block.sizes),
            (found.rows[rows], block.rows),
            (found.counts[rows], block.counts),
        )
        if not all(np.array_equal(mine, its) for mine, its in pairs):
            return False
        term, row = terms.stop, rows.stop
    ends = (term, row) == (len(found.term_ids), len(found.rows))
    return ends and np.array_equal(found.lengths, lists.lengths)


@contextmanager
def _beside(path: Path) -> Iterator[tuple[Path, BinaryIO, BinaryIO]]:
    """Yield the name of a file to write beside a path, and two part files; all of them go."""
    make_private_dir(path.parent)
    temporary = path.with_name(f".{path.name}.new.tmp")  # the lock is held: one writer
    try:
        with (
            tempfile.TemporaryFile(dir=path.parent) as rows,
            tempfile.TemporaryFile(dir=path.parent) as counts,
        ):
            yield temporary, rows, counts
    finally:
        temporary.unlink(missing_ok=True)


def mapped(path: Path, stamp: Mapping[str, object]) -> LexicalArrays:
    """Return the term arrays in a file, checked; its pages are read when they are needed."""
    import mmap

    with path.open("rb") as handle:
        data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    _, arrays = array_file.decode(memoryview(data), ARRAYS, stamp)
    return LexicalArrays(**arrays)


def _spilled(blobs: Iterable[Sequence[bytes]], rows: BinaryIO, counts: BinaryIO) -> _Lists:
    """Write the lists of each block to the part files; return where they are, by term."""
    source, base, at = iter(blobs), 0, 0
    terms, begins, sizes, lengths = [], [], [], []
    while block := list(itertools.islice(source, BLOCK_ROWS)):
        made = block_arrays(block)
        rows.write((made.rows + np.int32(base)).astype("<i4").tobytes())
        counts.write(made.counts.tobytes())
        terms.append(made.term_ids)
        begins.append(made.offsets[:-1] + at)
        sizes.append(np.diff(made.offsets))
        lengths.append(made.lengths)
        base, at = base + len(made.lengths), at + len(made.rows)
    if not terms:
        none = np.zeros(0, dtype=np.int64)
        return _Lists(none, none, none, np.zeros(0, dtype="<i4"))
    every = np.concatenate(terms)
    terms.clear()
    order = np.argsort(every, kind="stable")  # earlier blocks first: rows ascend within a term
    return _Lists(
        every[order], _taken(begins, order), _taken(sizes, order), np.concatenate(lengths)
    )


def _taken(parts: list[I64], order: I64) -> I64:
    """Put the parts together in an order; they are given back as soon as they are."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole[order]


def _arrays(
    lists: _Lists, rows: BinaryIO, counts: BinaryIO
) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the arrays of the file in its order."""
    firsts = begins_of_runs(lists.terms)
    ends = np.cumsum(lists.sizes)
    total = int(ends[-1]) if len(ends) else 0
    yield "term_ids", [lists.terms[firsts].astype("<i8").tobytes()]
    yield "offsets", [np.append((ends - lists.sizes)[firsts], total).astype("<i8").tobytes()]
    yield "rows", _joined(lists, ends, rows)
    yield "counts", _joined(lists, ends, counts)
    yield "lengths", [lists.lengths.astype("<i4").tobytes()]


def _merged(
    lists: MergedLists, rows: BinaryIO, counts: BinaryIO
) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the arrays of the file in its order; the lists wait in the part files for theirs."""
    terms, sizes = [], [np.zeros(1, dtype="<i8")]
    for block in lists.blocks():
        rows.write(block.rows.astype("<i4").tobytes())
        counts.write(block.counts.astype("<i4").tobytes())
        terms.append(block.term_ids.tobytes())
        sizes.append(block.sizes)
    yield "term_ids", terms
    yield "offsets", [np.cumsum(np.concatenate(sizes)).astype("<i8").tobytes()]
    yield "rows", _bytes_of(rows)
    yield "counts", _bytes_of(counts)
    yield "lengths", [lists.lengths.astype("<i4").tobytes()]


def _bytes_of(part: BinaryIO) -> Iterator[bytes]:
    part.seek(0)
    return iter(lambda: part.read(_POSTINGS), b"")


def _joined(lists: _Lists, ends: I64, parts: BinaryIO) -> Iterator[bytes]:
    """Yield what a part file holds, list by list in the order of the terms."""
    low = 0
    while low < len(ends):
        begin = int(ends[low] - lists.sizes[low])
        high = int(np.searchsorted(ends, begin + _POSTINGS, "right"))
        high = min(max(high, low + 1), low + BLOCK_LISTS)
        part = slice(low, high)
        sizes, stops = lists.sizes[part], ends[part] - begin
        held: npt.NDArray[np.int32] = _memory_of(parts)
        shift = np.repeat(lists.begins[part] - (stops - sizes), sizes)
        yield held[shift + np.arange(len(shift))].tobytes()
        low = high


def _memory_of(parts: BinaryIO) -> npt.NDArray[np.int32]:
    """Map a part file anew: the pages that the last map had read are given back with it."""
    parts.flush()
    return np.memmap(parts, dtype="<i4", mode="r")


_ARRAYS = {**ARRAYS, "ended": "<i4", "gaps": "<i4", "names": "|u1"}
_END = "\0"  # no path can hold it
_LIVE_BETWEEN = (
    "SELECT count(*) FROM chunks WHERE chunk_id >= ? AND chunk_id < ? AND to_gen IS NULL"
)


@dataclass(frozen=True)
class Changes:
    """What became of the rows of a file of term arrays."""

    ended: I32  # rows of the file that ended, ascending
    names: tuple[str, ...]  # chunk ids of the rows that came, ascending
    gaps: I32  # of each of those, how many rows of the file are before it
    arrays: LexicalArrays  # their term arrays

    def __len__(self) -> int:
        """How many rows ended or came."""
        return len(self.ended) + len(self.names)

    def merged(self, old: LexicalArrays) -> MergedLists:
        """Return the arrays of the file with its changes."""
        return MergedLists(old, self.arrays, *row_numbers(len(old.lengths), self.ended, self.gaps))


def no_changes() -> Changes:
    """Return no change."""
    nothing = np.zeros(0, dtype="<i4")
    return Changes(nothing, (), nothing, build_lexical([]))


def read_changes(path: Path, stamp: Mapping[str, object]) -> Changes:
    """Read changes, checked."""
    _, found = array_file.decode(path.read_bytes(), _ARRAYS, stamp)
    names = str(found.pop("names").data, "utf-8").split(_END)[:-1]
    ended, gaps = found.pop("ended"), found.pop("gaps")
    return Changes(ended, tuple(names), gaps, LexicalArrays(**found))


def write_changes(path: Path, stamp: Mapping[str, object], changes: Changes) -> None:
    """Put changes under a path: a reader sees the old ones or these."""
    names = "".join(name + _END for name in changes.names).encode()
    held = {name: getattr(changes.arrays, name) for name in ARRAYS}
    held |= {"ended": changes.ended, "gaps": changes.gaps}
    replace_bytes(path, array_file.encode(stamp, {**held, "names": np.frombuffer(names, np.uint8)}))


def extended(
    db: sqlite3.Connection,
    before: Changes,
    delta: Delta,
    blobs: Sequence[Sequence[bytes]],
    *,
    file_rows: int,
) -> Changes:
    """Return changes, and then a delta."""
    ended = set(delta.ended)
    kept = np.array([name not in ended for name in before.names], dtype=bool)
    known = set(before.names)
    gone = [name for name in delta.ended if name not in known]
    names = [name for name, stays in zip(before.names, kept, strict=True) if stays]
    places = _Places(db, before, delta, gone, sorted([*names, *delta.came]), file_rows)
    rows = np.array([places.row(name) for name in gone], dtype="<i4")
    gaps = np.array([places.gap(name) for name in delta.came], dtype="<i4")
    every = [*names, *delta.came]
    order = np.array(sorted(range(len(every)), key=every.__getitem__), dtype=np.int64)
    number = np.empty(len(every), dtype="<i4")
    number[order] = np.arange(len(every), dtype="<i4")
    held = np.full(len(before.names), -1, dtype="<i4")
    held[kept] = number[: len(names)]
    lists = MergedLists(before.arrays, build_lexical(blobs), held, number[len(names) :])
    return Changes(
        np.unique(np.concatenate([before.ended, rows])).astype("<i4"),
        tuple(every[i] for i in order),
        np.concatenate([before.gaps[kept], gaps])[order].astype("<i4"),
        lists.whole(),
    )


class _Places:
    """Where chunks stand, or stood, among the rows of the file that had not ended before."""

    def __init__(
        self,
        db: sqlite3.Connection,
        before: Changes,
        delta: Delta,
        gone: Sequence[str],
        others: Sequence[str],
        file_rows: int,
    ) -> None:
        self._gone, self._others, self._file_rows = gone, others, file_rows
        self._live = dict(_live_before(db, sorted({*gone, *delta.came})))
        self._ended = before.ended

    @cached_property
    def stood(self) -> I32:
        """Those rows, ascending."""
        found: I32 = np.delete(np.arange(self._file_rows, dtype="<i4"), self._ended)
        return found

    def before(self, name: str) -> int:
        """Return how many of those rows are before a chunk."""
        mine = self._live[name] - bisect_left(self._others, name)
        return mine + bisect_left(self._gone, name)

    def row(self, name: str) -> int:
        """Return the row of the file that a chunk was."""
        at = self.before(name)
        if not 0 <= at < len(self.stood):
            raise ValueError(f"no row was {name}")
        return int(self.stood[at])

    def gap(self, name: str) -> int:
        """Return how many rows of the file are before a chunk, or some that ended less."""
        at = self.before(name)
        return int(self.stood[at]) if at < len(self.stood) else self._file_rows


def _live_before(db: sqlite3.Connection, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each chunk id with the number of live chunks before it; one pass over the index."""
    last, total = "", 0
    for name in names:
        total += db.execute(_LIVE_BETWEEN, (last, name)).fetchone()[0]
        yield name, total
        last = name
