"""How near each word of a question comes to each sentence of some passages, by token vectors.

The nearness of a token is its best cosine with the sentence's tokens, that of a word the mean over
its tokens: MaxSim for single words and sentences. Products of float16 values are exact in float64
(see `max_sim.max_sim`), so that the numbers are the same with any number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ragstream_core.retrieval.max_sim import RecentProducts, TokenVectors
from ragstream_core.retrieval.scoring import DIGITS

if TYPE_CHECKING:
    from ragstream_core.ports import F16

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Span = tuple[int, int]
Offsets = Callable[[str], Sequence[Span]]

# Passages whose tokens are held: neighbouring questions find the same ones.
RECENT = 64
# Passages of which it is held where their tokens begin.
MANY = 1_024


@dataclass(frozen=True)
class WordNearness:
    """Measures words of a question against sentences of passages.

    Attributes:
        queries: Encodes the questions.
        passages: Encodes the passages; usually through a cache.
        offsets: Where the tokens of a text stand, in characters, one a row of its vectors.
        recent: What MaxSim has worked out already.
    """

    queries: TokenVectors
    passages: TokenVectors
    offsets: Offsets
    recent: RecentProducts = field(default_factory=RecentProducts)

    def __call__(
        self, question: str, words: Sequence[Span], places: Sequence[tuple[str, Sequence[Span]]]
    ) -> list[list[float]]:
        """Return for each sentence one number a word, in [-1, 1], rounded to 6 digits.

        Args:
            question: The text that the words stand in.
            words: Where.
            places: Each passage with its sentences.
        """
        columns = _share(self.offsets(question), words)
        used = columns.any(axis=1)
        products, cuts, before = [], [], 0
        for text, spans in places:
            rows = self._products(question, text)[:, used]
            products.append(rows)
            ends = np.searchsorted(self._starts(text), np.asarray(spans).ravel())
            cuts.append(before + np.minimum(ends, len(rows)))  # a model may cut tokens
            before += len(rows)
        columns = columns[used]
        best = _best(np.concatenate(products), np.concatenate(cuts))
        found: list[list[float]] = np.round(best @ columns, DIGITS).tolist()
        return found

    def _products(self, question: str, text: str) -> F64:
        known = self.recent.of(question, text)
        if known is not None:
            return known
        asked: F16 = self.queries.token_vectors([question])[0]
        return self._tokens(text) @ asked.astype(np.float64).T

    @functools.cached_property
    def _tokens(self) -> Callable[[str], F64]:
        def read(text: str) -> F64:
            rows: F16 = self.passages.token_vectors([text])[0]
            return rows.astype(np.float64)

        return functools.lru_cache(maxsize=RECENT)(read)

    @functools.cached_property
    def _starts(self) -> Callable[[str], I64]:
        def read(text: str) -> I64:
            return np.array([start for start, _ in self.offsets(text)], dtype=np.int64)

        return functools.lru_cache(maxsize=MANY)(read)


def _best(products: F64, cuts: I64) -> F64:
    """Return the largest product of each sentence with each token, in [-1, 1]; 0 for no token.

    Args:
        products: Shape (tokens of all passages, tokens of the question).
        cuts: Where sentences begin and end, shape (2 · sentences,).
    """
    padded = np.concatenate([products, np.zeros((1, products.shape[1]))])  # the last may be empty
    best = np.clip(np.maximum.reduceat(padded, cuts, axis=0)[::2], -1.0, 1.0)
    best[cuts[::2] == cuts[1::2]] = 0.0
    return best


def _share(tokens: Sequence[Span], words: Sequence[Span]) -> F64:
    """Return the share of each token in each word, shape (tokens, words)."""
    held = np.array([[float(a < end and b > start) for start, end in words] for a, b in tokens])
    shares: F64 = held / np.maximum(held.sum(axis=0), 1.0)
    return shares
