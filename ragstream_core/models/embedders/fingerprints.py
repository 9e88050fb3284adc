"""What a vector space is made of, as one digest (``embed_fp``), known before anything is loaded.

Constants, file digests and what a sentence-transformers model's own files state: pooling, longest
input, prefixes, the special tokens around a text. What is stated there and cannot be done by an
exported encoder raises `NotExportable`. Of a model behind an endpoint only host, name and dimension
are known, and the dimension is asked for once. The path on which nothing changed asks for the
digest, so neither NumPy nor an engine is imported.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragstream_core.errors import EmbeddingFailed
from ragstream_core.models.embedders import weights
from ragstream_core.platform import sidecar
from ragstream_core.platform.endpoint_address import Endpoint
from ragstream_core.platform.files import known_sha256, replace_text
from ragstream_core.records.identity import digest_of

ONNX_RUNTIME = "onnxruntime-fp32"
ONNX_INT8_RUNTIME = "onnxruntime-int8-rows"
TORCH_RUNTIME = "torch-fp32"

# Of the products of the default model.
Precision = Literal["float32", "int8"]
ONNX_RUNTIMES: dict[Precision, str] = {"float32": ONNX_RUNTIME, "int8": ONNX_INT8_RUNTIME}
LONG_TEXTS = "even-windows-mean"

WINDOW_WITH_SPECIALS = 256
SPECIAL_TOKENS = 2
WINDOW = WINDOW_WITH_SPECIALS - SPECIAL_TOKENS
DIMENSION = 384

_MODEL_SUFFIXES = frozenset({".safetensors", ".json", ".txt", ".model"})


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What a model wants in front of its inputs."""

    query: str = ""
    passage: str = ""


E5 = Prefixes("query: ", "passage: ")
BGE_EN = Prefixes("Represent this sentence for searching relevant passages: ", "")


def prefixes_of(model: str) -> Prefixes:
    """Return the prefixes of a model family, recognised by its name; none for all others."""
    name = model.rsplit("/", 1)[-1].lower()
    if name.startswith(("e5-", "multilingual-e5-")) and "instruct" not in name:
        return E5
    if name.startswith("bge-") and "-en" in name:
        return BGE_EN
    return Prefixes()


def prefixes_for(folder: Path, model: str) -> Prefixes:
    """Return the prefixes that a model's own configuration states, else those of its family."""
    stated = _json(folder / "config_sentence_transformers.json").get("prompts")
    if not isinstance(stated, dict):
        return prefixes_of(model)
    query, document = stated.get("query"), stated.get("document") or stated.get("passage")
    prefixes = Prefixes(str(query or ""), str(document or ""))
    return prefixes if prefixes != Prefixes() else prefixes_of(model)


def default_fingerprint(runtime: str) -> str:
    """Return ``embed_fp`` of all-MiniLM-L6-v2 from constants alone: no file, no import."""
    return digest_of(
        {
            "weights": weights.SHA256["model.safetensors"],
            "tokenizer": weights.SHA256["tokenizer.json"],
            "window": WINDOW_WITH_SPECIALS,
            "long_texts": LONG_TEXTS,
            "pooling": "mean",
            "normalise": "l2",
            "prefixes": ["", ""],
            "runtime": runtime,
        }
    )


def model_fingerprint(model: str, models_dir: Path, runtime: str) -> str:
    """Return ``embed_fp`` of a model: of the default one without a look at its files."""
    if weights.is_default(model):
        return default_fingerprint(runtime)
    folder = weights.find_model(model, models_dir)
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in _MODEL_SUFFIXES)
    prefixes = prefixes_for(folder, model)
    return digest_of(
        {
            "files": {p.relative_to(folder).as_posix(): known_sha256(p) for p in files},
            "long_texts": LONG_TEXTS,
            "prefixes": [prefixes.query, prefixes.passage],
            "runtime": runtime,
        }
    )


def hashed_fingerprint() -> str:
    """Return ``embed_fp`` of the hashed words of `embedders.hashed`."""
    return digest_of({"kind": "hashed-words", "version": 1, "dimension": DIMENSION})


def known_dimension(models_dir: Path, endpoint: Endpoint, model: str) -> int:
    """Return the dimension that an endpoint once answered with, 0 if it was never asked."""
    probe = sidecar.read(_probe_path(models_dir, endpoint, model), dict[str, int]) or {}
    return probe.get("dimension", 0)


def keep_dimension(models_dir: Path, endpoint: Endpoint, model: str, *, dimension: int) -> None:
    """Keep what an endpoint answered, so that looking for changes sends nothing."""
    text = json.dumps({"dimension": dimension})
    replace_text(_probe_path(models_dir, endpoint, model), text, durable=False)


