"""The numbers that decide: LogAvgExp, the exact cosine kernel, scaling, fusion, mixing.

Every function is pure, states formula, range and shape, and gives a row the same bits whatever
other rows are scored with it. BLAS proposes; what it computes decides only if the rounding is sure
to hide its last bits. Of a question of several pieces, a piece that holds a question mark asks and
any other one tells; that sets how much is read as a whole and how much each piece counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

DIGITS = 6
DEPTH = 100
MARGIN = 1e-5
FLAT = 1e-6
BLOCK = 64
_SHIFT_FREE = 20.0


def log_avg_exp(scores: npt.ArrayLike, tau: float = 9.0, weights: F64 | None = None) -> F64:
    """Aggregate the scores of several query pieces into one.

    (1/τ)·ln((1/N)·Σ_i exp(τ·s_i)) over the last axis (seed 001 §3), max-shifted. For each row:
    mean ≤ value ≤ max; value ≥ max − ln(N)/τ; adding c to all scores adds c.

    Args:
        scores: Shape (..., N) with N ≥ 1 pieces.
        tau: Sharpness > 0; towards 0 the mean, towards infinity the maximum.
        weights: How much each piece counts in the mean, shape (N,), ≥ 0; None: all the same.

    Returns:
        Shape (...), float64.

    Raises:
        ValueError: No piece, none that counts, or ``tau`` not positive.
    """
    values = np.asarray(scores, dtype=np.float64)
    if weights is not None:  # a piece that counts nothing must not set the peak
        values, weights = values[..., weights > 0], weights[weights > 0]
    if values.ndim == 0 or values.shape[-1] == 0 or not tau > 0:
        raise ValueError("log_avg_exp needs at least one score and tau > 0")
    peak = values.max(axis=-1, keepdims=True)
    mean = np.average(np.exp(tau * (values - peak)), axis=-1, weights=weights)
    return np.asarray(peak[..., 0] + np.log(mean) / tau)


def approximate_log_avg_exp(cosines: F32, tau: float = 9.0) -> F32 | F64:
    """Aggregate approximate cosines within 1e-6 of `log_avg_exp`; for proposing only.

    Args:
        cosines: Shape (pieces, n), in [-1, 1].
        tau: Sharpness > 0.

    Returns:
        Shape (n,).
    """
    if len(cosines) == 1:
        return np.asarray(cosines[0])
    if tau > _SHIFT_FREE:
        return log_avg_exp(cosines.T, tau)
    total = np.zeros(cosines.shape[1], dtype=np.float32)
    for row in cosines:  # cosines need no max-shift: exp(20) fits
        total += np.exp(np.float32(tau) * row)
    return np.asarray(np.log(total / np.float32(len(cosines))) / np.float32(tau))


def exact_cosines(rows: F32, queries: F32) -> F64:
    """Return the cosine of every row with every query, independent of what else is scored.

    A product by BLAS and the row-independent sum differ by less than d·2⁻⁵¹, so both round to the
    same 6 digits; what lies that near to the middle of two is summed alone.

    Args:
        rows: Unit vectors, shape (n, d).
        queries: Unit vectors, shape (p, d).

    Returns:
        Shape (n, p), in [-1, 1], rounded to 6 digits.
    """
    wide_queries = np.asarray(queries, dtype=np.float64)
    result, wide = np.empty((len(rows), len(queries))), np.empty((BLOCK, queries.shape[1]))
    for start in range(0, len(rows), BLOCK):  # a block stays in the cache
        block = rows[start : start + BLOCK]
        wide[: len(block)] = block
        np.matmul(wide[: len(block)], wide_queries.T, out=result[start : start + BLOCK])
    scaled = result * 10.0**DIGITS
    unsure = np.abs(scaled - np.floor(scaled) - 0.5) < wide_queries.shape[1] * 2.0**-51 * 10**DIGITS
    for row, query in np.argwhere(unsure).tolist():
        result[row, query] = row_sum(rows[row], wide_queries[query])
    return np.clip(np.round(result, DIGITS), -1.0, 1.0)


def row_sum(row: F32, query: F64) -> float:
    """Return the product of two vectors, the same bits whatever else is scored.

    Products of float32 values are exact in float64, and the sum runs over this row alone: neither
    subset nor order nor threads change a bit.
    """
    return float((np.asarray(row, dtype=np.float64) * query).sum())


def propose(approximate: F32 | F64, depth: int = DEPTH, over: float = -math.inf) -> I64:
    """Return the rows that may belong to the exact top ``depth``.

    Args:
        approximate: Scores within 1e-6 of the exact ones, shape (n,).
        depth: How many are wanted.
        over: Rows with this score or a lower one are not.

    Returns:
        Row numbers, ascending: the best ``depth`` and everything within 1e-5 of the last.
    """
    n = len(approximate)
    if n <= depth:
        return np.flatnonzero(approximate > over).astype(np.int64)
    # the last of the best few of a sample is never above the last of the best few of all
    least = _last_of_best(approximate[:: math.isqrt(n // depth)], depth) - MARGIN
    rows = np.flatnonzero(approximate >= least if least > over else approximate > over)
    if len(rows) <= depth:
        return rows
    near = approximate[rows]
    return rows[near >= _last_of_best(near, depth) - MARGIN]


def _last_of_best(scores: F32 | F64, depth: int) -> np.float32 | np.float64:
    at = len(scores) - depth
    last: np.float32 | np.float64 = np.partition(scores, at)[at]
    return last


def top(ids: Sequence[str] | None, scores: F64, depth: int = DEPTH) -> list[int]:
    """Return the positions of the best ``depth`` scores, ordered by (−score, id).

    Args:
        ids: Of each score; None: the scores are in the order of their ids.
        scores: Shape (n,).
        depth: How many are wanted.
    """
    if ids is None:
        found: list[int] = np.argsort(-scores, kind="stable")[:depth].tolist()
        return found
    by_id = np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)
    order: list[int] = by_id[np.argsort(-scores[by_id], kind="stable")][:depth].tolist()
    return order


def scale(scores: F64, low: float, high: float) -> F64:
    """Scale to [0, 1] between two anchors and clip; all zeros if high − low < 1e-6."""
    if high - low < FLAT:
        return np.zeros(len(scores))
    return np.clip((np.asarray(scores, dtype=np.float64) - low) / (high - low), 0.0, 1.0)


def min_max(scores: F64) -> F64:
    """Scale a list between its own minimum and maximum; all zeros if it is flat or empty."""
    if len(scores) == 0:
        return np.zeros(0)
    return scale(scores, float(np.min(scores)), float(np.max(scores)))


def convex(dense: F64, lexical: F64, dense_weight: float) -> F64:
    """Fuse two scaled signals: w·dense + (1 − w)·lexical, in [0, 1].

    Bruch, Gai, Ingber, arXiv:2210.11934: a convex combination beats rank fusion.
    """
    return dense_weight * dense + (1.0 - dense_weight) * lexical


def reciprocal_rank(ranks: Sequence[int | None], k: int = 60) -> float:
    """Fuse 1-based ranks: Σ 1/(k + rank) over the lists a candidate is in (Cormack et al. 2009).

    Args:
        ranks: Rank in each list, None if the list does not hold the candidate.
        k: Smoothing constant > 0.
    """
    return sum(1.0 / (k + rank) for rank in ranks if rank is not None)


QUESTION_MARKS = "?？؟"


def telling(pieces: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which pieces tell something and ask nothing, shape (pieces,)."""
    return np.array([not any(mark in piece for mark in QUESTION_MARKS) for piece in pieces])


