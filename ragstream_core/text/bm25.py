"""BM25 over one generation's live rows: sorted term arrays, a pure function of those rows.

Terms are those of `terms`, by their ids. Document frequencies and lengths are those of the rows
given, never of rows that were deleted. Formula: Robertson & Zaragoza, "The Probabilistic Relevance
Framework: BM25 and Beyond", 2009, with the idf of Lucene, ln(1 + (N − df + 0.5)/(df + 0.5)) ≥ 0.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ragstream_core.text.terms import term_id

K1 = 1.5
B = 0.75
K3 = 2.0
BLOCK_ROWS = 8192
BLOCK_LISTS = 65_536

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]


class PostingLists(Protocol):
    """What BM25 asks of the term arrays of a set of rows, which may be in several parts."""

    @property
    def lengths(self) -> I32:
        """Number of terms of each row, shape (rows,)."""
        ...

    @property
    def parts(self) -> Sequence[LexicalArrays]:
        """The arrays that hold the rows, and perhaps others."""
        ...

    @property
    def places(self) -> I64 | None:
        """Number of each row among those of all parts, one part after the other; None: the same."""
        ...

    def frequency(self, term: int) -> int:
        """Return how many rows hold a term."""
        ...

    def packed(self) -> bytes:
        """Serialise: equal rows give equal bytes."""
        ...


@dataclass(frozen=True, slots=True)
class LexicalArrays:
    """Inverted lists of a set of rows, grouped by term.

    Attributes:
        term_ids: Distinct term ids, sorted, shape (terms,).
        offsets: Start of each term's list in ``rows`` and ``counts``, shape (terms + 1,).
        rows: Row numbers, ascending within a term.
        counts: Occurrences of the term in the row, ≥ 1.
        lengths: Number of terms of each row, shape (rows,).
    """

    term_ids: I64
    offsets: I64
    rows: I32
    counts: I32
    lengths: I32

    @property
    def parts(self) -> Sequence[LexicalArrays]:
        """These arrays alone."""
        return (self,)

    @property
    def places(self) -> None:
        """The rows are where their numbers say."""
        return

    def frequency(self, term: int) -> int:
        """Return how many rows hold a term."""
        return len(self.postings(term)[0])

    def postings(self, term: int) -> tuple[I32, I32]:
        """Return the rows that hold a term and how often; both empty if it is unknown."""
        at = int(np.searchsorted(self.term_ids, term))
        if at == len(self.term_ids) or self.term_ids[at] != term:
            return self.rows[:0], self.counts[:0]
        span = slice(int(self.offsets[at]), int(self.offsets[at + 1]))
        return self.rows[span], self.counts[span]

    def packed(self) -> bytes:
        """Serialise; `unpacked` is the inverse."""
        sizes = np.array([len(self.term_ids), len(self.rows), len(self.lengths)], dtype="<i8")
        return sizes.tobytes() + b"".join(
            part.tobytes()
            for part in (self.term_ids, self.offsets, self.rows, self.counts, self.lengths)
        )


def unpacked(body: bytes | memoryview) -> LexicalArrays:
    """Rebuild term arrays from `LexicalArrays.packed`, without a copy.

    Raises:
        ValueError: There are fewer bytes than they say they are.
    """
    n_terms, n_postings, n_rows = (int(x) for x in np.frombuffer(body, "<i8", 3))
    at = 24
    counts = (n_terms, n_terms + 1, n_postings, n_postings, n_rows)
    parts = []
    for count, dtype in zip(counts, ("<i8", "<i8", "<i4", "<i4", "<i4"), strict=True):
        parts.append(np.frombuffer(body, dtype, count, at))
        at += count * np.dtype(dtype).itemsize
    return LexicalArrays(*parts)


def build_lexical(blobs: Iterable[Sequence[bytes]]) -> LexicalArrays:
    """Build the term arrays of a set of rows, block by block: no more is held than the result.

    Args:
        blobs: For each row, the term blobs that make up its lexical text (heading path, text).

    Returns:
        The arrays; the same rows in the same order give the same arrays.
    """
    source = iter(blobs)
    blocks = iter(lambda: list(itertools.islice(source, BLOCK_ROWS)), [])
    return _merged([block_arrays(block) for block in blocks])


def block_arrays(blobs: Sequence[Sequence[bytes]]) -> LexicalArrays:
    """Build the term arrays of some rows at once; as `build_lexical`."""
    joined = [b"".join(parts) for parts in blobs]
    pairs = np.frombuffer(b"".join(joined), dtype="<i8").reshape(-1, 2)
    sizes = np.fromiter((len(j) // 16 for j in joined), dtype=np.int64, count=len(joined))
    owner = np.repeat(np.arange(len(joined), dtype=np.int32), sizes)
    order = np.argsort(pairs[:, 0], kind="stable")  # the owners ascend already
    ids, rows, counts = pairs[order, 0], owner[order], pairs[order, 1]
    # a term in both heading and text appears twice in a row: add the two up
    starts = begins_of_runs(ids, rows)
    counts = np.add.reduceat(counts, starts) if len(starts) else counts
    ids, rows = ids[starts], rows[starts]
    lengths = np.bincount(rows, weights=counts, minlength=len(joined))
    firsts = begins_of_runs(ids)
    return LexicalArrays(
        ids[firsts].astype("<i8"),
        np.append(firsts, len(ids)).astype("<i8"),
        rows.astype("<i4"),
        counts.astype("<i4"),
        lengths.astype("<i4"),
    )


def begins_of_runs(*columns: npt.NDArray[np.generic]) -> I64:
    """Return the positions where any of the aligned columns differs from the one before."""
    fresh = np.zeros(len(columns[0]), dtype=bool)
    fresh[:1] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(fresh).astype(np.int64)


def _merged(parts: Sequence[LexicalArrays]) -> LexicalArrays:
    """Return the arrays of the rows of several, one after the other."""
    if len(parts) < 2:
        return parts[0] if parts else block_arrays([])
    bases = np.cumsum([0, *(len(p.lengths) for p in parts)])
    at = np.cumsum([0, *(len(p.rows) for p in parts)])
    pairs = list(zip(parts, bases, strict=False))
    rows = np.concatenate([p.rows + np.int32(base) for p, base in pairs])
    counts = np.concatenate([p.counts for p in parts])
    terms_of = np.concatenate([p.term_ids for p in parts])
    begins = np.concatenate([p.offsets[:-1] + start for p, start in zip(parts, at, strict=False)])
    sizes = np.concatenate([np.diff(p.offsets) for p in parts])
    order = np.argsort(terms_of, kind="stable")  # earlier parts first: rows ascend within a term
    terms_of, begins, sizes = terms_of[order], begins[order], sizes[order]
    ends = np.cumsum(sizes)
    merged_rows, merged_counts = np.empty_like(rows), np.empty_like(counts)
    for low in range(0, len(order), BLOCK_LISTS):
        part = slice(low, low + BLOCK_LISTS)
        first, last = int(ends[low] - sizes[low]), int(ends[part][-1])
        shift = np.repeat(begins[part] - (ends[part] - sizes[part]), sizes[part])
        source = shift + np.arange(first, last)
        merged_rows[first:last], merged_counts[first:last] = rows[source], counts[source]
    firsts = begins_of_runs(terms_of)
    return LexicalArrays(
        terms_of[firsts].astype("<i8"),
        np.append((ends - sizes)[firsts], len(rows)).astype("<i8"),
        merged_rows.astype("<i4"),
        merged_counts.astype("<i4"),
        np.concatenate([p.lengths for p in parts]).astype("<i4"),
    )


def repeated(times: int, k3: float = K3) -> float:
    """Return what a term counts that a query says several times, as a multiple of saying it once.

    qtf·(k3 + 1) / (qtf + k3) (Sparck Jones, Walker & Robertson, "A probabilistic model of
    information retrieval: development and comparative experiments", 2000): 1 for once, growing,
    below k3 + 1; 1 however often where k3 = 0.

    Args:
        times: How often the query says it, ≥ 1.
        k3: How late repeating saturates, ≥ 0.
    """
    return times * (k3 + 1) / (times + k3)


def idf(indexes: Sequence[PostingLists], term: int) -> float:
    """Return how rare a term is in the rows of several indexes, > 0; most for an unknown one."""
    held = sum(index.frequency(term) for index in indexes)
    return _idf(held, sum(len(index.lengths) for index in indexes))


def _idf(held: int, total: int) -> float:
    return float(np.log1p((total - held + 0.5) / (held + 0.5)))


class Bm25:
    """Scores the rows of several indexes with the statistics of their union.

    score(d) = Σ_t idf(t) · tf·(k1+1) / (tf + k1·(1 − b + b·|d|/avgdl)) · `repeated`(qtf), t over
    the distinct query terms in sorted order, qtf = how often the query says t, k1 = 1.5, b = 0.75.

    Args:
        indexes: Term arrays of the pinned generations.
        k3: How late repeating a term saturates, ≥ 0; 0: terms count once.
    """

    def __init__(self, indexes: Sequence[PostingLists], k3: float = K3) -> None:
        self._indexes = indexes
        self._k3 = k3
        self._parts = [part for index in indexes for part in index.parts]
        self._starts = np.cumsum([0, *(len(part.lengths) for part in self._parts)])
        self._places = _places(indexes)
        lengths = np.concatenate([index.lengths for index in indexes])
        self._total = len(lengths)
        words_total = int(lengths.sum(dtype=np.int64))
        average = words_total / self._total if words_total else 1.0
        lengths = np.concatenate([part.lengths for part in self._parts])
        self._norms = K1 * (1 - B + B * lengths / average)

    def scores(self, query: Sequence[str]) -> F64:
        """Score every row for one query; as `scores_of`."""
        found: F64 = self.scores_of([query])[0]
        return found

    def scores_of(self, queries: Sequence[Sequence[str]]) -> F64:
        """Score every row for several queries; a term that they share is weighed once.

        Args:
            queries: Stemmed query terms as from `terms`, as often as each query says them.

        Returns:
            Shape (queries, rows of all indexes one after the other), float64, ≥ 0, rounded to 6
            digits. A query's scores do not depend on the others.
        """
        asked: dict[int, list[tuple[int, float]]] = {}
        for number, query in enumerate(queries):
            for term, times in Counter(map(term_id, query)).items():
                asked.setdefault(term, []).append((number, repeated(times, self._k3)))
        scores = np.zeros((len(queries), len(self._norms)))
        room = _Room.of(max((len(part.lengths) for part in self._parts), default=0))
        for term in sorted(asked):
            for rows, weights in self._weighed(term, room):
                for number, factor in asked[term]:
                    np.add.at(scores[number], rows, weights if factor == 1 else factor * weights)
        if self._places is not None:
            scores = scores.take(self._places, axis=1)
        return np.round(scores, 6, out=scores)

    def _weighed(self, term: int, room: _Room) -> Iterator[tuple[I64, F64]]:
        """Yield for each part the rows that hold a term and what it adds to them, in ``room``."""
        held = sum(index.frequency(term) for index in self._indexes)
        rarity = _idf(held, self._total)
        for part, start in zip(self._parts, self._starts[:-1], strict=True):
            own, counts = part.postings(term)
            n = len(own)
            rows, weights, below = room.rows[:n], room.weights[:n], room.below[:n]
            np.add(own, start, out=rows)
            np.multiply(counts, rarity, out=weights)
            weights *= K1 + 1
            np.take(self._norms, rows, out=below, mode="clip")  # "raise" would copy them
            below += counts
            weights /= below
            yield rows, weights


class _Room(NamedTuple):
    """Arrays that are used for one term after the other: fresh ones cost more than the sums."""

    rows: I64
    weights: F64
    below: F64

    @classmethod
    def of(cls, most: int) -> _Room:
        return cls(np.empty(most, np.int64), np.empty(most), np.empty(most))


def _places(indexes: Sequence[PostingLists]) -> I64 | None:
    """Return the number of each row among those of all parts; None if all are the same."""
    if all(index.places is None for index in indexes):
        return None
    found, start = [], 0
    for index in indexes:
        places = index.places
        found.append(start + (np.arange(len(index.lengths)) if places is None else places))
        start += sum(len(part.lengths) for part in index.parts)
    return np.concatenate(found)
