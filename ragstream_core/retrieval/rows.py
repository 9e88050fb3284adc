"""The rows of several pinned generations as one list, and which of them a prompt may use.

What depends on the generations alone (the joined ids, the path of each row as a number, ids that
an earlier project holds too) is made once and shared by the queries of a process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragstream_core.ports import IndexView

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

CACHED = 2
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
        numbers: For each view, the number of a path.
    """

    views: tuple[IndexView, ...]
    ids: Sequence[str]
    starts: I64
    groups: I64
    codes: npt.NDArray[np.int32]
    numbers: tuple[dict[str, int], ...]

    def eligible(self, off: Collection[str]) -> I64:
        """Return the rows outside of the files ``off``, ascending; of one id the first of them.

        Args:
            off: ``project/path``; a file that is off in one project stays eligible in another.
        """
        closed = np.zeros(sum(map(len, self.numbers)), dtype=bool)
        for view, numbers in zip(self.views, self.numbers, strict=True):
            prefix = f"{view.project}/"
            paths = (name[len(prefix) :] for name in off if name.startswith(prefix))
            closed[[numbers[path] for path in paths if path in numbers]] = True
        rows = np.flatnonzero(~closed[self.codes]).astype(np.int64)
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

    def products(self, queries: F32) -> F32:
        """Return the approximate cosines of all rows, shape (queries, rows)."""
        found = np.empty((len(queries), len(self.ids)), dtype=np.float32)
        for view, start in zip(self.views, self.starts.tolist(), strict=False):
            found[:, start : start + len(view.chunk_ids)] = (view.vectors @ queries.T).T
        return found


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


def _joined(views: tuple[IndexView, ...]) -> Rows:
    numbers: list[dict[str, int]] = []
    codes: list[npt.NDArray[np.int32]] = []
    before = 0
    for view in views:
        here: dict[str, int] = {}
        found = (before + here.setdefault(path, len(here)) for path in view.paths)
        codes.append(np.fromiter(found, dtype=np.int32, count=len(view.paths)))
        numbers.append({path: before + number for path, number in here.items()})
        before += len(here)
    ids = views[0].chunk_ids if len(views) == 1 else [i for v in views for i in v.chunk_ids]
    return Rows(
        views,
        ids,
        np.cumsum([0, *(len(view.chunk_ids) for view in views)]),
        _groups(views, len(ids)),
        np.concatenate(codes) if codes else np.zeros(0, dtype=np.int32),
        tuple(numbers),
    )


def _groups(views: Sequence[IndexView], total: int) -> I64:
    if len(views) < 2:
        return np.arange(total, dtype=np.int64)
    known: dict[str, int] = {}
    found = (known.setdefault(i, len(known)) for view in views for i in view.chunk_ids)
    return np.fromiter(found, dtype=np.int64, count=total)
