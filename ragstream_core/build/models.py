"""Models of one process: resolved once, cached by what identifies them, never loaded unasked."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.embedders.endpoints import Endpoint
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
    chosen = config.settings.embeddings
    return _embedder(
        chosen.backend,
        chosen.model,
        models_dir(config),
        device=chosen.device,
        workers=chosen.workers,
        endpoint=endpoint(config),
    )


def fingerprint(config: AppConfig) -> str:
    """Return ``embed_fp`` of the configured model, without loading it where that is possible.

    Raises:
        RagstreamError: The embedding settings name a model or backend that is not here.
    """
    from ragstream_core.embedders.registry import embed_fingerprint

    chosen = config.settings.embeddings
    return embed_fingerprint(
        chosen.backend, chosen.model, models_dir=models_dir(config), endpoint=endpoint(config)
    )


def endpoint(config: AppConfig) -> Endpoint | None:
    """Return where the embedding endpoint is, None for the backends that need none.

    Raises:
        UnknownSetting: Its address is refused.
    """
    chosen, provider = config.settings.embeddings, config.settings.provider
    if chosen.backend != "openai" and not chosen.base_url:
        return None
    from ragstream_core.embedders.endpoints import endpoint_at

    return endpoint_at(
        chosen.base_url or provider.base_url,
        key=provider.api_key.get_secret_value(),
        key_url=provider.base_url,
        timeout_s=chosen.timeout_s,
        budget_s=chosen.budget_s,
    )


def require_replayable(config: AppConfig) -> None:
    """Refuse to run a prompt again whose query vectors cannot be had again.

    Raises:
        InputUnavailable: They came from an endpoint; it may answer otherwise today.
    """
    from ragstream_core.errors import InputUnavailable

    remote = config.settings.embeddings.backend == "openai"
    if remote or not getattr(embedder(config), "reproducible", True):
        raise InputUnavailable(
            f"the query vectors of {config.settings.embeddings.model} came from an endpoint and "
            "are not in the record",
            hint="prompts of a local embedding model can be replayed",
        )


@functools.lru_cache(maxsize=4)
def _embedder(
    backend: str,
    model: str,
    directory: Path,
    *,
    device: str,
    workers: int,
    endpoint: Endpoint | None,
) -> Embedder:
    from ragstream_core.embedders.registry import create_embeddings

    return create_embeddings(
        backend,
        model=model,
        models_dir=directory,
        device=device,
        workers=workers,
        endpoint=endpoint,
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