def coherence(queries: F32, among: npt.NDArray[np.bool_] | None = None) -> float:
    """Return how much several pieces are about one thing: the mean cosine of two of them.

    Args:
        queries: Their unit vectors, shape (pieces, dimension), two or more.
        among: Which pieces count; a pair with another one counts as 0. None: all of them.

    Returns:
        In [0, 1], rounded to 6 digits; 0 if the mean is negative.
    """
    cosines = exact_cosines(queries, queries)
    if among is not None:
        cosines = cosines * np.outer(among, among)
    pairs = cosines[np.triu_indices(len(queries), k=1)]
    return round(float(np.clip(pairs.mean(), 0.0, 1.0)), DIGITS)


def weight_of_whole(
    pieces: Sequence[str], queries: F32, mix_a: float, mix_coherence: float
) -> float:
    """Return the weight of the reading as a whole.

    min(1, mix_a + mix_coherence · `coherence` of what is told): a list of questions has mix_a,
    since each question has words and passages of its own; the more pairs of pieces tell one thing,
    the more their words belong together.

    Args:
        pieces: Two or more.
        queries: Their unit vectors, shape (pieces, dimension).
        mix_a: The weight of a list of questions, in [0, 1].
        mix_coherence: What one sentence told over and over would add, ≥ 0; 0: always ``mix_a``.

    Returns:
        In [mix_a, 1], rounded to 6 digits.
    """
    if mix_coherence == 0:
        return mix_a
    told = coherence(queries, telling(pieces))
    return round(min(1.0, mix_a + mix_coherence * told), DIGITS)
