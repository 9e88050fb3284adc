"""`ExactStore`: exact cosine search in memory; what approximate stores are measured against.

Metric: cosine of unit vectors, in [-1, 1], higher is better, rounded to 6 digits; ties by id.
Durability: none. Cost: one product a search over all rows, then exact scores for what it proposes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstream_core.proposers.model_stamp import require_new

if TYPE_CHECKING:
    from ragstream_core.ports import F32


class ExactStore:
    """A `ragstream_core.ports.VectorStore` of unit vectors of one dimension.

    Args:
        dimension: Length of a vector.
    """

    def __init__(self, dimension: int) -> None:
        import numpy as np

        self._ids: list[str] = []
        self._rows: F32 = np.zeros((0, dimension), dtype=np.float32)

    def add(self, ids: Sequence[str], vectors: F32) -> None:
        """Add rows.

        Args:
            ids: One a row.
            vectors: Unit vectors, shape (len(ids), dimension).

        Raises:
            DuplicateId: An id is live already, or given twice; nothing was added.
            ValueError: The vectors do not have that shape.
        """
        import numpy as np

        rows = np.asarray(vectors, dtype=np.float32)
        if rows.shape != (len(ids), self._rows.shape[1]):
            raise ValueError(f"shape {rows.shape} for {len(ids)} ids")
        require_new(ids, set(self._ids))
        self._ids = [*self._ids, *ids]
        self._rows = np.concatenate([self._rows, rows])

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows; unknown ids are no error."""
        gone = set(ids)
        keep = [i for i, known in enumerate(self._ids) if known not in gone]
        self._ids = [self._ids[i] for i in keep]
        self._rows = self._rows[keep]

    def search(self, query: F32, k: int) -> list[tuple[str, float]]:
        """Return the ``k`` best (id, cosine), ties by id.

        Args:
            query: Unit vector, shape (dimension,).
            k: How many at most.
        """
        from ragstream_core.retrieval.scoring import exact_cosines, propose, top

        if k < 1 or not self._ids:
            return []
        rows = propose(self._rows @ query, min(k, len(self._ids)))
        scores = exact_cosines(self._rows[rows], query[None, :])[:, 0]
        ids = [self._ids[row] for row in rows]
        return [(ids[i], float(scores[i])) for i in top(ids, scores, k)]

    def ids(self) -> list[str]:
        """Return all live ids, sorted."""
        return sorted(self._ids)
