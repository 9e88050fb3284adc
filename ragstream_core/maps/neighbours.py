"""The nearest neighbours of chunks: whether what lies together also belongs together.

Scores are those of retrieval: BLAS proposes, the exact kernel decides, ties go by id.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ragstream_core.errors import RunCommand, UsageError
from ragstream_core.ports import IndexView
from ragstream_core.retrieval.rows import rows_of
from ragstream_core.retrieval.scoring import exact_cosines, propose, top


class Neighbour(NamedTuple):
    """A chunk near another."""

    chunk_id: str
    score: float  # cosine of the two vectors in [-1, 1], 6 digits


def neighbours(
    views: Sequence[IndexView], anchors: Sequence[str], *, k: int, hidden: Collection[str] = ()
) -> list[list[Neighbour]]:
    """Return for each live chunk its nearest others, by (−score, chunk_id)."""
    rows = rows_of(views)
    pool = rows.eligible(())
    if hidden:
        pool = np.array([r for r in pool.tolist() if rows.ids[r] not in hidden], dtype=np.int64)
    row_of = {rows.ids[row]: row for row in pool.tolist()}
    queries = rows.take(np.array([row_of[i] for i in anchors], dtype=np.int64))
    found: list[list[Neighbour]] = []
    for anchor, near in zip(anchors, rows.products(queries, pool), strict=True):
        proposed = pool[propose(near, min(k + 1, len(pool)))]
        ids = [rows.ids[row] for row in proposed.tolist()]
        query = queries[len(found)][None, :]
        scores = exact_cosines(rows.take(proposed), query)[:, 0]
        best = [Neighbour(ids[i], float(scores[i])) for i in top(ids, scores, len(ids))]
        found.append([n for n in best if n.chunk_id != anchor][:k])
    return found


def random_anchors(ids: Sequence[str], count: int, *, seed: int) -> list[str]:
    """Choose chunks by chance; the same ids and seed give the same."""
    known = sorted(set(ids))
    order = np.random.default_rng(seed).permutation(len(known))[:count]
    return [known[i] for i in order.tolist()]


def named_anchors(views: Sequence[IndexView], name: str, count: int) -> list[str]:
    """Return the chunks that a name means: an id, ``path#number``, or the first ones of a file."""
    path, sign, number = name.rpartition("#")
    files: list[tuple[int, str]] = []
    for view in views:
        for chunk_id, own in zip(view.chunk_ids, view.paths, strict=True):
            index = int(chunk_id.rpartition("::")[2])
            ways = {own, f"{view.project}/{own}"}
            if chunk_id == name or (sign and path in ways and number == str(index)):
                return [chunk_id]
            if name in ways:
                files.append((index, chunk_id))
    if not files:
        where = ", ".join(view.project for view in views)
        raise UsageError(
            f"no chunk or file {name!r} in {where}",
            hint=("a chunk id, a file, or file#number as ", RunCommand("search"), " prints it"),
        )
    return [chunk_id for _, chunk_id in sorted(files)[:count]]
