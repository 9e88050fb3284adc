"""The model-free reranker: MaxSim over the encoder's own token vectors (`quality.md`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ragstream_core.retrieval.mixing import weights_of_pieces
from ragstream_core.scoring import DIGITS, log_avg_exp, max_sim

if TYPE_CHECKING:
    from ragstream_core.ports import F16


class TokenVectors(Protocol):
    """Gives token vectors, fresh or cached: the values are the same."""

    def token_vectors(self, texts: Sequence[str]) -> list[F16]:
        """Return one array (tokens, dimension) a text, float16."""
        ...


@dataclass(frozen=True, slots=True)
class MaxSimScorer:
    """Scores passages by late interaction with the query pieces, joined by LogAvgExp.

    A piece that only tells counts less (`mixing.weights_of_pieces`).

    Attributes:
        queries: Encodes the pieces.
        passages: Encodes the passages; usually through a cache.
        tau: Sharpness over the pieces > 0; one piece is its own score.
    """

    queries: TokenVectors
    passages: TokenVectors
    tau: float = 9.0

    def score(self, pieces: Sequence[str], passages: Sequence[str]) -> list[float]:
        """Return one score a passage in [-1, 1], higher is better, aligned with ``passages``."""
        asked = self.queries.token_vectors(list(pieces))
        rows = max_sim(asked, self.passages.token_vectors(list(passages)))
        weights = weights_of_pieces(pieces, asked)
        joined = log_avg_exp(np.array(rows).T, self.tau, weights if weights.any() else None)
        return [float(score) for score in np.round(joined, DIGITS)]

    def share(self, pieces: Sequence[str]) -> float:
        """Return how much these scores count beside retrieval's: as the piece that counts most.

        Returns:
            In [0, 1], rounded to 6 digits; 1 for a single piece, and where any piece asks.
        """
        weights = weights_of_pieces(pieces, self.queries.token_vectors(list(pieces)))
        return round(float(weights.max()), DIGITS)
