"""From an encoder's numbers to unit vectors: float64 inside, one rounding at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ragstream_core.errors import EmbeddingFailed

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragstream_core.ports import F16, F32


def mean_unit(rows: Sequence[npt.NDArray[Any]] | npt.NDArray[Any]) -> F32:
    """Return the mean of rows, scaled to length 1.

    Args:
        rows: Shape (n, dimension), n ≥ 1.

    Returns:
        Shape (dimension,), float32, length 1 ± 1e-6.

    Raises:
        EmbeddingFailed: The mean is not finite or has no length.
    """
    mean = np.asarray(rows, dtype=np.float64).mean(axis=0)
    length = float(np.sqrt(np.square(mean).sum()))
    if not 0.0 < length < float("inf"):  # also catches NaN
        raise EmbeddingFailed("the encoder returned a vector that is not finite or has no length")
    unit: F32 = (mean / length).astype(np.float32)
    return unit


def unit_rows_f16(rows: npt.NDArray[Any]) -> F16:
    """Scale each row to length 1 and round it to float16.

    Args:
        rows: Shape (n, dimension), n ≥ 0.

    Raises:
        EmbeddingFailed: A row is not finite or has no length.
    """
    wide = np.asarray(rows, dtype=np.float64)
    lengths = np.sqrt(np.square(wide).sum(axis=1, keepdims=True))
    if not bool(np.all((lengths > 0.0) & np.isfinite(lengths))):
        raise EmbeddingFailed("the encoder returned a token vector that is not usable")
    unit: F16 = (wide / lengths).astype(np.float16)
    return unit


def stack_checked(rows: Iterable[F32], *, shape: tuple[int, int]) -> F32:
    """Put rows under each other and refuse anything but what was asked for.

    Args:
        rows: Vectors of length ``shape[1]``.
        shape: Expected (texts, dimension).

    Returns:
        Shape ``shape``, float32, each row of length 1 ± 1e-6.

    Raises:
        EmbeddingFailed: Wrong count, wrong dimension, not finite, or not of length 1.
    """
    stacked: F32 = np.asarray(list(rows), dtype=np.float32).reshape(-1, shape[1])
    if stacked.shape != shape:
        raise EmbeddingFailed(f"the encoder returned shape {stacked.shape}, expected {shape}")
    lengths = np.sqrt(np.square(stacked, dtype=np.float64).sum(axis=1))
    if not bool(np.all(np.abs(lengths - 1.0) <= 1e-6)):  # NaN fails the comparison too
        raise EmbeddingFailed("the encoder returned a vector that is not finite or not of length 1")
    return stacked
