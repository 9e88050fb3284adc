"""`SentenceTransformerEmbeddings`: any sentence-transformers model from local files, through torch.

Slower than the default and with other last bits, hence with another fingerprint. Offers every
model family the library reads (E5 and BGE get their prefixes) and GPUs. One text a call, so that
the vector of a text does not depend on its batch; texts longer than the window are embedded in
even windows, never truncated. The network is never used and no code of a model is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import EmbeddingFailed, UsageError
from ragstream_core.models.embedders import fingerprints, weights
from ragstream_core.models.embedders.base import Ids, WindowedEncoder
from ragstream_core.platform import extras
from ragstream_core.text.tokenizer import ModelTokenizer

if TYPE_CHECKING:
    from ragstream_core.ports import F32

ENGINE = ("torch", "sentence_transformers")
"""What runs a model; an export needs onnx as well."""


def resolve_device(device: str) -> str:
    """Return the torch device: ``auto`` is CUDA, else MPS, else the CPU.

    Args:
        device: ``auto`` or a torch device name, which is taken as it is.

    Raises:
        ExtraMissing: It is ``auto``, and torch is not installed.
    """
    if device != "auto":
        return device
    extras.require("a torch device", "torch", "torch")
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


class SentenceTransformerEmbeddings(WindowedEncoder):
    """An embedder over a sentence-transformers model; ``device`` is the torch device in use."""

    def __init__(
        self, models_dir: Path, *, model: str = weights.DEFAULT_MODEL, device: str = "auto"
    ) -> None:
        """Load a model from local files.

        Args:
            models_dir: ``<data>/models``.
            model: A folder, or a name as ``organisation/model``.
            device: ``auto`` or a torch device name.

        Raises:
            ExtraMissing: The extra `torch` is not installed.
            WeightsMissing: The model is not on this machine.
            WeightsMismatch: A file of the default model is not the expected one.
            UsageError: The model has no fast tokenizer.
        """
        extras.require("embeddings.backend=sentence_transformers", "torch", *ENGINE)
        folder = weights.find_model(model, models_dir)
        if weights.is_default(model):
            weights.verify_files(folder, weights.SHA256)
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()
        self.name = weights.DEFAULT_MODEL if weights.is_default(model) else model
        self.device = resolve_device(device)
        self._model: Any = SentenceTransformer(
            str(folder), device=self.device, local_files_only=True, trust_remote_code=False
        ).eval()
        fast = self._model.tokenizer
        if not getattr(fast, "is_fast", False):
            raise UsageError(f"{model} has no fast tokenizer, so its tokens cannot be located")
        self._tokenizer = ModelTokenizer(fast.backend_tokenizer)
        self._fingerprint = fingerprints.torch_fingerprint(model, models_dir)
        self._head, self._tail = _special_frame(fast)
        longest = int(self._model.max_seq_length or 512)
        self._set_limits(fingerprints.prefixes_for(folder, model), longest)
        self.dimension = int(self._model.get_embedding_dimension())

    @property
    def fingerprint(self) -> str:
        """Digest of weights, tokenizer, window, pooling, prefix and runtime kind."""
        return self._fingerprint

    def _run(self, ids: Ids, key: str) -> F32:
        import torch

        row = torch.tensor([[*self._head, *ids, *self._tail]], device=self.device)
        features = {"input_ids": row, "attention_mask": torch.ones_like(row)}
        with torch.inference_mode():
            output = self._model(features)[key][0]
        values: F32 = output.float().cpu().numpy()
        return values

    def _pooled(self, ids: Ids) -> F32:
        values = self._run(ids, "sentence_embedding")
        if values.shape[-1] != self.dimension:
            raise EmbeddingFailed(f"the encoder returned shape {values.shape}")
        return values

    def _hidden(self, ids: Ids) -> F32:
        return self._run(ids, "token_embeddings")


def _special_frame(fast: Any) -> tuple[Ids, Ids]:
    """Return the special tokens that a model wants around a text, read off an encoded letter."""
    bare = list(fast.backend_tokenizer.encode("a", add_special_tokens=False).ids)
    bare = [i for i in bare if i != fast.pad_token_id]
    full = list(fast("a", padding=False)["input_ids"])
    at = next(i for i in range(len(full)) if full[i : i + len(bare)] == bare)
    return tuple(full[:at]), tuple(full[at + len(bare) :])
