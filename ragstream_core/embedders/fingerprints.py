"""What a vector space is made of, as one digest (``embed_fp``), known before anything is loaded.

Constants and file digests only: the path on which nothing changed asks for it and must import
neither NumPy nor an engine.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ragstream_core.embedders import weights
from ragstream_core.records.identity import digest_of

ONNX_RUNTIME = "onnxruntime-fp32"
TORCH_RUNTIME = "torch-fp32"
LONG_TEXTS = "even-windows-mean"

WINDOW_WITH_SPECIALS = 256
SPECIAL_TOKENS = 2
WINDOW = WINDOW_WITH_SPECIALS - SPECIAL_TOKENS
DIMENSION = 384

_MODEL_SUFFIXES = frozenset({".safetensors", ".json", ".txt", ".model"})


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What a model wants in front of its inputs.

    Attributes:
        query: Put before a query; may be empty.
        passage: Put before a passage; may be empty.
    """

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
    """Return the prefixes that a model's own configuration states, else those of its family.

    Args:
        folder: Its local folder.
        model: Its name.
    """
    try:
        path = folder / "config_sentence_transformers.json"
        stated = json.loads(path.read_text(encoding="utf-8"))["prompts"]
        found = Prefixes(
            str(stated.get("query") or ""),
            str(stated.get("document") or stated.get("passage") or ""),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        found = Prefixes()
    return found if found != Prefixes() else prefixes_of(model)


def default_fingerprint(runtime: str) -> str:
    """Return ``embed_fp`` of all-MiniLM-L6-v2 from constants alone: no file, no import.

    Args:
        runtime: `ONNX_RUNTIME` or `TORCH_RUNTIME`: another kind of runtime has other last bits,
            hence another fingerprint.
    """
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


def folder_fingerprint(folder: Path, *, model: str, runtime: str) -> str:
    """Return ``embed_fp`` of a model that is not in `weights.SHA256`, from its files' bytes.

    Args:
        folder: Its local folder.
        model: Its name, which decides the prefixes.
        runtime: Kind of runtime.

    Raises:
        OSError: A file cannot be read.
    """
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in _MODEL_SUFFIXES)
    prefixes = prefixes_for(folder, model)
    return digest_of(
        {
            "files": {p.relative_to(folder).as_posix(): weights.file_sha256(p) for p in files},
            "long_texts": LONG_TEXTS,
            "prefixes": [prefixes.query, prefixes.passage],
            "runtime": runtime,
        }
    )


def torch_fingerprint(model: str, models_dir: Path) -> str:
    """Return ``embed_fp`` of any model under the sentence-transformers backend.

    Args:
        model: A folder, or a name as ``organisation/model``.
        models_dir: ``<data>/models``.

    Raises:
        WeightsMissing: A model other than the default one is not on this machine.
    """
    if weights.is_default(model):
        return default_fingerprint(TORCH_RUNTIME)
    folder = weights.find_model(model, models_dir)
    return folder_fingerprint(folder, model=model, runtime=TORCH_RUNTIME)


def hashed_fingerprint() -> str:
    """Return ``embed_fp`` of the hashed words of `embedders.hashed`."""
    return digest_of({"kind": "hashed-words", "version": 1, "dimension": DIMENSION})
