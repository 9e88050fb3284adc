"""`HashedEmbedder`: a bag of hashed words. It needs no weights and knows nothing of meaning.

For tests, and for looking around on a machine without the model: two texts are similar as far as
they share words, and that is all. Never a replacement for the model in real retrieval.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from ragstream_core.models.embedders import fingerprints
from ragstream_core.models.embedders.base import Encoder
from ragstream_core.text.tokenizer import WORD, word_offsets

if TYPE_CHECKING:
    from ragstream_core.ports import F16, F32


class HashedEmbedder(Encoder):
    """A deterministic embedder over word hashes (signed feature hashing); tokens are words."""

    name = "hashed-words"
    dimension = fingerprints.DIMENSION
    window = fingerprints.WINDOW

    def __init__(self) -> None:
        self._slots: dict[str, tuple[int, float]] = {}

    @property
    def fingerprint(self) -> str:
        """Digest of the hashing recipe and the dimension."""
        return fingerprints.hashed_fingerprint()

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each word and sign, in characters."""
        return word_offsets(text)

    def _slot(self, word: str) -> tuple[int, float]:
        slot = self._slots.get(word)
        if slot is None:
            code = zlib.crc32(word.encode("utf-8", "surrogatepass"))
            slot = (code % self.dimension, 1.0 if code & 0x80000000 else -1.0)
            self._slots[word] = slot
        return slot

    def _passage(self, text: str) -> F32:
        vector = np.zeros(self.dimension, dtype=np.float64)
        for word in WORD.findall(text.lower()):
            index, sign = self._slot(word)
            vector[index] += sign
        length = float(np.sqrt(np.square(vector).sum()))
        if length == 0.0:  # no words, or words that cancel: one fixed direction of their own
            vector[0] = length = 1.0
        unit: F32 = (vector / length).astype(np.float32)
        return unit

    def _tokens_of(self, text: str) -> F16:
        """Return one signed unit axis a word: equal words meet, others do not."""
        slots = [self._slot(word) for word in WORD.findall(text.lower())]
        rows: F16 = np.zeros((len(slots), self.dimension), dtype=np.float16)
        for row, (index, sign) in zip(rows, slots, strict=True):
            row[index] = sign
        return rows
