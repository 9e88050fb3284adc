"""The rows of several pinned generations as one list, and which of them a prompt may use.

What depends on the generations alone (the joined ids, the path of each row as a number, ids that
an earlier project holds too) is made once and shared by the queries of a process. `Past` is the
older turns, which are searched beside the documents by the same scale.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from ragstream_core.platform.names import CodedNames
from ragstream_core.platform.placed_rows import PlacedRows
from ragstream_core.ports import IndexView
from ragstream_core.text.bm25 import Bm25
from ragstream_core.text.terms import terms

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HistoryRows:
    """Older turns; their rows come behind those of the documents.

    Attributes:
        view: The selection of turns.
        open: Which of its rows may be found, shape (rows,).
        expand: Returns what else a query could have said, "" for nothing; turns are looked up by
            these words too, documents are not.
    """

    view: IndexView
    open: npt.NDArray[np.bool_]
    expand: Callable[[str], str]

    def within(self, rows: I64, total: int) -> I64:
        """Return those of some rows that are of documents, or of turns that may be found.

        Args:
            rows: Row numbers, ascending.
            total: Number of all rows; the last of them are the turns'.
        """
        first = total - len(self.open)
        turns = rows[np.searchsorted(rows, first) :]
        return np.concatenate([rows[: len(rows) - len(turns)], turns[self.open[turns - first]]])

    def add_synonyms(self, scores: F64, text: str, bm25: Bm25) -> None:
        """Add to the BM25 scores of turns what the other words for a query are worth.

        Args:
            scores: Of all rows; changed in place, rounded to 6 digits.
            text: The query.
            bm25: Scores the same rows.
        """
        other = self.expand(text)
        fresh = sorted(set(terms(other)).difference(terms(text))) if other else []
        if fresh:
            first = len(scores) - len(self.open)
            scores[first:] = np.round(scores[first:] + bm25.scores(fresh)[first:], 6)


F32 = npt.NDArray[np.float32]

# (rows, d) and (d, queries) → their products, shape (queries, rows), in any kind of sum.
Multiply = Callable[[F32, F32], F32]

CACHED = 2

# Multiplications of a block of BLAS: it packs the matrices of a product of over a million.
BLOCK_WORK = 750_000
# Rows of a block, so that it stays in the cache.
MAX_BLOCK = 2048
# Where fewer of the rows between the first and the last of a block are wanted, they are copied.
GATHERED_SHARE = 0.75
# The same where products cost less than copies.
CHEAP_SHARE = 0.4
_cache: OrderedDict[tuple[int, ...], Rows] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of several views as one list, without a copy of their vectors.

    Attributes:
        views: The generations.
        ids: Chunk ids of all rows, one view after the other.
        starts: First row of each view, and the number of rows.
        groups: Number of each row's id: rows of the same id in several views share it.
        codes: Number of each row's path.
        numbers: ``project/path`` → that number.
    """

    views: tuple[IndexView, ...]
    ids: Sequence[str]
    starts: I64
    groups: I64
    codes: npt.NDArray[np.int32]
    numbers: dict[str, int]

    @property
    def tie_ids(self) -> Sequence[str] | None:
        """What breaks ties: the ids; None if the rows are in their order, as those of one view."""
        return None if len(self.views) == 1 else self.ids

    def eligible(self, off: Collection[str]) -> I64:
        """Return the rows outside of the files ``off``, ascending; of one id the first of them.

        Args:
            off: ``project/path``; a file that is off in one project stays eligible in another.
        """
        is_open, none = np.ones(len(self.numbers) + 1, dtype=bool), repeat(len(self.numbers))
        is_open[np.fromiter(map(self.numbers.get, off, none), np.intp, len(off))] = False
        rows = np.flatnonzero(is_open[self.codes]).astype(np.int64)
        if len(self.views) < 2:
            return rows
        _, at = np.unique(self.groups[rows], return_index=True)
        return np.sort(rows[at])

    def take(self, rows: I64) -> F32:
        """Return the vectors of some rows, in their order."""
        if len(self.views) == 1:
            return np.asarray(self.views[0].vectors[rows])
        which = np.searchsorted(self.starts, rows, side="right") - 1
        dimension = self.views[0].vectors.shape[1]
        found = np.empty((len(rows), dimension), dtype=np.float32)
        for number, view in enumerate(self.views):
            here = which == number
            found[here] = view.vectors[rows[here] - self.starts[number]]
        return found

    def products(self, queries: F32, rows: I64, multiply: Multiply | None = None) -> F32:
        """Return the approximate cosines of some rows, shape (queries, rows).

        Args:
            queries: Unit vectors, shape (queries, dimension).
            rows: Ascending row numbers.
            multiply: Multiplies a block of rows with several queries; None: BLAS does.
        """
        found = np.empty((len(queries), len(rows)), dtype=np.float32)
        bounds = np.searchsorted(rows, self.starts).tolist()
        places = zip(self.views, self.starts.tolist(), bounds, bounds[1:], strict=False)
        for view, first, low, high in places:
            if low == high:
                continue
            part, vectors = rows[low:high] - first, view.vectors
            if isinstance(vectors, PlacedRows):
                _multiplied_in_place(vectors, part, queries, multiply, out=found[:, low:high])
            else:
                _multiplied(vectors, part, queries, multiply, out=found[:, low:high])
        return found


