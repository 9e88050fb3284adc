"""Vector stores by name: `create_vector_store` is how everything above gets one (R-080).

Importing this module loads no engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import UsageError
from ragstream_core.platform.registry import Port, Registry

if TYPE_CHECKING:
    from ragstream_core.ports import VectorStore

CATALOG = "catalog"
"""The index's own vectors, scored exactly: not a store beside it, so nothing is made for it."""
MADE_FROM_AN_INDEX = ("faiss_ivf", "pgvector")
"""Selected by their names too, and asked by `candidate_stores`; nobody fills one by hand."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What a store may ask for.

    Attributes:
        folder: Where it may keep files.
        dimension: Length of a vector.
        name: First part of its file names.
        embed_fp: Fingerprint of the model that makes the vectors.
        model: Its name, for people.
    """

    folder: Path
    dimension: int
    name: str = "vectors"
    embed_fp: str = ""
    model: str = ""


def _exact(dimension: int) -> VectorStore:
    from ragstream_core.proposers.exact import ExactStore

    return ExactStore(dimension)


def _chroma(folder: Path, dimension: int, name: str, embed_fp: str, model: str) -> VectorStore:
    from ragstream_core.proposers.chroma.store import ChromaStore

    return ChromaStore(folder, dimension, name=name, embed_fp=embed_fp, model=model)


def _faiss(folder: Path, dimension: int, name: str, embed_fp: str, model: str) -> VectorStore:
    from ragstream_core.proposers.faiss import FaissStore

    return FaissStore(folder, dimension, name=name, embed_fp=embed_fp, model=model)


VECTOR_STORES: Registry[VectorStore] = Registry(
    "vector store",
    setting="retrieval.store",
    port=Port("VectorStore", ("add", "delete", "search", "ids")),
    options=StoreOptions,
    built_in={
        "exact": _exact,
        "chroma": _chroma,
        "faiss": _faiss,
    },
    reserved=(CATALOG, *MADE_FROM_AN_INDEX),
)


def create_vector_store(backend: str, options: StoreOptions) -> VectorStore:
    """Return a store, opened if there are files of it.

    Args:
        backend: ``exact``, ``chroma``, ``faiss``, a registered name, or an import path
            ``package.module:factory``.
        options: What it may ask for.

    Raises:
        UnknownSetting: No such store.
        UsageError: What the factory returned is no `ragstream_core.ports.VectorStore`, or its
            extra is not installed.
        ModelMismatch: Its files were written for another model.
        IntegrityError: Its files are damaged.
    """
    if backend in MADE_FROM_AN_INDEX:
        raise UsageError(
            f"the vector store {backend!r} is made from an index and cannot be filled by hand",
            hint=f"set retrieval.store={backend}; the next ingest makes it",
        )
    return VECTOR_STORES.create(backend, options)
