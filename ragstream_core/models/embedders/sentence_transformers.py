"""`SentenceTransformerEmbeddings`: any sentence-transformers model from local files, through torch.

On a processor slower than the default, and with other last bits, hence with another fingerprint.
Offers every model family the library reads (E5 and BGE get their prefixes) and GPUs. The vector of
a text does not depend on other texts: on a processor there is one text a call, on a graphics card
batches have one shape a length (`device_batches`). Longer texts are embedded in even windows,
never truncated. The network is never used and no code of a model is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragstream_core.errors import EmbeddingFailed, SetSetting, UsageError
from ragstream_core.models.embedders import fingerprints, weights
from ragstream_core.models.embedders.base import Ids, WindowedEncoder, mean_of_windows
from ragstream_core.models.embedders.device_batches import DeviceBatches
from ragstream_core.platform import extras
from ragstream_core.text.tokenizer import ModelTokenizer

if TYPE_CHECKING:
    from ragstream_core.models.embedders.device_batches import I64
    from ragstream_core.ports import F32

ENGINE = ("torch", "sentence_transformers")
"""What runs a model; an export needs onnx as well."""
_AT_ONCE = 2_048
"""Texts that are put into batches together."""


def resolve_device(device: str) -> str:
    """Return the torch device: ``auto`` is CUDA, else MPS, else the CPU."""
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
        """Load a model from local files."""
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
        self._batches: DeviceBatches | None = None
        if not self.device.startswith("cpu"):
            self.texts_at_once = _AT_ONCE
            pad = int(fast.pad_token_id or 0)
            self._batches = DeviceBatches(self._run_batch, pad=pad, longest=longest)

    @property
    def fingerprint(self) -> str:
        """Digest of weights, tokenizer, window, pooling, prefix and runtime kind."""
        return self._fingerprint

    def _rows(self, texts: Sequence[str], *, query: bool = False) -> Iterator[F32]:
        if self._batches is None:
            return super()._rows(texts, query=query)
        parts = (texts[at : at + _AT_ONCE] for at in range(0, len(texts), _AT_ONCE))
        return chain.from_iterable(self._in_batches(self._batches, part, query) for part in parts)

    def _in_batches(
        self, batches: DeviceBatches, texts: Sequence[str], query: bool
    ) -> Iterator[F32]:
        prefix = self._query_prefix if query else self._passage_prefix
        windows = [self._divided(ids) for ids in self._tokenizer.ids_of(texts)]
        framed = [(*self._head, *prefix, *ids, *self._tail) for each in windows for ids in each]
        vectors = iter(self._require_shape(batches.vectors(framed)))
        for each in windows:
            yield mean_of_windows(next(vectors) for _ in each)

    def _run_batch(self, ids: I64, mask: I64) -> F32:
        return self._output(ids, mask, "sentence_embedding")

    def _run(self, ids: Ids, key: str) -> F32:
        row = np.array([[*self._head, *ids, *self._tail]], dtype=np.int64)
        values: F32 = self._output(row, np.ones_like(row), key)[0]
        return values

    def _output(self, ids: I64, mask: I64, key: str) -> F32:
        """Return what the model makes of token ids, both of shape (rows, tokens)."""
        import torch

        features = {
            "input_ids": torch.from_numpy(ids).to(self.device),
            "attention_mask": torch.from_numpy(mask).to(self.device),
        }
        try:
            with torch.inference_mode():
                output: F32 = self._model(features)[key].float().cpu().numpy()
        except RuntimeError as error:
            if "out of memory" not in str(error):  # MPS has no class of its own for it
                raise
            raise EmbeddingFailed(
                f"{self.device} has too little free memory for {self.name}",
                hint=("end what else uses it, or ", SetSetting("embeddings.device", "cpu")),
            ) from None
        return output

    def _pooled(self, ids: Ids) -> F32:
        return self._require_shape(self._run(ids, "sentence_embedding"))

    def _require_shape(self, values: F32) -> F32:
        if values.shape[-1] != self.dimension:
            raise EmbeddingFailed(f"the encoder returned shape {values.shape}")
        return values

    def _hidden(self, ids: Ids) -> F32:
        return self._run(ids, "token_embeddings")


def _special_frame(fast: Any) -> tuple[Ids, Ids]:
    """Return the special tokens that a model wants around a text, read off an encoded letter."""
    bare = list(fast.backend_tokenizer.encode("a", add_special_tokens=False).ids)
    bare = [i for i in bare if i != fast.pad_token_id]
    return fingerprints.frame(bare, list(fast("a", padding=False)["input_ids"]))
