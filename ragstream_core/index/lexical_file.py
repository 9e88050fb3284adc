"""The file of term arrays, written from blocks of rows: memory does not grow with the index.

Each block's inverted lists go to a part file; then the lists of each term are put together in the
order of the terms and written. The bytes are those of arrays that were built in memory.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from ragstream_core.platform import array_file
from ragstream_core.platform.files import make_private_dir, rename_file, sync_dir, write_blocks
from ragstream_core.text.bm25 import BLOCK_LISTS, LexicalArrays, begins_of_runs, block_arrays

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragstream_core.text.bm25 import I32, I64
    from ragstream_core.text.bm25_merge import MergedLists

ARRAYS = {
    "term_ids": "<i8", "offsets": "<i8", "rows": "<i4", "counts": "<i4", "lengths": "<i4",
}  # fmt: skip
"""Name and type of every array."""
BLOCK_ROWS = 16_384
"""Rows of a block: what is kept of its lists grows more slowly than the block."""
_POSTINGS = 1 << 20
"""So many are in memory at once, and those of one term in one block."""
_ITEM = np.dtype("<i4").itemsize


@dataclass(frozen=True, slots=True)
class _Lists:
    """The inverted lists of all blocks, by term and then by block; the lists lie in part files.

    Attributes:
        terms: Term of each list, ascending.
        begins: Where each begins in the part files.
        sizes: Postings of each.
        lengths: Terms of each row.
    """

    terms: I64
    begins: I64
    sizes: I64
    lengths: I32


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
