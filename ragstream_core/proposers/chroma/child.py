"""The child process that opens Chroma: builds a collection, verifies one, or answers queries.

It reads the catalog itself, so nothing is embedded and no row of an index crosses the connection. A
store torn by a kill can end it with a signal; the parent then gets an error and nothing worse.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import IntegrityError, RagstreamError
from ragstream_core.index.view import open_view
from ragstream_core.proposers.chroma.names import Metadata, describer, row_metadata, same_row
from ragstream_core.proposers.chroma.process import Built, Job, Verified, receive, send
from ragstream_core.proposers.chroma.vector_store_chroma import (
    PAGE,
    HistoryStoreChroma,
    VectorStoreChroma,
)

if TYPE_CHECKING:
    from ragstream_core.index.view import CatalogView
    from ragstream_core.ports import F32
    from ragstream_core.records import Chunk


# Makes the metadata of a chunk's row.
Describe = Callable[["Chunk"], Metadata]
QUERIES = 100

# So many rows, evenly spread over all ids, are searched for by their own vectors.
SAMPLE = 500
# Chroma normalises what it is given once more: the last bit of a number may differ.
SAME_VECTOR = 5e-7
# In float32 a graph cannot tell two rows apart whose cosine is closer to 1.
SAME_COSINE = 1e-6


def build(job: Job) -> Built:
    """Bring a collection to one generation: delete what is gone or changed, add what is new."""
    view, store, describe = _opened(job)
    have = store.snapshot()
    gone = [i for i in have if i not in view.loaded.row_of]
    added = replaced = 0
    for chunks in _pages(view):
        fresh = [c for c in chunks if not same_row(have.get(c.id), describe(c))]
        stale = [c.id for c in fresh if c.id in have]
        store.delete(stale)
        _add(store, view, fresh, describe)
        added += len(fresh)
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


def verify(job: Job) -> Verified:
    """Check a collection against its generation: every id, text, metadata and vector.

    An approximate graph may miss a row among near-equal ones: how many rows of a sample find
    themselves is a figure and no fault.
    """
    view, store, describe = _opened(job)
    faults = [*_row_faults(store, view, describe)] or [*_vector_faults(store, view)]
    recall = 0.0 if faults else _self_recall(store, view)
    return {"faults": faults, "vectors": len(view.chunk_ids), "self_recall": recall}


def _opened(job: Job) -> tuple[CatalogView, VectorStoreChroma, Describe]:
    index_dir, folder = Path(job["index_dir"]), Path(job["folder"])
    view = open_view(index_dir, project=job["project"], generation=job["generation"])
    about, graph = job["metadata"], job["graph"]
    if job["project"] == HISTORY:
        describe = describer(index_dir, view.generation)
        return view, HistoryStoreChroma(folder, metadata=about, graph=graph), describe
    return view, VectorStoreChroma(folder, job["name"], metadata=about, graph=graph), row_metadata


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


def _vector_faults(store: VectorStoreChroma, view: CatalogView) -> Iterator[str]:
    import numpy as np

    for start in range(0, len(view.chunk_ids), PAGE):
        part = list(view.chunk_ids[start : start + PAGE])
        off = np.abs(store.vectors(part) - _vectors(view, part)).max(axis=1) > SAME_VECTOR
        if off.any():
            first = part[int(off.argmax())]
            yield f"{int(off.sum())} rows have another vector, e.g. {first}"


def _self_recall(store: VectorStoreChroma, view: CatalogView) -> float:
    """Return the share of the sample whose nearest row is the row itself or one with its vector."""
    step = max(1, len(view.chunk_ids) // SAMPLE)
    ids = list(view.chunk_ids[::step])[:SAMPLE]
    found = 0
    for start in range(0, len(ids), QUERIES):
        part = ids[start : start + QUERIES]
        near = store.nearest(_vectors(view, part), 1)
        found += sum(_is(view, i, first) for i, first in zip(part, near, strict=True))
    return found / len(ids) if ids else 1.0


def _vectors(view: CatalogView, ids: Sequence[str]) -> F32:
    rows: F32 = view.vectors[[view.loaded.row_of[i] for i in ids]]
    return rows


def _is(view: CatalogView, identifier: str, near: Sequence[str]) -> bool:
    """Return whether the row that was found for a vector is its own, or has the same vector."""
    if identifier in near:
        return True
    if any(i not in view.loaded.row_of for i in near):
        raise IntegrityError("the collection returned an id that it does not hold")
    own = view.vectors[view.loaded.row_of[identifier]]
    return any(float(view.vectors[view.loaded.row_of[i]] @ own) >= 1 - SAME_COSINE for i in near)


# No file of a store grows beyond it: a torn index has been seen to claim a terabyte.
FILE_LIMIT_BYTES = 64 << 30
JOBS: dict[str, Callable[[Job], Built | Verified]] = {"build": build, "verify": verify}


def main() -> None:
    """Answer what comes on stdin, a socket, until the parent ends."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, FILE_LIMIT_BYTES))
    with Connection(os.dup(0)) as parent:
        child = _Child()
        while True:
            try:
                message, rows = receive(parent)
            except (EOFError, OSError):
                return
            send(parent, child.answer(message, rows))


class _Child:
    """Answers questions; what ``open`` opened answers those that are no jobs."""

    store: VectorStoreChroma
    rows: F32 | None = None

    def answer(self, message: dict[str, Any], rows: F32 | None) -> dict[str, Any]:
        self.rows = rows
        try:
            return {"answer": self._work(message["verb"])(*message["given"])}
        except RagstreamError as error:
            return {"error": type(error).__name__, "message": error.message}
        except Exception as error:  # the engine's own errors are of any type
            return {"error": "StoreFailed", "message": f"{type(error).__name__}: {error}"}

    def _work(self, verb: str) -> Callable[..., Any]:
        own: dict[str, Callable[..., Any]] = {"open": self._open, "nearest": self._nearest}
        return own.get(verb) or JOBS[verb]

    def _open(self, folder: str, name: str) -> None:
        self.store = VectorStoreChroma(Path(folder), name)

    def _nearest(self, n: int) -> list[list[str]]:
        return [] if self.rows is None else self.store.nearest(self.rows, n)
