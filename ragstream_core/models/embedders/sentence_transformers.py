"""`SentenceTransformerEmbeddings`: any sentence-transformers model from local files, through torch.

On a processor slower than the default, and with other last bits, hence with another fingerprint.
Offers every model family the library reads (E5 and BGE get their prefixes) and GPUs. The vector of
a text does not depend on other texts: on a processor there is one text a call, on a graphics card
batches have one shape a length (`DeviceBatches`). Longer texts are embedded in even windows,
never truncated. The network is never used and no code of a model is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ragstream_core.errors import EmbeddingFailed, SetSetting, UsageError
from ragstream_core.models.embedders import fingerprints, weights
from ragstream_core.models.embedders.base import Ids, WindowedEncoder, mean_of_windows
from ragstream_core.platform import extras
from ragstream_core.text.tokenizer import ModelTokenizer

if TYPE_CHECKING:
    from ragstream_core.ports import F32

# What runs a model; an export needs onnx as well.
ENGINE = ("torch", "sentence_transformers")
I64 = npt.NDArray[np.int64]

# Token ids and mask, both of shape (rows, tokens) → one vector a row.
Run = Callable[[I64, I64], "F32"]

# Of a batch, at most; one of them stays free.
ROWS = 64
# Of a batch, at most: a card's memory is small beside what a model may read at once.
TOKENS = 16_384
# Lengths are rounded up to a multiple of so many tokens.
STEP = 32
# Texts that are put into batches together.
_AT_ONCE = 2_048


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
        self._fingerprint = fingerprints.model_fingerprint(
            model, models_dir, fingerprints.TORCH_RUNTIME
        )
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


class DeviceBatches:
    """Runs token ids in batches of one shape a length.

    A card that is given one text a call waits most of the time. In a batch the bits of a vector
    depend on the batch's shape, since that decides which kernels run. So every batch of a
    length has one shape: as many rows, filled up, and as many tokens, padded. Whether a row's
    bits then depend on the other rows or on its place is tried for each shape on the card
    itself; if they do, texts of that length are run one by one.
    """

    def __init__(self, run: Run, *, pad: int, longest: int) -> None:
        self._run, self._pad, self._longest = run, pad, longest
        self._rows: dict[int, int] = {}

    def vectors(self, texts: Sequence[Ids]) -> F32:
        """Return a vector for each text."""
        lengths = np.array([self._length(text) for text in texts])
        found: F32 | None = None
        for length in np.unique(lengths).tolist():
            here = np.flatnonzero(lengths == length)
            rows = self._rows_of(length, [texts[at] for at in here.tolist()])
            for begin in range(0, len(here), rows):
                part = here[begin : begin + rows]
                made = self._batch([texts[at] for at in part.tolist()], rows, length)
                if found is None:
                    found = np.empty((len(texts), made.shape[1]), dtype=np.float32)
                found[part] = made[: len(part)]
        assert found is not None
        return found

    def _length(self, text: Ids) -> int:
        return max(STEP, min(-(-len(text) // STEP) * STEP, max(self._longest, len(text))))

    def _rows_of(self, length: int, texts: Sequence[Ids]) -> int:
        """Return how many texts of a length are run together: many, or one if that changes bits."""
        if length not in self._rows:
            most = min(ROWS, TOKENS // length) - 1  # one row stays free
            together = most > 1 and self._is_apart(length, texts, most)
            self._rows[length] = most if together else 1
        return self._rows[length]

    def _is_apart(self, length: int, texts: Sequence[Ids], rows: int) -> bool:
        """Try whether the bits of a row depend on its place or on the other rows."""
        mine = [texts[n % len(texts)] for n in range(rows // 2)]
        other = [tuple(reversed(text)) for text in mine]
        first = self._batch(mine + other, rows, length)[: len(mine)]
        turned = self._batch([*other, *reversed(mine)], rows, length)[len(other) : 2 * len(mine)]
        alone = self._batch(mine[:1], rows, length)[:1]
        return first.tobytes() == turned[::-1].tobytes() and first[:1].tobytes() == alone.tobytes()

    def _batch(self, texts: Sequence[Ids], rows: int, length: int) -> F32:
        """Run a batch of a fixed shape; what is missing is filled up with the first text.

        Beside several rows there is one of a single token: models take another way if nothing is
        padded, and whether it is must not depend on the other texts.
        """
        ids = np.full((rows + (rows > 1), length), self._pad, dtype=np.int64)
        mask = np.zeros_like(ids)
        mask[rows:, 0] = 1
        for row in range(rows):
            text = texts[row if row < len(texts) else 0]
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        return self._run(ids, mask)
