"""`OnnxEmbedder`: all-MiniLM-L6-v2 through onnxruntime, one text a call.

One text a call without padding, with one thread inside the call: the bits of a vector depend on
its text and on nothing else, which byte-exact replay needs (a batched encoder differs with its
batch by 1e-7). Parallelism is over texts. Nothing is truncated: a text longer than the window is
embedded in even windows, and the mean of their vectors, normalised, is its vector.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ragstream_core.errors import EmbeddingFailed
from ragstream_core.models.embedders import fingerprints, onnx_export, weights
from ragstream_core.models.embedders.base import mean_unit, stack_checked, throttled, unit_rows_f16
from ragstream_core.text.tokenizer import ModelTokenizer, even_windows

if TYPE_CHECKING:
    from ragstream_core.ports import F16, F32, Progress

RECENT = 10
"""Queries whose last layer is held: retrieval embeds the pieces, then MaxSim reads their tokens."""
_T = TypeVar("_T")


class OnnxEmbedder:
    """The default `ragstream_core.ports.Embedder`; safe to share between threads.

    Attributes:
        truncated_inputs: How many texts lost tokens on the way into the encoder; always 0, counted
            so that a check can say so.
    """

    name: str = weights.DEFAULT_MODEL
    dimension: int = fingerprints.DIMENSION
    window: int = fingerprints.WINDOW
    device = "cpu"

    def __init__(
        self, models_dir: Path, *, workers: int = 0, notice: onnx_export.Notice | None = None
    ) -> None:
        """Open the model, exporting it first if it was never exported.

        Args:
            models_dir: ``<data>/models``.
            workers: Texts encoded at the same time; 0 = one for each core.
            notice: Told one line before the one-time export begins.

        Raises:
            WeightsMissing: No weights here, or torch or onnx is missing for the export.
            WeightsMismatch: A source file is not the expected one.
            EmbeddingFailed: The exported model differs from torch.
            OperationFailed: Another process holds the export lock for too long.
        """
        folder = onnx_export.ensure_onnx(models_dir, notice=notice)
        self._session = open_session(folder / onnx_export.MODEL_FILE)
        self._tokenizer = ModelTokenizer.from_file(folder / onnx_export.TOKENIZER_FILE)
        self._cls = self._tokenizer.token_id("[CLS]")
        self._sep = self._tokenizer.token_id("[SEP]")
        self._start_workers(workers)

    def _start_workers(self, workers: int) -> None:
        self.workers = workers if workers > 0 else (os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="embed")
        self.truncated_inputs = 0
        self._hidden = functools.lru_cache(maxsize=RECENT)(self._run)

    @property
    def fingerprint(self) -> str:
        """Digest of weights, tokenizer, window, pooling, prefix and runtime kind."""
        return fingerprints.default_fingerprint(fingerprints.ONNX_RUNTIME)

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, special tokens not included."""
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
            Shape (len(texts), 384), float32, each row of length 1 ± 1e-6, aligned with ``texts``.

        Raises:
            EmbeddingFailed: A vector is not finite or has no length.
        """
        rows = self._each(functools.partial(self._vector, self._run), texts)
        if progress is not None:
            rows = throttled(rows, progress, total=len(texts))
        return stack_checked(rows, shape=(len(texts), self.dimension))

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Embed queries: the same as passages, this model is symmetric.

        Raises:
            EmbeddingFailed: A vector is not finite or has no length.
        """
        rows = self._each(functools.partial(self._vector, self._hidden), texts)
        return stack_checked(rows, shape=(len(texts), self.dimension))

    def token_vectors(self, texts: Sequence[str]) -> list[F16]:
        """Return the last layer's token vectors, for late interaction.

        Returns:
            One array (tokens, 384) a text, unit rows rounded to float16, without [CLS] and [SEP];
            the windows of a long text one after the other.

        Raises:
            EmbeddingFailed: A value is not finite.
        """
        return list(self._each(self._tokens_of, texts))

    def _each(self, function: Callable[[str], _T], texts: Sequence[str]) -> Iterator[_T]:
        if self.workers == 1 or len(texts) < 2:
            return map(function, texts)
        return self._pool.map(function, texts)

    def _windows(self, text: str) -> list[tuple[int, ...]]:
        ids = self._tokenizer.ids(text)
        windows = even_windows(ids, self.window)
        if sum(map(len, windows)) != len(ids) or max(map(len, windows)) > self.window:
            self.truncated_inputs += 1
        return [tuple(window) for window in windows]

    def _run(self, ids: tuple[int, ...]) -> F32:
        row = np.array([[self._cls, *ids, self._sep]], dtype=np.int64)
        feed = {
            "input_ids": row,
            "attention_mask": np.ones_like(row),
            "token_type_ids": np.zeros_like(row),
        }
        hidden: F32 = self._session.run([onnx_export.OUTPUT_NAME], feed)[0][0]
        if hidden.shape != (row.shape[1], self.dimension):
            raise EmbeddingFailed(f"the encoder returned shape {hidden.shape} for {row.shape}")
        hidden.flags.writeable = False  # the next caller gets the same array
        return hidden

    def _vector(self, hidden: Callable[[tuple[int, ...]], F32], text: str) -> F32:
        parts = [mean_unit(hidden(ids)).astype(np.float64) for ids in self._windows(text)]
        return mean_unit(parts)

    def _tokens_of(self, text: str) -> F16:
        parts = [self._hidden(ids)[1:-1] for ids in self._windows(text)]
        return unit_rows_f16(np.concatenate(parts))


def open_session(path: Path) -> Any:
    """Return a session that computes the same bits whatever else this machine does.

    Args:
        path: An ONNX file.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        str(path), sess_options=options, providers=["CPUExecutionProvider"]
    )
