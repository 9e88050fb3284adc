"""Embedding backends by name: `create_embeddings` is how everything above gets an embedder.

A name is one of the built-in ones, one given to `register_embedding_backend`, or an import path
(``package.module:factory``). Importing this module loads no engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.models.embedders import fingerprints, weights
from ragstream_core.models.embedders.endpoints import endpoint_fingerprint, known_dimension
from ragstream_core.platform.endpoint import Endpoint
from ragstream_core.platform.registry import load_factory, require_methods, wanted

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
        endpoint: Where a model behind HTTP is; None where none is configured.
    """

    model: str
    models_dir: Path
    device: str = "auto"
    workers: int = 0
    notice: Callable[[str], None] | None = None
    endpoint: Endpoint | None = None


def create_embeddings(
    backend: str,
    *,
    model: str = weights.DEFAULT_MODEL,
    models_dir: Path,
    device: str = "auto",
    workers: int = 0,
    notice: Callable[[str], None] | None = None,
    endpoint: Endpoint | None = None,
) -> Embedder:
    """Return an embedder; the model is loaded, and exported first where it must be.

    Args:
        backend: ``onnx``, ``sentence_transformers``, ``fastembed``, ``openai``, ``hashed``, a
            registered name, or an import path ``package.module:factory``.
        model: Model name or folder.
        models_dir: ``<data>/models``.
        device: ``auto`` or a torch device name.
        workers: Texts encoded at the same time; 0 = one for each core.
        notice: Told one line when something slow begins.
        endpoint: Where a model behind HTTP is.

    Raises:
        UnknownSetting: No such backend, or a model that the backend does not know.
        UsageError: What the factory returned is no `ragstream_core.ports.Embedder`.
        WeightsMissing: The model is not on this machine.
        WeightsMismatch: A model file is not the expected one.
    """
    factory = _factory(backend)
    options = EmbeddingOptions(model, models_dir, device, workers, notice, endpoint)
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
        raise UsageError(f"an embedding backend {name!r} already exists")
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


def embed_fingerprint(
    backend: str,
    model: str = weights.DEFAULT_MODEL,
    *,
    models_dir: Path,
    endpoint: Endpoint | None = None,
) -> str:
    """Return ``embed_fp`` of a configuration; for the built-in backends without loading anything.

    Args:
        backend: As for `create_embeddings`.
        model: Model name or folder.
        models_dir: ``<data>/models``.
        endpoint: Where a model behind HTTP is.

    Raises:
        UnknownSetting: No such backend, or a model that the backend does not know.
        EmbeddingFailed: An endpoint that was never asked before cannot be reached.
        UsageError: A foreign backend is no `ragstream_core.ports.Embedder`.
        WeightsMissing: The model is neither the default one nor on this machine.
    """
    if backend == "onnx" and weights.is_default(model):
        return fingerprints.default_fingerprint(fingerprints.ONNX_RUNTIME)
    if backend == "onnx":
        from ragstream_core.models.embedders.onnx_model import known_export

        export = known_export(model, models_dir)
        if export.made:
            return export.fingerprint
        if export.refused:
            return fingerprints.torch_fingerprint(model, models_dir)
    if backend == "sentence_transformers":
        return fingerprints.torch_fingerprint(model, models_dir)
    if backend == "fastembed":
        from ragstream_core.models.embedders.fastembed import local_model

        return local_model(model, models_dir).fingerprint
    if backend == "hashed":
        return fingerprints.hashed_fingerprint()
    if backend == "openai" and endpoint is not None:
        known = known_dimension(models_dir, endpoint, model)
        if known:
            return endpoint_fingerprint(endpoint, model, known)
    return create_embeddings(
        backend, model=model, models_dir=models_dir, endpoint=endpoint
    ).fingerprint


def _onnx(model: str, models_dir: Path, workers: int, notice: Any, device: str) -> Any:
    """Return a model through onnxruntime; torch runs one that cannot be exported."""
    if weights.is_default(model):
        from ragstream_core.models.embedders.onnx_minilm import OnnxEmbedder

        return OnnxEmbedder(models_dir, workers=workers, notice=notice)
    from ragstream_core.models.embedders.fingerprints import NotExportable
    from ragstream_core.models.embedders.onnx_model import open_model

    try:
        return open_model(model, models_dir, workers=workers, notice=notice)
    except NotExportable as error:
        if notice is not None:
            notice(f"torch runs {model}: {error.message}")
        return _sentence_transformers(model, models_dir, device)


def _sentence_transformers(model: str, models_dir: Path, device: str) -> Any:
    from ragstream_core.models.embedders.sentence_transformers import SentenceTransformerEmbeddings

    return SentenceTransformerEmbeddings(models_dir, model=model, device=device)


def _fastembed(model: str, models_dir: Path, workers: int) -> Any:
    from ragstream_core.models.embedders.fastembed import FastEmbedEmbeddings

    return FastEmbedEmbeddings(models_dir, model=model, workers=workers)


def _openai(model: str, models_dir: Path, endpoint: Endpoint | None) -> Any:
    if endpoint is None:
        raise UnknownSetting(
            "the openai backend needs an endpoint",
            hint="set embeddings.base_url to https://…/v1 or http://127.0.0.1:…",
        )
    from ragstream_core.models.embedders.openai_compatible import EndpointEmbedder

    return EndpointEmbedder(models_dir, model=model, endpoint=endpoint)


def _hashed() -> Any:
    from ragstream_core.models.embedders.hashed import HashedEmbedder

    return HashedEmbedder()


_BUILT_IN: dict[str, EmbeddingFactory] = {
    "onnx": _onnx,
    "sentence_transformers": _sentence_transformers,
    "fastembed": _fastembed,
    "openai": _openai,
    "hashed": _hashed,
}
_BACKENDS = dict(_BUILT_IN)


def _factory(backend: str) -> EmbeddingFactory:
    if backend in _BACKENDS:
        return _BACKENDS[backend]
    factory = load_factory(backend, "embedding backend")
    if factory is not None:
        return factory
    raise UnknownSetting(
        f"no embedding backend {backend!r}",
        hint=f"set embeddings.backend to one of {', '.join(embedding_backends())}",
    )


def _wanted(factory: EmbeddingFactory, options: EmbeddingOptions) -> dict[str, Any]:
    known = {field.name: getattr(options, field.name) for field in fields(options)}
    return wanted(factory, known, "embedding backend")


def _require_methods(owner: Any, backend: str) -> None:
    require_methods(owner, PORT_METHODS, what=f"embedding backend {backend!r}", port="Embedder")


def _require_port(embedder: Any, backend: str) -> None:
    _require_methods(embedder, backend)
    for name, kind in PORT_VALUES.items():
        if not isinstance(getattr(embedder, name, None), kind):
            raise UsageError(
                f"embedding backend {backend!r} does not satisfy the Embedder port: "
                f"{name} must be {kind.__name__}"
            )
