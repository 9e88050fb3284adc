"""How much of a question of several pieces is read as a whole, and how much piece by piece."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragstream_core.scoring import DIGITS, exact_cosines

F32 = npt.NDArray[np.float32]
QUESTION_MARKS = "?？؟"


def told(pieces: Sequence[str]) -> float:
    """Return the share of pieces that tell something and ask nothing, in [0, 1]."""
    return sum(not any(mark in piece for mark in QUESTION_MARKS) for piece in pieces) / len(pieces)


def coherence(queries: F32) -> float:
    """Return how much several pieces are about one thing: the mean cosine of two of them.

    Args:
        queries: Their unit vectors, shape (pieces, dimension), two or more.

    Returns:
        In [0, 1], rounded to 6 digits; 0 where the mean is negative.
    """
    cosines = exact_cosines(queries, queries)
    pairs = cosines[np.triu_indices(len(queries), k=1)]
    return round(float(np.clip(pairs.mean(), 0.0, 1.0)), DIGITS)


def weight_of_whole(
    pieces: Sequence[str], queries: F32, mix_a: float, mix_coherence: float
) -> float:
    """Return the weight of the reading as a whole.

    min(1, mix_a + mix_coherence · `told` · `coherence`): a list of questions has mix_a, since each
    question has words and passages of its own; the more of a question tells what it is about, and
    the more that is one thing, the more its words belong together.

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
    return round(min(1.0, mix_a + mix_coherence * told(pieces) * coherence(queries)), DIGITS)
