"""How much of a question of several pieces is read as a whole, and how much each piece counts.

A piece asks where it holds a question mark; it tells otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ragstream_core.scoring import DIGITS, exact_cosines

if TYPE_CHECKING:
    from ragstream_core.ports import F16

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
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
        In [0, 1], rounded to 6 digits; 0 where the mean is negative.
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


def weights_of_pieces(pieces: Sequence[str], tokens: Sequence[F16]) -> F64:
    """Return how much each piece counts where pieces are compared with passages one by one.

    1 where it asks, 1 − `coherence` where it tells: what is told is there to be answered only as
    far as it stands by itself; the more it belongs to the rest, the more it is background.

    Args:
        pieces: One or more.
        tokens: Their token vectors, each of shape (tokens, dimension).

    Returns:
        Shape (pieces,), in [0, 1]; a single piece has 1.
    """
    if len(pieces) == 1:
        return np.ones(1)
    return np.where(telling(pieces), 1.0 - coherence(_mean_vectors(tokens)), 1.0)


def _mean_vectors(tokens: Sequence[F16]) -> F32:
    """Return the unit mean of each piece's token vectors; zeros where it has none."""
    sums = np.stack([np.asarray(rows, dtype=np.float64).sum(axis=0) for rows in tokens])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.where(lengths == 0, 1.0, lengths), dtype=np.float32)
