"""`VectorStoreChroma`: one Chroma collection in one folder, opened in this process.

Metric: cosine, approximate (HNSW). Durability: rows are committed by SQLite; the index beside them
does not survive a kill in the middle of its flush and can take the next process down with it. So
only child processes open one (`child`), and what others see is sealed (`seal`).
Never a live id twice, never an embedding function, no telemetry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import StoreFailed, UsageError
from ragstream_core.proposers.chroma.names import HISTORY_MAIN, REQUIRED, Metadata
from ragstream_core.proposers.plain import require_new

if TYPE_CHECKING:
    from ragstream_core.ports import F32
    from ragstream_core.records.identity import Json

PAGE = 2_000  # a call that wants everything fails at 100,000 rows
HNSW: dict[str, Json] = {
    "space": "cosine",
    "ef_construction": 200,
    "ef_search": 100,
    "max_neighbors": 32,
}
STANDARD, DENSE = "standard", "dense"

# How a new collection's graph is built; the dense one hides fewer rows among near-equal ones.
GRAPHS: dict[str, Json] = {
    STANDARD: HNSW,
    DENSE: {**HNSW, "ef_construction": 800, "max_neighbors": 64},
}


@dataclass(frozen=True, slots=True)
class ChromaHit:
    """One row that a query found."""

    id: str
    score: float  # cosine in [-1, 1] as the engine computed it, higher is better
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


class VectorStoreChroma(ChromaVectorStoreBase):
    """A collection of unit vectors.

    Attributes:
        version: Version of chromadb.
        metadata: What the collection says of itself.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        metadata: Metadata | None = None,
        graph: str = STANDARD,
    ) -> None:
        import chromadb
        from chromadb.config import Settings

        self.version = chromadb.__version__
        self._client: Any = chromadb.PersistentClient(
            path=str(folder), settings=Settings(anonymized_telemetry=False)
        )
        known = [found.name for found in self._client.list_collections()]
        if name in known:
            self._collection: Any = self._client.get_collection(name, embedding_function=None)
        else:
            self._collection = self._client.create_collection(
                name,
                embedding_function=None,
                configuration={"hnsw": GRAPHS[graph]},
                metadata=dict(metadata) if metadata else None,
            )
        self.metadata: Metadata = dict(self._collection.metadata or {})
        self._batch = min(PAGE, int(self._client.get_max_batch_size()))

    def add(
        self,
        ids: Sequence[str],
        embeddings: F32,
        metadatas: Sequence[Metadata],
        *,
        documents: Sequence[str] | None = None,
    ) -> None:
        """Add rows in batches; Chroma itself would ignore a live id without a word."""
        require_new(ids, self.live(ids))
        for start in range(0, len(ids), self._batch):
            part = slice(start, start + self._batch)
            self._collection.add(
                ids=list(ids[part]),
                embeddings=embeddings[part],
                metadatas=[dict(row) for row in metadatas[part]],
                documents=list(documents[part]) if documents is not None else None,
            )

    def query(
        self, query_vector: F32, k: int, *, filters: Metadata | None = None
    ) -> list[ChromaHit]:
        """Return at most ``k`` near rows, best first."""
        count = self.count()
        if k < 1 or not count:
            return []
        found = self._collection.query(
            query_embeddings=query_vector[None, :],
            n_results=min(k, count),
            where=dict(filters) if filters else None,
            include=["distances", "metadatas"],
        )
        rows = zip(found["ids"][0], found["distances"][0], found["metadatas"][0], strict=True)
        return [ChromaHit(i, 1.0 - float(distance), meta or {}) for i, distance, meta in rows]

    def nearest(self, queries: F32, n: int) -> list[list[str]]:
        """Return the ids of about the ``n`` nearest rows of each query, best first."""
        count = self.count()
        if n < 1 or not count or not len(queries):
            return [[] for _ in queries]
        found = self._collection.query(
            query_embeddings=queries, n_results=min(n, count), include=[]
        )
        return [list(ids) for ids in found["ids"]]

    def delete_where(self, filter_dict: Metadata) -> int:
        """Delete the rows that a Chroma ``where`` filter names; return how many."""
        found = self._collection.get(where=dict(filter_dict), include=[])["ids"]
        self.delete(found)
        return len(found)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows in batches; unknown ids are no error."""
        known = sorted(self.live(ids))
        for start in range(0, len(known), self._batch):
            self._collection.delete(ids=known[start : start + self._batch])

    def live(self, ids: Sequence[str]) -> set[str]:
        """Return those of some ids that are live."""
        unique = sorted(set(ids))
        found: set[str] = set()
        for start in range(0, len(unique), self._batch):
            part = unique[start : start + self._batch]
            found.update(self._collection.get(ids=part, include=[])["ids"])
        return found

    def snapshot(self) -> dict[str, Metadata]:
        """Return the metadata of every live row by id, sorted by id."""
        rows = {i: meta or {} for i, meta, _ in self._pages(["metadatas"])}
        return dict(sorted(rows.items()))

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield (id, document) of every live row."""
        for identifier, _, text in self._pages(["documents"]):
            yield identifier, text or ""

    def vectors(self, ids: Sequence[str]) -> F32:
        """Return the stored vectors of live rows, aligned with ``ids``."""
        import numpy as np

        found = self._collection.get(ids=list(ids), include=["embeddings"])
        held = dict(zip(found["ids"], found["embeddings"], strict=True))
        missing = [i for i in ids if i not in held]
        if missing:
            raise StoreFailed(f"{len(missing)} rows of the collection have no vector")
        return np.asarray([held[i] for i in ids], dtype=np.float32)

    def count(self) -> int:
        """Return how many rows there are; a count proves nothing about the vectors."""
        return int(self._collection.count())

    def _pages(self, include: list[str]) -> Iterator[tuple[str, Metadata | None, str | None]]:
        for start in range(0, self.count(), self._batch):
            page = self._collection.get(limit=self._batch, offset=start, include=include)
            empty: list[Any] = [None] * len(page["ids"])
            yield from zip(
                page["ids"], page["metadatas"] or empty, page["documents"] or empty, strict=True
            )


class HistoryStoreChroma(VectorStoreChroma):
    """The turns of all sessions in one collection (R-227), for tools: prompts never read it."""

    def __init__(
        self, folder: Path, *, metadata: Metadata | None = None, graph: str = STANDARD
    ) -> None:
        super().__init__(folder, HISTORY_MAIN, metadata=metadata, graph=graph)

    def add(
        self,
        ids: Sequence[str],
        embeddings: F32,
        metadatas: Sequence[Metadata],
        *,
        documents: Sequence[str] | None = None,
    ) -> None:
        """Add rows that say which turn they are of."""
        for identifier, row in zip(ids, metadatas, strict=True):
            if missing := sorted(REQUIRED - row.keys()):
                raise UsageError(
                    f"{identifier}: a row of {HISTORY_MAIN} needs {', '.join(missing)}",
                    hint="make it with turn_metadata",
                )
        super().add(ids, embeddings, metadatas, documents=documents)