def _multiplied_in_place(
    vectors: PlacedRows, rows: I64, queries: F32, multiply: Multiply | None, *, out: F32
) -> None:
    """As `_multiplied`, where rows lie: the file is read from its beginning to its end."""
    places, total = vectors.places[rows], len(vectors.matrix)

    def made(matrix: F32) -> F32:
        wanted: I64 = np.arange(total)
        if len(places) < total * CHEAP_SHARE:
            wanted, at = np.unique(places, return_inverse=True)
        else:
            at = places
        near = np.empty((len(queries), len(wanted)), dtype=np.float32)
        _multiplied(matrix, wanted, queries, multiply, out=near)
        return np.take(near, at, axis=1, out=out, mode="clip")  # "raise" would copy it

    vectors.read(made)


def _multiplied(
    vectors: F32, rows: I64, queries: F32, multiply: Multiply | None, *, out: F32
) -> None:
    """Multiply some ascending rows with the queries; ``out`` has shape (queries, rows)."""
    columns = np.ascontiguousarray(queries.T)
    size, share = MAX_BLOCK, CHEAP_SHARE
    if multiply is None or len(queries) == 1 or len(rows) <= MAX_BLOCK:
        multiply, share = _by_blas, GATHERED_SHARE
        size = max(1, min(size, BLOCK_WORK // max(1, columns.size)))
    room = np.empty((size, queries.shape[1]), dtype=np.float32)
    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        near, wanted = _block(vectors, part, share, room)
        out[:, at : at + len(part)] = multiply(near, columns)[:, wanted]


def rows_of(views: Sequence[IndexView]) -> Rows:
    """Return the rows of several views; the same object while the views are the same."""
    key = tuple(id(view.chunk_ids) for view in views)
    with _lock:
        known = _cache.get(key)
        # the entry holds its views: no other sequence can have their identity meanwhile
        if known is not None and all(a is b for a, b in zip(known.views, views, strict=True)):
            _cache.move_to_end(key)
            return known
    made = _joined(tuple(views))
    with _lock:
        _cache[key] = made
        while len(_cache) > CACHED:
            _cache.popitem(last=False)
    return made


def _by_blas(rows: F32, columns: F32) -> F32:
    return np.asarray((rows @ columns).T)


def _block(vectors: F32, rows: I64, share: float, room: F32) -> tuple[F32, I64 | slice]:
    """Return the vectors to multiply for some ascending rows, and which of them are wanted."""
    first, end = int(rows[0]), int(rows[-1]) + 1
    if len(rows) < (end - first) * share:
        near = room[: len(rows)]
        np.take(vectors, rows, axis=0, out=near, mode="clip")  # "raise" would copy them twice
        return near, slice(None)
    return vectors[first:end], slice(None) if len(rows) == end - first else rows - first


def _joined(views: tuple[IndexView, ...]) -> Rows:
    numbers: dict[str, int] = {}
    codes: list[npt.NDArray[np.int32]] = []
    for view in views:
        before = len(numbers)
        here, found = _coded(view.paths)
        codes.append(found + np.int32(before))
        numbers |= {f"{view.project}/{path}": before + number for path, number in here.items()}
    ids = views[0].chunk_ids if len(views) == 1 else [i for v in views for i in v.chunk_ids]
    return Rows(
        views,
        ids,
        np.cumsum([0, *(len(view.chunk_ids) for view in views)]),
        _groups(views, len(ids)),
        np.concatenate(codes) if codes else np.zeros(0, dtype=np.int32),
        numbers,
    )


def _coded(paths: Sequence[str]) -> tuple[dict[str, int], npt.NDArray[np.int32]]:
    """Return a number for each path, and that of each row."""
    if isinstance(paths, CodedNames):
        return {path: number for number, path in enumerate(paths.distinct)}, paths.codes
    here: dict[str, int] = {}
    found = (here.setdefault(path, len(here)) for path in paths)
    return here, np.fromiter(found, dtype=np.int32, count=len(paths))


def _groups(views: Sequence[IndexView], total: int) -> I64:
    if len(views) < 2:
        return np.arange(total, dtype=np.int64)
    known: dict[str, int] = {}
    found = (known.setdefault(i, len(known)) for view in views for i in view.chunk_ids)
    return np.fromiter(found, dtype=np.int64, count=total)
