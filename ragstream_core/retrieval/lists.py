"""One signal's list: its exact top rows, and the anchors it is scaled with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragstream_core.retrieval.scoring import propose, scale, top

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
NO_ROWS: I64 = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class SignalList:
    """The best rows of one signal.

    Attributes:
        rows: Row numbers, best first, ties by id; only rows that may be candidates.
        scaled: Their scores in [0, 1], aligned with ``rows``; every other row counts as 0.
        anchors: The scores that count as 0 and as 1.
    """

    rows: I64
    scaled: F64
    anchors: tuple[float, float] = (0.0, 0.0)

    def over(self, rows: I64) -> F64:
        """Return the scaled scores of some rows (ascending), 0 if the list holds none."""
        result = np.zeros(len(rows))
        if len(rows):
            at = np.minimum(np.searchsorted(rows, self.rows), len(rows) - 1)
            held = rows[at] == self.rows
            result[at[held]] = self.scaled[held]
        return result


@dataclass(frozen=True, slots=True)
class Proposed:
    """Rows that may belong to a list, before exact scores decide.

    Attributes:
        inside: Rows of the Eligibility Pool, ascending.
        anchors: Rows of the unfiltered list, ascending; None if the list is its own anchor.
    """

    inside: I64
    anchors: I64 | None = None

    @property
    def rows(self) -> I64:
        """All of them, in no order."""
        if self.anchors is None:
            return self.inside
        return np.concatenate([self.inside, self.anchors])


def proposal(
    approximate: npt.NDArray[np.float32] | F64, *, pool: I64, total: int, depth: int
) -> Proposed:
    """Return what may belong to one list.

    Scaling (`quality.md`): high = the list's maximum, low = its score at rank ``depth`` (the
    minimum of a shorter list). Where fewer than ``depth`` rows are eligible both anchors come from
    the unfiltered list, so that a pool of one does not score 1.0.

    Args:
        approximate: Scores within 1e-6 of the exact ones, of all rows or of those of ``pool``.
        pool: Rows that may be returned, ascending.
        total: Number of all rows.
        depth: Length of the list.
    """
    if len(pool) == 0:
        return Proposed(NO_ROWS)
    inside = approximate if len(approximate) == len(pool) else approximate[pool]
    best = pool[propose(inside, depth)]
    if len(pool) >= min(depth, total):
        return Proposed(best)
    return Proposed(best, propose(approximate, depth))


def signal_list(
    ids: Sequence[str] | None,
    proposed: Proposed,
    exact: Callable[[I64], F64],
    *,
    depth: int,
    anchors: tuple[float, float] | None = None,
) -> SignalList:
    """Rank what was proposed for one signal by its exact scores, and scale it.

    Args:
        ids: Ids of all rows, which break ties; None: the rows are in their order.
        proposed: As from `proposal`.
        exact: Exact scores of the row numbers given.
        depth: Length of the list.
        anchors: Those of the unfiltered list, if they are known already.

    Returns:
        At most ``depth`` rows.
    """
    rows, scores = _best(ids, proposed.inside, exact, depth)
    if len(rows) == 0:
        return SignalList(rows, scores)
    if anchors is None:
        widest = scores
        if proposed.anchors is not None:
            _, widest = _best(ids, proposed.anchors, exact, depth)
        anchors = float(widest[-1]), float(widest[0])
    return SignalList(rows, scale(scores, *anchors), anchors)


def lexical_list(
    ids: Sequence[str] | None,
    scores: F64,
    *,
    pool: npt.NDArray[np.bool_],
    depth: int,
    anchors: tuple[float, float] | None = None,
) -> SignalList:
    """Rank the rows that hold a term of the query, and scale them as `proposal` says.

    Args:
        ids: Ids of all rows, which break ties; None: the rows are in their order.
        scores: Exact scores of all rows, ≥ 0; a row with 0 is no candidate.
        pool: Which rows may be returned, shape (rows,).
        depth: Length of the list.
        anchors: Those of the unfiltered list, if they are known already.
    """
    among = int(np.count_nonzero(pool))
    rows, best = _best_of(ids, scores if among == len(scores) else scores * pool, depth)
    if len(rows) == 0:
        return SignalList(rows, best)
    if anchors is None:
        widest = best
        if among < min(depth, len(scores)):
            among = len(scores)
            _, widest = _best_of(ids, scores, depth)
        low = float(widest[-1]) if len(widest) == min(depth, among) else 0.0
        anchors = low, float(widest[0])
    return SignalList(rows, scale(best, *anchors), anchors)


def _best_of(ids: Sequence[str] | None, scores: F64, depth: int) -> tuple[I64, F64]:
    return _best(ids, propose(scores, depth, over=0.0), lambda rows: scores[rows], depth)


def _best(
    ids: Sequence[str] | None, rows: I64, exact: Callable[[I64], F64], depth: int
) -> tuple[I64, F64]:
    """Return the best of some ascending rows, and their scores."""
    scores = exact(rows)
    order = top(None if ids is None else [ids[row] for row in rows.tolist()], scores, depth)
    return rows[order], scores[order]
