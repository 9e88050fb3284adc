"""A vector store as a proposer: it names rows worth scoring, the catalog's vectors score them.

What a store says of a score is never used, so ledger and key stay exact; only a row that no store
names can be missed. If a store names too few rows of the Eligibility Pool, or would have to name a
large share of all, every row is scored instead.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ragstream_core.ports import IndexView
from ragstream_core.retrieval.rows import Rows

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

# The open files may hold fewer of the nearest rows than their share: ask for half as many more.
SPARE = 1.5
# Rows a store is asked for at most; beyond it scoring every row costs less.
LARGEST_SHARE = 0.5


class Proposer(Protocol):
    """Names the rows of a view near some queries; if it cannot, all of them are scored."""

    def near(self, view: IndexView, queries: F32, n: int) -> list[I64] | None:
        """Return about the ``n`` nearest rows of each query, or None if it cannot say.

        Args:
            view: The pinned generation.
            queries: Unit vectors, shape (queries, dimension).
            n: How many for each, ≥ 1.
        """
        ...


def narrowed(proposer: Proposer | None, rows: Rows, queries: F32, *, pool: I64, depth: int) -> I64:
    """Return the rows of the pool that are worth scoring; all of it without a proposer.

    Args:
        proposer: The store.
        rows: The rows of the pinned generations.
        queries: Unit vectors, shape (queries, dimension).
        pool: Rows that may be returned, ascending.
        depth: Length of each list.
    """
    total = len(rows.ids)
    if proposer is None or len(pool) <= depth:
        return pool
    n = math.ceil(depth * SPARE * total / len(pool)) if len(pool) < total else depth
    if n > total * LARGEST_SHARE:
        return pool
    found = [_of_view(proposer, view, queries, n) for view in rows.views]
    if all(part is None for part in found):
        return pool
    named = [np.intersect1d(_joined(rows, found, at), pool) for at in range(len(queries))]
    if any(len(part) < depth for part in named):
        return pool
    return np.unique(np.concatenate(named)).astype(np.int64)


def _joined(rows: Rows, found: Sequence[list[I64] | None], query: int) -> I64:
    """Return what was named for one query; every row of a view that a store does not know."""
    starts = rows.starts.tolist()
    parts = [
        np.arange(start, end) if part is None else start + part[query]
        for part, start, end in zip(found, starts, starts[1:], strict=False)
    ]
    return np.concatenate(parts).astype(np.int64)


def _of_view(proposer: Proposer, view: IndexView, queries: F32, n: int) -> list[I64] | None:
    if not len(view.chunk_ids):
        return [np.zeros(0, dtype=np.int64)] * len(queries)
    return proposer.near(view, queries, min(n, len(view.chunk_ids)))


def row_numbers(sorted_ids: Sequence[str], wanted: Sequence[str]) -> I64:
    """Return the rows of those ids that are there, for stores that know ids alone."""
    places = [bisect_left(sorted_ids, identifier) for identifier in wanted]
    held = [
        place
        for place, identifier in zip(places, wanted, strict=True)
        if place < len(sorted_ids) and sorted_ids[place] == identifier
    ]
    return np.array(held, dtype=np.int64)
