"""`SentenceTransformerEmbeddings`: any sentence-transformers model from local files, through torch.

Slower than the default and with other last bits, hence with another fingerprint. Offers every
model family the library reads (E5 and BGE get their prefixes) and GPUs. One text a call, so that
the vector of a text does not depend on its batch; texts longer than the window are embedded in
even windows, never truncated. The network is never used and no code of a model is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragstream_core.errors import EmbeddingFailed, UsageError
from ragstream_core.models.embedders import fingerprints, weights
from ragstream_core.models.embedders.base import mean_unit, stack_checked, throttled, unit_rows_f16
from ragstream_core.text.tokenizer import ModelTokenizer, even_windows

if TYPE_CHECKING:
    from ragstream_core.ports import F16, F32, Progress


def resolve_device(device: str) -> str:
    """Return the torch device: ``auto`` is CUDA, else MPS, else the CPU.

    Args:
        device: ``auto`` or a torch device name, which is taken as it is.
    """
    if device != "auto":
        return device
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


class SentenceTransformerEmbeddings:
    """A `ragstream_core.ports.Embedder` over a sentence-transformers model.

    Attributes:
        device: The torch device in use.
        truncated_inputs: How many texts lost tokens on the way into the encoder; always 0.
    """

    def __init__(
        self, models_dir: Path, *, model: str = weights.DEFAULT_MODEL, device: str = "auto"
    ) -> None:
        """Load a model from local files.

        Args:
            models_dir: ``<data>/models``.
            model: A folder, or a name as ``organisation/model``.
            device: ``auto`` or a torch device name.

        Raises:
            WeightsMissing: The model is not on this machine.
            WeightsMismatch: A file of the default model is not the expected one.
            UsageError: The model has no fast tokenizer.
        """
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
        self._set_limits(fast, prefixes=fingerprints.prefixes_for(folder, model))
        self.truncated_inputs = 0

    def _set_limits(self, fast: Any, *, prefixes: fingerprints.Prefixes) -> None:
        self._frame = _special_frame(fast)
        self._query_prefix = self._tokenizer.ids(prefixes.query)
        self._passage_prefix = self._tokenizer.ids(prefixes.passage)
        longest = max(len(self._query_prefix), len(self._passage_prefix))
        specials = len(self._frame[0]) + len(self._frame[1])
        self.window = int(self._model.max_seq_length or 512) - specials - longest
        self.dimension = int(self._model.get_embedding_dimension())

    @property
    def fingerprint(self) -> str:
        """Digest of weights, tokenizer, window, pooling, prefix and runtime kind."""
        return self._fingerprint

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, special tokens and prefix not included."""
        return self._tokenizer.count(text)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each token of a text of any length, in characters."""
        return self._tokenizer.offsets(text)

    def embed_documents(self, texts: Sequence[str], *, progress: Progress | None = None) -> F32:
        """Embed passages of any length.

        Args:
            texts: The passages.
            progress: Called with (done, total), at most five times a second and at the end.

        Returns:
            Shape (len(texts), dimension), float32, rows of length 1 ± 1e-6, aligned with ``texts``.

        Raises:
            EmbeddingFailed: A vector is not finite or has no length.
        """
        rows = (self._vector(text, self._passage_prefix) for text in texts)
        counted = rows if progress is None else throttled(rows, progress, total=len(texts))
        return stack_checked(counted, shape=(len(texts), self.dimension))

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Embed queries, with the model family's query prefix.

        Raises:
            EmbeddingFailed: A vector is not finite or has no length.
        """
        rows = (self._vector(text, self._query_prefix) for text in texts)
        return stack_checked(rows, shape=(len(texts), self.dimension))

    def token_vectors(self, texts: Sequence[str]) -> list[F16]:
        """Return the last layer's unit token vectors without special tokens, as float16.

        Returns:
            One array (tokens, dimension) a text; the windows of a long text one after the other.

        Raises:
            EmbeddingFailed: A value is not finite.
        """
        return [self._tokens_of(text) for text in texts]

    def _windows(self, text: str) -> list[list[int]]:
        ids = self._tokenizer.ids(text)
        windows = even_windows(ids, self.window)
        if sum(map(len, windows)) != len(ids) or max(map(len, windows)) > self.window:
            self.truncated_inputs += 1
        return windows

    def _run(self, ids: list[int], key: str) -> F32:
        import torch

        row = torch.tensor([[*self._frame[0], *ids, *self._frame[1]]], device=self.device)
        features = {"input_ids": row, "attention_mask": torch.ones_like(row)}
        with torch.inference_mode():
            output = self._model(features)[key][0]
        values: F32 = output.float().cpu().numpy()
        if values.shape[-1] != self.dimension and key == "sentence_embedding":
            raise EmbeddingFailed(f"the encoder returned shape {values.shape}")
        return values

    def _vector(self, text: str, prefix: list[int]) -> F32:
        parts = [self._run(prefix + w, "sentence_embedding") for w in self._windows(text)]
        return mean_unit([mean_unit(part[np.newaxis]).astype(np.float64) for part in parts])

    def _tokens_of(self, text: str) -> F16:
        head, tail = len(self._frame[0]), len(self._frame[1])
        hidden = [self._run(ids, "token_embeddings") for ids in self._windows(text)]
        return unit_rows_f16(np.concatenate([h[head : len(h) - tail] for h in hidden]))


def _special_frame(fast: Any) -> tuple[list[int], list[int]]:
    # The special tokens a model wants around a text, read off an encoded letter.
    bare = list(fast.backend_tokenizer.encode("a", add_special_tokens=False).ids)
    bare = [i for i in bare if i != fast.pad_token_id]
    full = list(fast("a", padding=False)["input_ids"])
    at = next(i for i in range(len(full)) if full[i : i + len(bare)] == bare)
    return full[:at], full[at + len(bare) :]
