"""Rows of a matrix that lie in another order in a file: read where they are, not copied first.

A million vectors of 384 numbers are 1.5 GB: to put them into the order of their ids took four
seconds and as much memory, for a question that looks at all of them once or at a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ragstream_core.ports import F32

    I64 = npt.NDArray[np.int64]

# Rows that are put in order at once when all are wanted.
_BLOCK = 8_192


class PlacedRows:
    """The rows of a matrix by their places in it; reading some copies them."""

    def __init__(
        self, matrix: F32, places: I64, require_whole: Callable[[Callable[[], F32]], F32]
    ) -> None:
        self.matrix: F32 = matrix.view(np.ndarray)
        self.places = places
        self._require_whole = require_whole

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, dimension)."""
        return len(self.places), int(self.matrix.shape[1])

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.places)

    def __getitem__(self, rows: int | slice | I64 | Sequence[int]) -> F32:
        """Return copies of some rows in the order asked for; of one number, that row."""
        places = self.places[rows]
        return self.read(lambda matrix: np.take(matrix, places, axis=0))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> F32:
        """Return all rows in their order; this is the copy that reading some rows avoids."""
        if copy is False:
            raise ValueError("the rows lie in another order: they can only be copied")
        found = np.empty(self.shape, dtype=np.float32 if dtype is None else dtype)
        for at in range(0, len(self), _BLOCK):
            found[at : at + _BLOCK] = self[at : at + _BLOCK]
        return found

    def read(self, how: Callable[[F32], F32]) -> F32:
        """Return what a function makes of the matrix, if that is what it should be."""
        return self._require_whole(lambda: how(self.matrix))