def endpoint_fingerprint(endpoint: Endpoint, model: str, dimension: int) -> str:
    """Return ``embed_fp``: host, model and dimension, all that is known of a remote model."""
    prefixes = prefixes_of(model)
    return digest_of(
        {
            "kind": "openai-compatible",
            "host": endpoint.host,
            "model": model,
            "dimension": dimension,
            "window": WINDOW,
            "long_texts": LONG_TEXTS,
            "prefixes": [prefixes.query, prefixes.passage],
        }
    )


def _probe_path(models_dir: Path, endpoint: Endpoint, model: str) -> Path:
    name = digest_of({"base_url": endpoint.base_url, "model": model})
    return models_dir / "endpoints" / f"{name[:32]}.json"


POOLINGS = ("mean", "cls", "max", "lasttoken")
_MODULES = ("Transformer", "Pooling", "Normalize")
_DEFAULT_LENGTH = 512


class NotExportable(EmbeddingFailed):
    """A model that only its own library can run; the message says why."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is done with a text before and after the encoder."""

    pooling: str  # one of `POOLINGS`: how the last layer becomes one vector
    length: int  # most tokens of one input, special ones included
    prefixes: Prefixes
    head: tuple[int, ...]  # ids of the special tokens before a text
    tail: tuple[int, ...]  # ids of the special tokens after it


# That of all-MiniLM-L6-v2: [CLS] and [SEP] as in its verified tokenizer.
DEFAULT_RECIPE = Recipe("mean", WINDOW_WITH_SPECIALS, Prefixes(), (101,), (102,))


def recipe_of(folder: Path, model: str) -> Recipe:
    """Return how a model is used."""
    kinds = {str(row["type"]).rsplit(".", 1)[-1]: row for row in _modules(folder)}
    other = [kind for kind in kinds if kind not in _MODULES]
    if other:
        raise NotExportable(f"{model} has a module {other[0]} behind its encoder")
    row = kinds.get("Pooling")
    pooling = _pooling(_json(folder / str(row["path"]) / "config.json")) if row else "mean"
    if pooling not in POOLINGS:
        raise NotExportable(f"{model} pools its tokens by {pooling}")
    settings = _json(folder / "sentence_bert_config.json")
    if settings.get("do_lower_case"):
        raise NotExportable(f"{model} wants its texts in lower case before they are cut")
    head, tail = _frame(folder, model)
    return Recipe(pooling, _length(folder, settings), prefixes_for(folder, model), head, tail)


def _modules(folder: Path) -> list[dict[str, Any]]:
    path = folder / "modules.json"
    try:
        rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        return [{"type": str(row["type"]), "path": str(row.get("path", ""))} for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NotExportable(f"{path} is not readable") from None


def _json(path: Path) -> dict[str, Any]:
    return sidecar.read(path, dict[str, Any]) or {}


def _pooling(config: dict[str, Any]) -> str:
    """Return the pooling in either of the two forms in which it is written down."""
    stated = config.get("pooling_mode")
    modes = [stated] if isinstance(stated, str) else list(stated or ())
    if not modes:
        on = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
        modes = [key.removeprefix("pooling_mode_").removesuffix("_token") for key in on]
        modes = [mode.removesuffix("_tokens") for mode in modes]
    if config.get("include_prompt") is False:
        return "tokens without the prefix"
    return str(modes[0]) if len(modes) == 1 else " and ".join(map(str, modes)) or "mean"


def _length(folder: Path, settings: dict[str, Any]) -> int:
    stated = settings.get("max_seq_length")
    if isinstance(stated, int) and stated > 0:
        return stated
    tokenizer, config = _json(folder / "tokenizer_config.json"), _json(folder / "config.json")
    known = (tokenizer.get("model_max_length"), config.get("max_position_embeddings"))
    return int(min([_DEFAULT_LENGTH, *(n for n in known if isinstance(n, int) and n > 0)]))


def _frame(folder: Path, model: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special tokens around a text, read off an encoded letter."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises a bare Exception
        raise NotExportable(f"{model} has no fast tokenizer: {str(error)[:80]}") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return frame(tokenizer.encode("a", add_special_tokens=False).ids, tokenizer.encode("a").ids)


def frame(bare: list[int], full: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what stands before and after the ids of a text in those with special tokens."""
    at = next((i for i in range(len(full)) if full[i : i + len(bare)] == bare), 0)
    return tuple(full[:at]), tuple(full[at + len(bare) :])
