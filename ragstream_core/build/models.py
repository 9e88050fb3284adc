"""Models of one process: resolved once, cached by what identifies them, never loaded unasked."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.ports import Embedder, Reranker
    from ragstream_core.settings import RerankConfig


def models_dir(config: AppConfig) -> Path:
    """Return where exported models lie."""
    return config.data_dir / "models"


def embedder(config: AppConfig) -> Embedder:
    """Return the process's embedder for these settings, loading it at the first call.

    Raises:
        WeightsMissing: No weights on this machine; the hint names the extra.
        WeightsMismatch: A file is not what it must be.
        UsageError: Unknown backend.
    """
    settings = config.settings.embeddings
    return _embedder(
        settings.backend, settings.model, models_dir(config), settings.device, settings.workers
    )


@functools.lru_cache(maxsize=4)
def _embedder(backend: str, model: str, directory: Path, device: str, workers: int) -> Embedder:
    from ragstream_core.embedders.registry import create_embeddings

    return create_embeddings(
        backend, model=model, models_dir=directory, device=device, workers=workers
    )


def reranker_name(config: AppConfig, settings: RerankConfig) -> str:
    """Return which reranker these settings resolve to: ``none``, ``maxsim`` or a model name."""
    if settings.backend in ("none", "maxsim"):
        return settings.backend
    from ragstream_core.models.cross_encoder import find_cross_encoder

    if settings.backend == "cross_encoder" or find_cross_encoder(
        settings.model, models_dir(config)
    ):
        return settings.model
    return "maxsim"


@functools.lru_cache(maxsize=2)
def cross_encoder(model: str, directory: Path) -> Reranker:
    """Return the process's cross-encoder.

    Raises:
        WeightsMissing: Its weights are not on this machine.
    """
    from ragstream_core.errors import WeightsMissing
    from ragstream_core.models.cross_encoder import CrossEncoderReranker, find_cross_encoder

    path = find_cross_encoder(model, directory)
    if path is None:
        raise WeightsMissing(
            f"the weights of {model} are not on this machine",
            hint=f"put them into {directory / model}, or --set rerank.backend=maxsim",
        )
    return CrossEncoderReranker(path, model=model)
