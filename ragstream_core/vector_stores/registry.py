"""Vector stores by name: `create_vector_store` is how everything above gets one (R-080).

A name is one of the built-in ones, one given to `register_vector_store`, or an import path
(``package.module:factory``). Importing this module loads no engine.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.platform.registry import Factory, load_factory, require_methods, wanted

if TYPE_CHECKING:
    from ragstream_core.ports import VectorStore

PORT_METHODS = ("add", "delete", "search", "ids")
CATALOG = "catalog"
"""The index's own vectors, scored exactly: not a store beside it, so nothing is made for it."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What a store may want to know.

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


def create_vector_store(backend: str, options: StoreOptions) -> VectorStore:
    """Return a store, opened where there are files of it.

    Args:
        backend: ``exact``, ``chroma``, ``faiss``, a registered name, or an import path
            ``package.module:factory``.
        options: What it may want to know.

    Raises:
        UnknownSetting: No such backend.
        UsageError: What the factory returned is no `ragstream_core.ports.VectorStore`, or its
            extra is not installed.
        ModelMismatch: Its files were written for another model.
        IntegrityError: Its files are damaged.
    """
    factory = _factory(backend)
    what = f"vector store {backend!r}"
    store = factory(**wanted(factory, _values(options), what))
    require_methods(store, PORT_METHODS, what=what, port="VectorStore")
    return cast("VectorStore", store)


def register_vector_store(name: str, factory: Factory) -> None:
    """Make a store selectable by name.

    Args:
        name: The value of ``retrieval.store`` that selects it.
        factory: A class or function whose parameters are named as fields of `StoreOptions`.

    Raises:
        UsageError: The name is taken, the factory cannot be called, wants other parameters, or is
            a class without the methods of `ragstream_core.ports.VectorStore`.
    """
    if name in _STORES or name == CATALOG:
        raise UsageError(f"a vector store {name!r} already exists")
    if not callable(factory):
        raise UsageError(f"vector store {name!r} is not a class or function: {factory!r}")
    _check(factory, f"vector store {name!r}")
    _STORES[name] = factory


def unregister_vector_store(name: str) -> None:
    """Forget a registered store; the built-in ones and unknown names are left alone."""
    if name not in _BUILT_IN:
        _STORES.pop(name, None)


def vector_stores() -> list[str]:
    """Return the names of all stores that can be selected, sorted."""
    return sorted({*_STORES, CATALOG})


def check_vector_store(backend: str) -> None:
    """Refuse a setting that names no store; the built-in ones are known without an import.

    Raises:
        UnknownSetting: No such backend.
        UsageError: What the path names does not satisfy the port.
    """
    if backend != CATALOG and backend not in _BUILT_IN:
        _check(_factory(backend), f"vector store {backend!r}")


def _check(factory: Factory, what: str) -> None:
    if isinstance(factory, type):
        require_methods(factory, PORT_METHODS, what=what, port="VectorStore")
    wanted(factory, _values(StoreOptions(Path(), 1)), what)


def _values(options: StoreOptions) -> dict[str, Any]:
    return {field.name: getattr(options, field.name) for field in fields(options)}


def _factory(backend: str) -> Factory:
    if backend in _STORES:
        return _STORES[backend]
    factory = load_factory(backend, "vector store")
    if factory is None:
        raise UnknownSetting(
            f"no vector store {backend!r}",
            hint=f"set retrieval.store to one of {', '.join(vector_stores())}",
        )
    return factory


def _exact(dimension: int) -> Any:
    from ragstream_core.vector_stores.exact import ExactStore

    return ExactStore(dimension)


def _chroma(folder: Path, dimension: int, name: str, embed_fp: str, model: str) -> Any:
    from ragstream_core.vector_stores.chroma.store import ChromaStore

    return ChromaStore(folder, dimension, name=name, embed_fp=embed_fp, model=model)


def _faiss(folder: Path, dimension: int, name: str, embed_fp: str, model: str) -> Any:
    from ragstream_core.vector_stores.faiss import FaissStore

    return FaissStore(folder, dimension, name=name, embed_fp=embed_fp, model=model)


_BUILT_IN: dict[str, Factory] = {"exact": _exact, "chroma": _chroma, "faiss": _faiss}
_STORES = dict(_BUILT_IN)
