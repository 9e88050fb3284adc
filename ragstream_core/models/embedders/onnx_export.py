"""Models as ONNX: the default one from the graph that ships (`shipped_model`), others by torch."""

from __future__ import annotations

import importlib.metadata
import inspect
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.models.embedders import shipped_model, weights
from ragstream_core.models.embedders.fingerprints import NotExportable, Precision, recipe_of
from ragstream_core.platform import extras

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

# What an export depends on.
_STAMPED = ("torch", "transformers", "onnx", "onnxruntime")


def model_bytes(model: str, source: Path, precision: Precision) -> tuple[bytes, dict[str, Any]]:
    """Return a model as ONNX, and what a stamp says of where it came from."""
    if weights.is_default(model):
        weights.verify_files(source, SOURCE_FILES)
        data = shipped_model.onnx_bytes(source / SOURCE_FILES[0], precision)
        return data, {"weights": weights.SHA256[SOURCE_FILES[0]]}
    extras.require(f"the one-time ONNX export of {model}", "torch")
    recipe_of(source, model)  # a model that is used in another way is refused before the slow part
    return exported_bytes(source), {
        "opset": _OPSET,
        "versions": {name: importlib.metadata.version(name) for name in _STAMPED},
    }


def exported_bytes(source: Path) -> bytes:
    """Return any encoder as ONNX: its last hidden state, for any number of tokens."""
    try:
        model = _loaded(source)
        takes = inspect.signature(model.forward).parameters
        return _to_onnx(model, tuple(name for name in INPUT_NAMES if name in takes))
    except Exception as error:  # both raise whatever the model's own code raises
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise NotExportable(f"{source.name} cannot be exported: {said[0][:160]}") from None


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
