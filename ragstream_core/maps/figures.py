"""Figures of one generation: lengths of vectors and chunks, repetitions. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ragstream_core.ports import F32

BINS = 12


class Norms(NamedTuple):
    """How long vectors are."""

    min: float  # of the finite ones; 0 if there is none
    mean: float
    max: float
    not_finite: int
    not_unit: int  # how many finite ones have a length that is off 1 by more than 1e-3


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many numbers lie in a range, both ends included."""

    low: int
    high: int
    count: int


class Repeats(NamedTuple):
    """Texts that stand in several chunks, the chunks that they fill, and the most of one text."""

    texts: int
    chunks: int
    most: int


def norms(vectors: F32) -> Norms:
    """Return how long the vectors are; those of a sound index have length 1."""
    import numpy as np

    lengths = np.sqrt(np.square(np.asarray(vectors, dtype=np.float64)).sum(axis=1))
    finite = lengths[np.isfinite(lengths)]
    some = finite if len(finite) else np.zeros(1)
    return Norms(
        min=round(float(some.min()), 6),
        mean=round(float(some.mean()), 6),
        max=round(float(some.max()), 6),
        not_finite=len(lengths) - len(finite),
        not_unit=int((np.abs(finite - 1) > 1e-3).sum()),
    )


def histogram(values: Sequence[int], bins: int = BINS) -> list[Bucket]:
    """Count whole numbers in equal ranges."""
    if not values:
        return []
    low, high = min(values), max(values)
    width = -(-(high - low + 1) // bins)
    counts = Counter((value - low) // width for value in values)
    return [
        Bucket(low + i * width, low + (i + 1) * width - 1, counts[i])
        for i in range(max(counts) + 1)
    ]


def repeated(hashes: Sequence[str]) -> Repeats:
    """Return how many texts stand in several chunks."""
    often = [count for count in Counter(hashes).values() if count > 1]
    return Repeats(len(often), sum(often), max(often, default=1))
