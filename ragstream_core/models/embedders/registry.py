"""Embedding backends by name: `EMBEDDERS` makes one of them.

Importing this module loads no engine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import SetSetting, UnknownSetting
from ragstream_core.models.embedders import fingerprints, weights
from ragstream_core.models.embedders.fingerprints import Precision
from ragstream_core.platform.endpoint_address import Endpoint
from ragstream_core.platform.registry import Port, Registry

if TYPE_CHECKING:
    from ragstream_core.ports import Embedder


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions:
    """What a backend may ask for."""

    model: str = weights.DEFAULT_MODEL
    models_dir: Path  # ``<data>/models``
    device: str = "auto"  # ``auto`` or a torch device name
    workers: int = 0  # texts encoded at the same time; 0 = one for each core
    endpoint: Endpoint | None = None  # where a model behind HTTP is; None if none is configured
    precision: Precision = "float32"  # of the products of the default model under `onnx`


def _torch_fingerprint(of: EmbeddingOptions) -> str:
    return fingerprints.model_fingerprint(of.model, of.models_dir, fingerprints.TORCH_RUNTIME)


def _onnx_fingerprint(of: EmbeddingOptions) -> str:
    if weights.is_default(of.model):
        return fingerprints.default_fingerprint(fingerprints.ONNX_RUNTIMES[of.precision])
    from ragstream_core.models.embedders.onnx_encoder import known_export

    export = known_export(of.model, of.models_dir)
    if export.refused:
        return _torch_fingerprint(of)
    return export.folder.name if export.made else ""


def _fastembed_fingerprint(of: EmbeddingOptions) -> str:
    from ragstream_core.models.embedders.fastembed import local_model

    return local_model(of.model, of.models_dir).fingerprint


def _openai_fingerprint(of: EmbeddingOptions) -> str:
    if of.endpoint is None:
        return ""
    dimension = fingerprints.known_dimension(of.models_dir, of.endpoint, of.model)
    if not dimension:
        return ""
    return fingerprints.endpoint_fingerprint(of.endpoint, of.model, dimension)


# Built-in backend → its ``embed_fp`` without loading anything; "" if only the model can tell.
FINGERPRINTS: dict[str, Callable[[EmbeddingOptions], str]] = {
    "onnx": _onnx_fingerprint,
    "sentence_transformers": _torch_fingerprint,
    "fastembed": _fastembed_fingerprint,
    "openai": _openai_fingerprint,
    "hashed": lambda of: fingerprints.hashed_fingerprint(),
}

_HERE = __package__
EMBEDDERS: Registry[Embedder] = Registry(
    "embedding backend",
    setting="embeddings.backend",
    port=Port(
        "Embedder",
        ("count", "embed_documents", "embed_queries", "token_vectors"),
        values={
            "name": str,
            "fingerprint": str,
            "dimension": int,
            "window": int,
            "truncated_inputs": int,
        },
    ),
    options=EmbeddingOptions,
    built_in={
        "onnx": f"{_HERE}.onnx_encoder:open_embedder",
        "sentence_transformers": f"{_HERE}.sentence_transformers:SentenceTransformerEmbeddings",
        "fastembed": f"{_HERE}.fastembed:FastEmbedEmbeddings",
        "openai": f"{_HERE}.openai_compatible:EndpointEmbedder",
        "hashed": f"{_HERE}.hashed:HashedEmbedder",
    },
)

# The seed's name of it.
register_embedding_backend = EMBEDDERS.register


def _require_precision(backend: str, of: EmbeddingOptions) -> None:
    if of.precision != "float32" and not (backend == "onnx" and weights.is_default(of.model)):
        raise UnknownSetting(
            f"{of.precision} is there for {weights.DEFAULT_MODEL} under onnx, not for {of.model} "
            f"under {backend}",
            hint=SetSetting("embeddings.precision", "float32", lasting=True),
        )


def create_embeddings(backend: str, options: EmbeddingOptions) -> Embedder:
    """Return an embedder; the model is loaded, and exported first if it must be."""
    _require_precision(backend, options)
    return EMBEDDERS.create(backend, options)


# As `create_embeddings`, one embedder a process for the same values.
same_embeddings = functools.lru_cache(maxsize=4)(create_embeddings)


def embed_fingerprint(backend: str, options: EmbeddingOptions) -> str:
    """Return ``embed_fp`` of a configuration; of the built-in backends without loading anything."""
    _require_precision(backend, options)
    known = FINGERPRINTS[backend](options) if backend in FINGERPRINTS else ""
    return known or EMBEDDERS.create(backend, options).fingerprint
