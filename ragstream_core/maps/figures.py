"""Figures of one generation: lengths of vectors and chunks, repetitions. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragstream_core.ports import F32

BINS = 12


def norms(vectors: F32) -> dict[str, Any]:
    """Return how long the vectors are; those of a sound index have length 1.

    Args:
        vectors: Shape (n, d).

    Returns:
        ``min, mean, max`` of the finite ones (0 if there is none), ``not_finite``, ``not_unit``
        (finite ones whose length is off by more than 1e-3).
    """
    import numpy as np

    lengths = np.sqrt(np.square(np.asarray(vectors, dtype=np.float64)).sum(axis=1))
    finite = lengths[np.isfinite(lengths)]
    some = finite if len(finite) else np.zeros(1)
    return {
        "min": round(float(some.min()), 6),
        "mean": round(float(some.mean()), 6),
        "max": round(float(some.max()), 6),
        "not_finite": len(lengths) - len(finite),
        "not_unit": int((np.abs(finite - 1) > 1e-3).sum()),
    }


def histogram(values: Sequence[int], bins: int = BINS) -> list[dict[str, int]]:
    """Count whole numbers in equal ranges.

    Args:
        values: Numbers ≥ 0.
        bins: How many ranges at most, ≥ 1.

    Returns:
        ``low, high`` (both included) and ``count`` of each range, in order; their counts add up to
        the number of values. Empty for no value.
    """
    if not values:
        return []
    low, high = min(values), max(values)
    width = -(-(high - low + 1) // bins)
    counts = Counter((value - low) // width for value in values)
    return [
        {"low": low + i * width, "high": low + (i + 1) * width - 1, "count": counts[i]}
        for i in range(max(counts) + 1)
    ]


def repeated(hashes: Sequence[str]) -> dict[str, int]:
    """Return how many texts stand in several chunks.

    Args:
        hashes: The text hash of each chunk.

    Returns:
        ``texts`` that repeat, ``chunks`` that they fill, ``most`` chunks of one of them.
    """
    often = [count for count in Counter(hashes).values() if count > 1]
    return {"texts": len(often), "chunks": sum(often), "most": max(often, default=1)}
