"""`ReembedReranker` (R-136): the best candidates embedded anew, sorted by the query's vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.errors import SetSetting, UsageError

if TYPE_CHECKING:
    from ragstream_core.ports import Embedder


@dataclass(frozen=True, slots=True)
class ReembedReranker:
    """Scores passages by the cosines of fresh vectors, LogAvgExp over the query pieces."""

    embedder: Embedder
    tau: float = 9.0  # sharpness over the pieces > 0; one piece is its own cosine

    def score(self, pieces: Sequence[str], passages: Sequence[str]) -> list[float]:
        """Return one score a passage in [-1, 1], higher is better, aligned with ``passages``."""
        import numpy as np

        from ragstream_core.retrieval.scoring import DIGITS, exact_cosines, log_avg_exp

        if not getattr(self.embedder, "reproducible", True):
            raise UsageError(
                f"{self.embedder.name} may answer differently tomorrow; nothing is reranked",
                hint=SetSetting("rerank.backend", "maxsim"),
            )
        if not (pieces and passages):
            return [0.0] * len(passages)
        queries = self.embedder.embed_queries(list(pieces))
        cosines = exact_cosines(self.embedder.embed_documents(list(passages)), queries)
        return [float(score) for score in np.round(log_avg_exp(cosines, self.tau), DIGITS)]
