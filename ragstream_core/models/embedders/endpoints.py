"""What is known of a model behind an endpoint: its dimension, asked once, and its fingerprint."""

from __future__ import annotations

import json
from pathlib import Path

from ragstream_core.models.embedders import fingerprints
from ragstream_core.platform.endpoint import Endpoint
from ragstream_core.platform.files import replace_text
from ragstream_core.records.identity import digest_of


def known_dimension(models_dir: Path, endpoint: Endpoint, model: str) -> int:
    """Return the dimension that an endpoint once answered with, 0 if it was never asked."""
    try:
        text = _probe_path(models_dir, endpoint, model).read_text(encoding="utf-8")
        return int(json.loads(text)["dimension"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def keep_dimension(models_dir: Path, endpoint: Endpoint, model: str, *, dimension: int) -> None:
    """Keep what an endpoint answered, so that looking for changes sends nothing.

    Raises:
        OSError: Disk full or permission denied.
    """
    text = json.dumps({"dimension": dimension})
    replace_text(_probe_path(models_dir, endpoint, model), text, durable=False)


def endpoint_fingerprint(endpoint: Endpoint, model: str, dimension: int) -> str:
    """Return ``embed_fp``: host, model and dimension, all that is known of a remote model."""
    prefixes = fingerprints.prefixes_of(model)
    return digest_of(
        {
            "kind": "openai-compatible",
            "host": endpoint.host,
            "model": model,
            "dimension": dimension,
            "window": fingerprints.WINDOW,
            "long_texts": fingerprints.LONG_TEXTS,
            "prefixes": [prefixes.query, prefixes.passage],
        }
    )


def _probe_path(models_dir: Path, endpoint: Endpoint, model: str) -> Path:
    name = digest_of({"base_url": endpoint.base_url, "model": model})
    return models_dir / "endpoints" / f"{name[:32]}.json"
