"""Texts in batches for a graphics card, so that a vector still depends on its text alone.

A card that is given one text a call waits most of the time. In a batch the bits of a vector depend
on the batch's shape, since that decides which kernels run. So every batch of a length has one
shape: as many rows, filled up, and as many tokens, padded. Whether a row's bits then depend on the
other rows or on its place is tried for each shape on the card itself; if they do, texts of that
length are run one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ragstream_core.models.embedders.base import Ids
    from ragstream_core.ports import F32

I64 = npt.NDArray[np.int64]
Run = Callable[[I64, I64], "F32"]
"""Token ids and mask, both of shape (rows, tokens) → one vector a row."""

ROWS = 64
"""Of a batch, at most; one of them stays free."""
TOKENS = 16_384
"""Of a batch, at most: a card's memory is small beside what a model may read at once."""
STEP = 32
"""Lengths are rounded up to a multiple of so many tokens."""


class DeviceBatches:
    """Runs token ids in batches of one shape a length."""

    def __init__(self, run: Run, *, pad: int, longest: int) -> None:
        self._run, self._pad, self._longest = run, pad, longest
        self._rows: dict[int, int] = {}

    def vectors(self, texts: Sequence[Ids]) -> F32:
        """Return a vector for each text."""
        lengths = np.array([self._length(text) for text in texts])
        found: F32 | None = None
        for length in np.unique(lengths).tolist():
            here = np.flatnonzero(lengths == length)
            rows = self._rows_of(length, [texts[at] for at in here.tolist()])
            for begin in range(0, len(here), rows):
                part = here[begin : begin + rows]
                made = self._batch([texts[at] for at in part.tolist()], rows, length)
                if found is None:
                    found = np.empty((len(texts), made.shape[1]), dtype=np.float32)
                found[part] = made[: len(part)]
        assert found is not None
        return found

    def _length(self, text: Ids) -> int:
        return max(STEP, min(-(-len(text) // STEP) * STEP, max(self._longest, len(text))))

    def _rows_of(self, length: int, texts: Sequence[Ids]) -> int:
        """Return how many texts of a length are run together: many, or one if that changes bits."""
        if length not in self._rows:
            most = min(ROWS, TOKENS // length) - 1  # one row stays free
            together = most > 1 and self._is_apart(length, texts, most)
            self._rows[length] = most if together else 1
        return self._rows[length]

    def _is_apart(self, length: int, texts: Sequence[Ids], rows: int) -> bool:
        """Try whether the bits of a row depend on its place or on the other rows."""
        mine = [texts[n % len(texts)] for n in range(rows // 2)]
        other = [tuple(reversed(text)) for text in mine]
        first = self._batch(mine + other, rows, length)[: len(mine)]
        turned = self._batch([*other, *reversed(mine)], rows, length)[len(other) : 2 * len(mine)]
        alone = self._batch(mine[:1], rows, length)[:1]
        return first.tobytes() == turned[::-1].tobytes() and first[:1].tobytes() == alone.tobytes()

    def _batch(self, texts: Sequence[Ids], rows: int, length: int) -> F32:
        """Run a batch of a fixed shape; what is missing is filled up with the first text.

        Beside several rows there is one of a single token: models take another way if nothing is
        padded, and whether it is must not depend on the other texts.
        """
        ids = np.full((rows + (rows > 1), length), self._pad, dtype=np.int64)
        mask = np.zeros_like(ids)
        mask[rows:, 0] = 1
        for row in range(rows):
            text = texts[row if row < len(texts) else 0]
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        return self._run(ids, mask)
