"""The verbs of a store in Chroma (R-075)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.proposers.chroma.names import Metadata

if TYPE_CHECKING:
    from ragstream_core.ports import F32


@dataclass(frozen=True, slots=True)
class ChromaHit:
    """One row that a query found.

    Attributes:
        id: The row's id.
        score: Cosine in [-1, 1] as the engine computed it, higher is better.
        metadata: What is stored beside the vector.
    """

    id: str
    score: float
    metadata: Metadata


class ChromaVectorStoreBase(ABC):
    """Add, query, delete by filter, and take a snapshot; nothing else."""

    @abstractmethod
    def add(
        self,
        ids: Sequence[str],
        embeddings: F32,
        metadatas: Sequence[Metadata],
        *,
        documents: Sequence[str] | None = None,
    ) -> None:
        """Add rows."""

    @abstractmethod
    def query(
        self, query_vector: F32, k: int, *, filters: Metadata | None = None
    ) -> list[ChromaHit]:
        """Return at most ``k`` near rows, best first."""

    @abstractmethod
    def delete_where(self, filter_dict: Metadata) -> int:
        """Delete the rows that a Chroma ``where`` filter names; return how many."""

    @abstractmethod
    def snapshot(self) -> dict[str, Metadata]:
        """Return the metadata of every live row by id, sorted by id."""
