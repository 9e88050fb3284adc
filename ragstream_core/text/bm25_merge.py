"""Term arrays that were written once, merged with the rows that ended and came since.

The lists are those of arrays that are built from all the rows at once, number by number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ragstream_core.text.bm25 import LexicalArrays

if TYPE_CHECKING:
    from ragstream_core.text.bm25 import I32, I64

# So many are merged at once, and those of one term.
_POSTINGS = 1 << 20


# From so many postings a row that ended on, it is looked for; below, each posting is looked at.
_FAR_MORE = 32


class MergedBlock(NamedTuple):
    """The lists of some terms.

    Attributes:
        term_ids: Ascending; each has a posting.
        sizes: Postings of each.
        rows: Row numbers, ascending within a term.
        counts: Occurrences in the row, ≥ 1.
    """

    term_ids: I64
    sizes: I64
    rows: I32
    counts: I32


def row_numbers(old_rows: int, ended: I32, gaps: I32) -> tuple[I32, I32]:
    """Return the row numbers after a change.

    Args:
        old_rows: How many rows there were.
        ended: Those that ended, each once.
        gaps: Of each row that came, in its order: how many of the old rows are before it.

    Returns:
        The number of each old row, -1 if it ended; the number of each row that came.
    """
    stays = np.ones(old_rows, dtype=bool)
    stays[ended] = False
    before = np.concatenate(([0], np.cumsum(stays)))
    new = before[gaps] + np.arange(len(gaps))
    free = np.ones(int(before[-1]) + len(gaps), dtype=bool)
    free[new] = False
    old = np.full(old_rows, -1, dtype="<i4")
    old[stays] = np.flatnonzero(free)
    return old, new.astype("<i4")


class MergedLists:
    """Term arrays of two sets of rows as one; implements `bm25.PostingLists`.

    Args:
        old: Term arrays of the rows that were there.
        new: Those of the rows that came.
        old_rows: New number of each old row, ascending; -1 if it ended.
        new_rows: Number of each row that came, ascending.
    """

    def __init__(
        self, old: LexicalArrays, new: LexicalArrays, old_rows: I32, new_rows: I32
    ) -> None:
        self._old, self._new = old, new
        self._old_rows, self._new_rows = old_rows, new_rows
        self._stays = old_rows >= 0
        self._ended = np.flatnonzero(~self._stays).astype("<i4")
        here = np.flatnonzero(self._stays)
        self.parts = (old, new)
        self.places: I64 = np.empty(len(here) + len(new_rows), dtype=np.int64)
        self.places[old_rows[here]] = here
        self.places[new_rows] = len(old_rows) + np.arange(len(new_rows))
        self.lengths: I32 = np.concatenate([old.lengths, new.lengths])[self.places]

    def frequency(self, term: int) -> int:
        """Return how many rows hold a term."""
        rows, _ = self._old.postings(term)
        if len(rows) < _FAR_MORE * len(self._ended):
            return int(np.count_nonzero(self._stays.take(rows))) + self._new.frequency(term)
        if not len(rows):
            return self._new.frequency(term)
        at = np.searchsorted(rows, self._ended)
        at[at == len(rows)] = 0
        ended = np.count_nonzero(rows[at] == self._ended)
        return len(rows) - int(ended) + self._new.frequency(term)

    def packed(self) -> bytes:
        """Serialise; as `LexicalArrays.packed` of `whole`."""
        return self.whole().packed()

    def whole(self) -> LexicalArrays:
        """Return the arrays, merged in memory."""
        none = MergedBlock(*(np.zeros(0, dtype=kind) for kind in ("<i8", "<i8", "<i4", "<i4")))
        parts = [np.concatenate(column) for column in zip(none, *self.blocks(), strict=True)]
        offsets = np.concatenate(([0], np.cumsum(parts[1]))).astype("<i8")
        return LexicalArrays(parts[0], offsets, parts[2], parts[3], self.lengths)

    def blocks(self) -> Iterator[MergedBlock]:
        """Yield the lists of all terms, in their order, some terms at a time."""
        old, low, begin = self._old, 0, 0
        while True:
            most = int(old.offsets[low]) + _POSTINGS
            high = int(np.searchsorted(old.offsets, most, "right")) - 1
            high = min(max(high, low + 1), len(old.term_ids))
            last = high == len(old.term_ids)
            end = len(self._new.term_ids)
            if not last:
                end = int(np.searchsorted(self._new.term_ids, old.term_ids[high]))
            yield self._block(slice(low, high), slice(begin, end))
            if last:
                return
            low, begin = high, end

    def _block(self, old_terms: slice, new_terms: slice) -> MergedBlock:
        old_ids, old_sizes, rows, counts = _part(self._old, old_terms)
        new_ids, new_sizes, more, times = _part(self._new, new_terms)
        ids = np.union1d(old_ids, new_ids)
        lists = np.repeat(np.searchsorted(ids, old_ids), old_sizes)
        new_lists = np.repeat(np.searchsorted(ids, new_ids), new_sizes)
        rows, more = self._old_rows[rows], self._new_rows[more]
        if len(self._ended):
            stays = rows >= 0
            lists, rows, counts = lists[stays], rows[stays], counts[stays]
        sizes = np.bincount(lists, minlength=len(ids)) + np.bincount(new_lists, minlength=len(ids))
        if len(more):
            all_rows = len(self.lengths)
            at = np.searchsorted(lists * all_rows + rows, new_lists * all_rows + more)
            rows, counts = np.insert(rows, at, more), np.insert(counts, at, times)
        held = sizes > 0
        return MergedBlock(ids[held].astype("<i8"), sizes[held].astype("<i8"), rows, counts)


def _part(arrays: LexicalArrays, terms: slice) -> tuple[I64, I64, I32, I32]:
    """Return ids, sizes, rows and counts of neighbouring terms."""
    offsets = arrays.offsets[terms.start : terms.stop + 1]
    lists = slice(int(offsets[0]), int(offsets[-1]))
    return arrays.term_ids[terms], np.diff(offsets), arrays.rows[lists], arrays.counts[lists]
