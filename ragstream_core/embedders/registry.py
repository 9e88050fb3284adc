"""Embedding backends by name: `create_embeddings` is how everything above gets an embedder.

A name is one of the built-in ones, one given to `register_embedding_backend`, or an import path
(``package.module:factory``). Importing this module loads no engine.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ragstream_core.embedders import fingerprints, weights
from ragstream_core.errors import UnknownSetting, UsageError

if TYPE_CHECKING:
    from ragstream_core.ports import Embedder

EmbeddingFactory = Callable[..., Any]
"""A class or function; it is given the fields of `EmbeddingOptions` that it has parameters for."""

PORT_METHODS = ("count", "embed_documents", "embed_queries", "token_vectors")
PORT_VALUES = {
    "name": str,
    "fingerprint": str,
    "dimension": int,
    "window": int,
    "truncated_inputs": int,
}


@dataclass(frozen=True, slots=True)
class EmbeddingOptions:
    """What a backend may want to know.

    Attributes:
        model: Model name or folder.
        models_dir: ``<data>/models``.
        device: ``auto`` or a torch device name.
        workers: Texts encoded at the same time; 0 = one for each core.
        notice: Told one line when something slow begins.
    """

    model: str
    models_dir: Path
    device: str = "auto"
    workers: int = 0
    notice: Callable[[str], None] | None = None


def create_embeddings(
    backend: str,
    *,
    model: str = weights.DEFAULT_MODEL,
    models_dir: Path,
    device: str = "auto",
    workers: int = 0,
    notice: Callable[[str], None] | None = None,
) -> Embedder:
    """Return an embedder; the model is loaded, and exported first where it must be.

    Args:
        backend: ``onnx``, ``sentence_transformers``, ``hashed``, a registered name, or an import
            path ``package.module:factory``.
        model: Model name or folder.
        models_dir: ``<data>/models``.
        device: ``auto`` or a torch device name.
        workers: Texts encoded at the same time; 0 = one for each core.
        notice: Told one line when something slow begins.

    Raises:
        UnknownSetting: No such backend, or a model that the backend does not know.
        UsageError: What the factory returned is no `ragstream_core.ports.Embedder`.
        WeightsMissing: The model is not on this machine.
        WeightsMismatch: A model file is not the expected one.
    """
    factory = _factory(backend)
    options = EmbeddingOptions(model, models_dir, device, workers, notice)
    embedder = factory(**_wanted(factory, options))
    _require_port(embedder, backend)
    return cast("Embedder", embedder)


def register_embedding_backend(name: str, factory: EmbeddingFactory) -> None:
    """Make a backend selectable by name.

    Args:
        name: The value of ``embeddings.backend`` that selects it.
        factory: A class or function whose parameters are named as fields of `EmbeddingOptions`.

    Raises:
        UsageError: The name is taken, the factory cannot be called, wants other parameters, or is
            a class without the methods of `ragstream_core.ports.Embedder`.
    """
    if name in _BACKENDS:
        raise UsageError(f"an embedding backend {name!r} exists already")
    if not callable(factory):
        raise UsageError(f"embedding backend {name!r} is not a class or function: {factory!r}")
    if isinstance(factory, type):
        _require_methods(factory, name)
    _wanted(factory, EmbeddingOptions("", Path()))
    _BACKENDS[name] = factory


def unregister_embedding_backend(name: str) -> None:
    """Forget a registered backend; the built-in ones and unknown names are left alone."""
    if name not in _BUILT_IN:
        _BACKENDS.pop(name, None)


def embedding_backends() -> list[str]:
    """Return the names of all backends, sorted."""
    return sorted(_BACKENDS)


def embed_fingerprint(backend: str, model: str = weights.DEFAULT_MODEL, *, models_dir: Path) -> str:
    """Return ``embed_fp`` of a configuration; for the built-in backends without loading anything.

    Args:
        backend: As for `create_embeddings`.
        model: Model name or folder.
        models_dir: ``<data>/models``.

    Raises:
        UnknownSetting: No such backend, or a model that the backend does not know.
        UsageError: A foreign backend is no `ragstream_core.ports.Embedder`.
        WeightsMissing: The model is neither the default one nor on this machine.
    """
    if backend == "onnx":
        _require_default(model)
        return fingerprints.default_fingerprint(fingerprints.ONNX_RUNTIME)
    if backend == "sentence_transformers":
        return fingerprints.torch_fingerprint(model, models_dir)
    if backend == "hashed":
        return fingerprints.hashed_fingerprint()
    return create_embeddings(backend, model=model, models_dir=models_dir).fingerprint


def _onnx(model: str, models_dir: Path, workers: int, notice: Any) -> Any:
    _require_default(model)
    from ragstream_core.embedders.onnx_minilm import OnnxEmbedder

    return OnnxEmbedder(models_dir, workers=workers, notice=notice)


def _sentence_transformers(model: str, models_dir: Path, device: str) -> Any:
    from ragstream_core.embedders.sentence_transformers import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(models_dir, model=model, device=device)


def _hashed() -> Any:
    from ragstream_core.embedders.hashed import HashedEmbedder

    return HashedEmbedder()


_BUILT_IN: dict[str, EmbeddingFactory] = {
    "onnx": _onnx,
    "sentence_transformers": _sentence_transformers,
    "hashed": _hashed,
}
_BACKENDS = dict(_BUILT_IN)


def _require_default(model: str) -> None:
    if not weights.is_default(model):
        raise UnknownSetting(
            f"the onnx backend knows {weights.DEFAULT_MODEL} only, not {model}",
            hint="set embeddings.backend to sentence_transformers for other models",
        )


def _factory(backend: str) -> EmbeddingFactory:
    if backend in _BACKENDS:
        return _BACKENDS[backend]
    module_name, _, attribute = backend.replace(":", ".").rpartition(".")
    if module_name:
        try:
            factory = getattr(importlib.import_module(module_name), attribute)
        except (ImportError, AttributeError) as error:
            raise UnknownSetting(f"cannot import embedding backend {backend!r}: {error}") from error
        if not callable(factory):
            raise UsageError(f"embedding backend {backend!r} is not a class or function")
        return cast("EmbeddingFactory", factory)
    raise UnknownSetting(
        f"no embedding backend {backend!r}",
        hint=f"set embeddings.backend to one of {', '.join(embedding_backends())}",
    )


def _wanted(factory: EmbeddingFactory, options: EmbeddingOptions) -> dict[str, Any]:
    known = {field.name: getattr(options, field.name) for field in fields(options)}
    parameters = inspect.signature(factory).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    unknown = [p.name for p in named if p.name not in known and p.default is p.empty]
    if unknown or any(p.kind is p.POSITIONAL_ONLY for p in named):
        raise UsageError(
            f"embedding backend {factory!r} wants {unknown or 'positional parameters'}; "
            f"it can have {', '.join(known)}"
        )
    return {p.name: known[p.name] for p in named if p.name in known}


def _require_methods(owner: Any, backend: str) -> None:
    missing = [name for name in PORT_METHODS if not callable(getattr(owner, name, None))]
    if missing:
        raise UsageError(
            f"embedding backend {backend!r} does not satisfy the Embedder port: "
            f"{', '.join(missing)} missing"
        )


def _require_port(embedder: Any, backend: str) -> None:
    _require_methods(embedder, backend)
    for name, kind in PORT_VALUES.items():
        if not isinstance(getattr(embedder, name, None), kind):
            raise UsageError(
                f"embedding backend {backend!r} does not satisfy the Embedder port: "
                f"{name} must be {kind.__name__}"
            )
