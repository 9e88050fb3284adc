"""The verbs of a Chroma-backed store, and `ChromaStore`, which has a child process do them.

Metric: cosine of unit vectors, approximate candidates with exact scores, rounded to 6 digits, ties
by id among what was found. Durability: what chromadb gives; a kill in the middle of its flush can
ruin the index, so what others read is a sealed copy (`seal`). Cost: one process, about 0.5 s to
start; then a few milliseconds a query at 10,000 rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import DuplicateId
from ragstream_core.platform.undo import on_failure
from ragstream_core.proposers.chroma.names import Metadata
from ragstream_core.proposers.chroma.process import ChromaProcess
from ragstream_core.proposers.model_stamp import ModelStamp

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
        """Add rows.

        Args:
            ids: One a row.
            embeddings: Unit vectors, shape (len(ids), dimension).
            metadatas: One a row; never empty.
            documents: Their texts.

        Raises:
            DuplicateId: An id is live already, or given twice; nothing was added.
        """

    @abstractmethod
    def query(
        self, query_vector: F32, k: int, *, filters: Metadata | None = None
    ) -> list[ChromaHit]:
        """Return at most ``k`` near rows, best first.

        Args:
            query_vector: Unit vector, shape (dimension,).
            k: How many at most.
            filters: A Chroma ``where`` filter.
        """

    @abstractmethod
    def delete_where(self, filter_dict: Metadata) -> int:
        """Delete the rows that a Chroma ``where`` filter names; return how many."""

    @abstractmethod
    def snapshot(self) -> dict[str, Metadata]:
        """Return the metadata of every live row by id, sorted by id."""


ADD_S = 600.0


class ChromaStore:
    """A `ragstream_core.ports.VectorStore` over one Chroma collection.

    Args:
        folder: Where Chroma keeps its files; made when missing.
        dimension: Length of a vector.
        name: A collection name that Chroma accepts.
        embed_fp: Fingerprint of the model that makes the vectors.
        model: Its name, for people.

    Raises:
        ModelMismatch: The collection was built by another model.
        StoreFailed: Chroma cannot open the folder.
    """

    def __init__(
        self,
        folder: Path,
        dimension: int,
        *,
        name: str = "vectors",
        embed_fp: str = "",
        model: str = "",
    ) -> None:
        self._dimension = dimension
        self._process = ChromaProcess()
        mine = ModelStamp(embed_fp, model, dimension)
        with on_failure(self._process.close):
            stored = self._process.ask("open", str(folder), name, mine.to_json())
            mine.require(ModelStamp.of(stored), what=f"the collection in {folder}")

    @property
    def pid(self) -> int:
        """Id of the process that has the collection open."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether that process runs."""
        return self._process.alive

    def add(self, ids: Sequence[str], vectors: F32) -> None:
        """Add rows.

        Raises:
            DuplicateId: An id is live already, or given twice; nothing was added.
            ValueError: The vectors do not have the shape (len(ids), dimension).
            StoreFailed: Chroma refused or its process died.
        """
        if vectors.shape != (len(ids), self._dimension):
            raise ValueError(f"shape {vectors.shape} for {len(ids)} ids")
        if len(set(ids)) < len(ids):
            raise DuplicateId("ids are given twice", hint="give each once")
        metadata = [{"id": identifier} for identifier in ids]
        self._process.ask("add", list(ids), None, metadata, rows=vectors, within_s=ADD_S)

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows; unknown ids are no error.

        Raises:
            StoreFailed: Chroma refused or its process died.
        """
        self._process.ask("delete", list(ids), within_s=ADD_S)

    def search(self, query: F32, k: int) -> list[tuple[str, float]]:
        """Return about the ``k`` best (id, cosine), ties by id; the cosines are exact.

        Raises:
            StoreFailed: Chroma refused or its process died.
        """
        found = self._process.ask("search", None, k, rows=query[None, :])
        return [(identifier, score) for identifier, score in found]

    def nearest(self, queries: F32, n: int) -> list[list[str]]:
        """Return the ids of about the ``n`` nearest rows of each query, best first.

        Args:
            queries: Unit vectors, shape (queries, dimension).
            n: How many at most.

        Raises:
            StoreFailed: Chroma refused or its process died.
        """
        ids: list[list[str]] = self._process.ask("nearest", None, n, rows=queries)
        return ids

    def ids(self) -> list[str]:
        """Return all live ids, sorted.

        Raises:
            StoreFailed: Chroma refused or its process died.
        """
        found: list[str] = self._process.ask("ids", within_s=ADD_S)
        return found

    def close(self) -> None:
        """End the process; the collection stays."""
        self._process.close()
