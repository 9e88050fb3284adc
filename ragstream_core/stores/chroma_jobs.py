"""What a child does with a whole collection: bring a copy up to a generation, and verify one.

Both read the catalog themselves, so nothing is embedded and nothing but names crosses the pipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import IntegrityError
from ragstream_core.history.records import HISTORY
from ragstream_core.stores.chroma_names import row_metadata, same_row
from ragstream_core.stores.chroma_vector_store_base import Metadata
from ragstream_core.stores.history_store_chroma import HistoryStoreChroma, describer
from ragstream_core.stores.vector_store_chroma import PAGE, VectorStoreChroma
from ragstream_core.stores.view import open_view

if TYPE_CHECKING:
    from ragstream_core.records import Chunk
    from ragstream_core.stores.view import CatalogView

Describe = Callable[["Chunk"], dict[str, Any]]
"""Makes the metadata of a chunk's row."""
QUERIES = 100
SAME_VECTOR = 1e-5
SECOND_LOOK = 200


def build(job: dict[str, Any]) -> dict[str, Any]:
    """Bring a collection to one generation: delete what is gone or changed, add what is new.

    Args:
        job: ``folder``, ``name``, ``metadata`` of the collection; ``index_dir``, ``project``,
            ``generation``.

    Returns:
        ``rows``, ``added`` (ids), ``deleted`` (how many), ``chromadb``, ``dimension``.

    Raises:
        RagstreamError: The catalog is damaged or the generation is gone.
    """
    view, store, describe = _opened(job)
    have = store.snapshot()
    gone = [i for i in have if i not in view.loaded.row_of]
    added: list[str] = []
    replaced = 0
    for chunks in _pages(view):
        fresh = [c for c in chunks if not same_row(have.get(c.id), describe(c))]
        stale = [c.id for c in fresh if c.id in have]
        store.delete(stale)
        _add(store, view, fresh, describe)
        added += [c.id for c in fresh]
        replaced += len(stale)
    store.delete(gone)
    deleted = replaced + len(gone)
    return {
        "rows": store.count(),
        "added": added,
        "deleted": deleted,
        "chromadb": store.version,
        "dimension": int(view.vectors.shape[1]),
    }


def verify(job: dict[str, Any]) -> dict[str, Any]:
    """Check a collection against its generation.

    Ids, metadata and texts of all rows, the vectors of those named, and that each of these finds
    itself.

    Args:
        job: As `build`, and ``ids``: the rows whose vectors are checked, None for all.

    Returns:
        ``faults``: what is wrong, for people; empty where the collection is right.

    Raises:
        RagstreamError: The catalog is damaged or the generation is gone.
    """
    view, store, describe = _opened(job)
    faults = list(_row_faults(store, view, describe))
    wanted = list(view.chunk_ids) if job["ids"] is None else job["ids"]
    if not faults:
        faults += _vector_faults(store, view, wanted)
    return {"faults": faults, "vectors": len(wanted)}


def _opened(job: dict[str, Any]) -> tuple[CatalogView, VectorStoreChroma, Describe]:
    index_dir, folder = Path(job["index_dir"]), Path(job["folder"])
    view = open_view(index_dir, project=job["project"], generation=int(job["generation"]))
    if job["project"] == HISTORY:
        describe = describer(index_dir, view.generation)
        return view, HistoryStoreChroma(folder, metadata=job["metadata"]), describe
    return view, VectorStoreChroma(folder, job["name"], metadata=job["metadata"]), row_metadata


def _pages(view: CatalogView) -> Iterator[list[Chunk]]:
    for start in range(0, len(view.chunk_ids), PAGE):
        yield view.chunks(view.chunk_ids[start : start + PAGE])


def _add(
    store: VectorStoreChroma, view: CatalogView, chunks: Sequence[Chunk], describe: Describe
) -> None:
    rows = [view.loaded.row_of[c.id] for c in chunks]
    store.add(
        [c.id for c in chunks],
        view.vectors[rows],
        [describe(c) for c in chunks],
        documents=[c.snippet for c in chunks],
    )


def _row_faults(store: VectorStoreChroma, view: CatalogView, describe: Describe) -> Iterator[str]:
    have: dict[str, Metadata] = store.snapshot()
    if store.count() != len(view.chunk_ids):
        yield f"{store.count()} rows instead of {len(view.chunk_ids)}"
    if list(have) != list(view.chunk_ids):
        missing = sum(1 for i in view.chunk_ids if i not in have)
        foreign = sum(1 for i in have if i not in view.loaded.row_of)
        yield f"{missing} ids are missing, {foreign} do not belong there"
        return
    texts = dict(store.texts())
    wrong = [
        c.id
        for chunks in _pages(view)
        for c in chunks
        if not same_row(have[c.id], describe(c)) or texts.get(c.id) != c.snippet
    ]
    if wrong:
        yield f"{len(wrong)} rows have another text or other metadata, e.g. {wrong[0]}"


def _vector_faults(
    store: VectorStoreChroma, view: CatalogView, ids: Sequence[str]
) -> Iterator[str]:
    import numpy as np

    lost: list[str] = []
    for start in range(0, len(ids), QUERIES):
        part = list(ids[start : start + QUERIES])
        rows = view.vectors[[view.loaded.row_of[i] for i in part]]
        if np.abs(store.vectors(part) - rows).max() > SAME_VECTOR:
            yield f"a vector among {part[0]} … {part[-1]} is another one"
        found = store.nearest(rows, 1)
        lost += [i for i, near in zip(part, found, strict=True) if not _is(view, i, near)]
    for identifier in lost:  # a graph may hide a row from a quick look, not from a thorough one
        row = view.vectors[[view.loaded.row_of[identifier]]]
        if not _is(view, identifier, store.nearest(row, SECOND_LOOK)[0]):
            yield f"the vector of {identifier} does not find itself"


def _is(view: CatalogView, identifier: str, near: Sequence[str]) -> bool:
    """Say whether a row is among what was found for its vector, or one with the same vector is."""
    if identifier in near:
        return True
    own = view.vectors[view.loaded.row_of[identifier]]
    rows = [view.loaded.row_of.get(i) for i in near[:1]]
    if None in rows:
        raise IntegrityError("the collection returned an id that it does not hold")
    return any(float(view.vectors[row] @ own) >= 1.0 - SAME_VECTOR for row in rows)
