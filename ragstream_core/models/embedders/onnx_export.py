"""Makes `model.onnx` once, and checks it each time it is opened.

The default model's is its verified weights in the graph that ships (`shipped_model`); another
model's is exported by torch. The folder ``<models>/<fingerprint>/`` then holds everything the
encoder needs: ``model.onnx``, ``tokenizer.json`` and ``stamp.json`` (sha256 of the model, what it
was made from). A file that does not have its stamped digest is made again.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import inspect
import io
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.models.embedders import fingerprints, shipped_model, weights
from ragstream_core.models.embedders.fingerprints import NotExportable, Precision
from ragstream_core.platform import extras, files
from ragstream_core.platform.locks import FolderLock
from ragstream_core.records.identity import canonical_json

if TYPE_CHECKING:
    import torch

MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
STAMP_FILE = "stamp.json"
SOURCE_FILES = ("model.safetensors", "config.json", "tokenizer.json")
INPUT_NAMES = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT_NAME = "last_hidden_state"
TOLERANCE = 1e-5
LOCK_TIMEOUT_S = 600.0

# Of operators: as in the shipped graphs; every onnxruntime that we allow reads it.
_OPSET = 17

# Told one line when something slow begins.
Notice = Callable[[str], None]


def ensure_onnx(
    models_dir: Path, *, precision: Precision = "float32", notice: Notice | None = None
) -> Path:
    """Return the folder of the verified ONNX model, making it first if needed."""
    folder = models_dir / fingerprints.default_fingerprint(fingerprints.ONNX_RUNTIMES[precision])
    if not is_intact(folder):
        weights.find_default(models_dir)  # before anything is written
        with export_lock(folder):
            if not is_intact(folder):  # another process may have made it while we waited
                _export_into(folder, precision, notice=notice)
    return folder


@contextlib.contextmanager
def export_lock(folder: Path) -> Iterator[None]:
    """Let one process at a time export into a folder, which is made if it is missing."""
    with FolderLock(folder, f"the exported model in {folder}").held(wait_s=LOCK_TIMEOUT_S):
        yield


def is_intact(folder: Path) -> bool:
    """Return whether the folder holds a model and a tokenizer with the digests they must have."""
    try:
        stamp = json.loads((folder / STAMP_FILE).read_text(encoding="utf-8"))
        return (
            stamp["weights"] == weights.SHA256["model.safetensors"]
            and files.file_sha256(folder / TOKENIZER_FILE) == weights.SHA256[TOKENIZER_FILE]
            and files.file_sha256(folder / MODEL_FILE) == stamp["sha256"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _export_into(folder: Path, precision: Precision, *, notice: Notice | None) -> None:
    source = weights.find_default(folder.parent)
    weights.verify_files(source, SOURCE_FILES)
    if notice is not None:
        notice(f"writing {weights.DEFAULT_MODEL} as ONNX, once ({folder})")
    data = shipped_model.onnx_bytes(source / "model.safetensors", precision)
    files.replace_bytes(folder / MODEL_FILE, data)
    files.replace_bytes(folder / TOKENIZER_FILE, (source / TOKENIZER_FILE).read_bytes())
    files.replace_text(
        folder / STAMP_FILE, canonical_json(_stamp(shipped_model.GRAPHS[precision].sha256)) + "\n"
    )


def require_packages(model: str) -> None:
    """Refuse the export of a model other than the default one before its slow part."""
    extras.require(f"the one-time ONNX export of {model}", "torch")


def exported_bytes(source: Path) -> bytes:
    """Return any encoder as ONNX: its last hidden state, for any number of tokens."""
    try:
        model = _loaded(source)
        takes = inspect.signature(model.forward).parameters
        return _to_onnx(model, tuple(name for name in INPUT_NAMES if name in takes))
    except Exception as error:  # both raise whatever the model's own code raises
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise NotExportable(f"{source.name} cannot be exported: {said[0][:160]}") from None


def versions() -> dict[str, Any]:
    """Return the versions that an export depends on, for its stamp."""
    packages = ("torch", "transformers", "onnx", "onnxruntime")
    return {
        "opset": _OPSET,
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }


def _loaded(source: Path) -> Any:
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoModel.from_pretrained(
        str(source),
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        attn_implementation="eager",
        dtype=torch.float32,
    ).eval()


def _stamp(sha256: str) -> dict[str, Any]:
    return {
        "sha256": sha256,
        "weights": weights.SHA256["model.safetensors"],
        "tokenizer": weights.SHA256[TOKENIZER_FILE],
    }


def _example(tokens: int, vocabulary: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    import torch

    # Any ids do that are no special tokens: spread over the vocabulary, deterministic.
    first = min(1000, vocabulary // 4)
    ids = torch.arange(tokens, dtype=torch.int64) * 7919 % (vocabulary - first) + first
    ids = ids.unsqueeze(0)
    return ids, torch.ones_like(ids), torch.zeros_like(ids)


def _to_onnx(model: torch.nn.Module, names: tuple[str, ...]) -> bytes:
    import torch

    class LastHidden(torch.nn.Module):  # type: ignore[misc]  # torch is untyped here
        """The exporter passes inputs by position; the model's order of them is its own affair."""

        def __init__(self) -> None:
            super().__init__()
            self.encoder = model

        def forward(self, *given: object) -> Any:
            """Return the last hidden state alone."""
            return self.encoder(**dict(zip(names, given, strict=True))).last_hidden_state

    buffer = io.BytesIO()
    axes = {name: {0: "batch", 1: "tokens"} for name in (*names, OUTPUT_NAME)}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the TorchScript exporter announces its successor
        torch.onnx.export(
            LastHidden().eval(),
            _example(16, model.config.vocab_size)[: len(names)],
            buffer,
            input_names=list(names),
            output_names=[OUTPUT_NAME],
            dynamic_axes=axes,
            opset_version=_OPSET,
            dynamo=False,
        )
    return buffer.getvalue()
