"""One signal's list: its exact top rows, and the anchors it is scaled with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragstream_core.scoring import propose, scale, top

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SignalList:
    """The best rows of one signal.

    Attributes:
        rows: Row numbers, best first, ties by id; only rows that may be candidates.
        scaled: Their scores in [0, 1], aligned with ``rows``; every other row counts as 0.
    """

    rows: I64
    scaled: F64

    def over(self, rows: I64) -> F64:
        """Return the scaled scores of some rows, 0 where the list does not hold one."""
        held = dict(zip(self.rows.tolist(), self.scaled.tolist(), strict=True))
        return np.array([held.get(row, 0.0) for row in rows.tolist()])


def signal_list(
    ids: Sequence[str],
    approximate: F64 | npt.NDArray[np.float32],
    exact: Callable[[I64], F64],
    *,
    eligible: Mask,
    depth: int,
    floor: float | None = None,
) -> SignalList:
    """Rank one signal within the Eligibility Pool and scale it.

    Scaling (`quality.md`): high = the list's maximum, low = its score at rank ``depth`` (the
    minimum of a shorter list). Where fewer than ``depth`` rows are eligible both anchors come from
    the unfiltered list, so that a pool of one does not score 1.0.

    Args:
        ids: Ids of all rows; break ties.
        approximate: Scores of all rows within 1e-6 of the exact ones.
        exact: Exact scores of the row numbers given.
        eligible: Which rows may be returned, shape (rows,).
        depth: Length of the list.
        floor: Rows at or below this exact score are no candidates (0 for BM25).

    Returns:
        At most ``depth`` rows.
    """
    inside = np.flatnonzero(eligible)
    rows, scores = _exact_top(ids, approximate, exact, inside, depth)
    anchors = scores
    if len(inside) < min(depth, len(ids)):
        _, anchors = _exact_top(ids, approximate, exact, np.arange(len(ids)), depth)
    if len(rows) == 0:
        return SignalList(rows, scores)
    scaled = scale(scores, float(anchors[-1]), float(anchors[0]))
    if floor is not None:
        rows, scaled = rows[scores > floor], scaled[scores > floor]
    return SignalList(rows, scaled)


def _exact_top(
    ids: Sequence[str],
    approximate: F64 | npt.NDArray[np.float32],
    exact: Callable[[I64], F64],
    inside: I64,
    depth: int,
) -> tuple[I64, F64]:
    proposed = inside[propose(np.asarray(approximate, dtype=np.float64)[inside], depth)]
    scores = exact(proposed)
    order = top([ids[row] for row in proposed.tolist()], scores, depth)
    return proposed[order], scores[order]
