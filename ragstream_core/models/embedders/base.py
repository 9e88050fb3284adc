"""What all embedders share, and `EmbeddingBackend`, the base class of one of your own.

The vector of a text depends on nothing else: texts are embedded one by one, or in batches where
that is made sure of (`DeviceBatches`). A text longer
than the window is embedded in even windows, never truncated; the mean of their vectors, scaled to
length 1 in float64 and rounded once, is its vector.
"""

from __future__ import annotations

import functools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ragstream_core.errors import EmbeddingFailed
from ragstream_core.models.embedders import fingerprints
from ragstream_core.records.identity import digest_of
from ragstream_core.text.tokenizer import even_windows, text_windows, word_offsets

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragstream_core.models.embedders.fingerprints import Prefixes
    from ragstream_core.ports import F16, F32, Progress
    from ragstream_core.text.tokenizer import ModelTokenizer


def mean_unit(rows: Sequence[npt.NDArray[Any]] | npt.NDArray[Any]) -> F32:
    """Return the mean of rows (n ≥ 1, dimension), scaled to length 1 ± 1e-6, as float32."""
    mean = np.asarray(rows, dtype=np.float64).mean(axis=0)
    length = float(np.sqrt(np.square(mean).sum()))
    if not 0.0 < length < float("inf"):  # also catches NaN
        raise EmbeddingFailed("the encoder returned a vector that is not finite or has no length")
    unit: F32 = (mean / length).astype(np.float32)
    return unit


def mean_of_windows(parts: Iterable[npt.NDArray[Any]]) -> F32:
    """Return the vector of a text from those of its windows, each scaled to length 1 first."""
    return mean_unit([mean_unit(part[np.newaxis]).astype(np.float64) for part in parts])


def unit_rows_f16(rows: npt.NDArray[Any]) -> F16:
    """Scale each row (n ≥ 0, dimension) to length 1 and round it to float16."""
    wide = np.asarray(rows, dtype=np.float64)
    lengths = np.sqrt(np.square(wide).sum(axis=1, keepdims=True))
    if not bool(np.all((lengths > 0.0) & np.isfinite(lengths))):
        raise EmbeddingFailed("the encoder returned a token vector that is not usable")
    unit: F16 = (wide / lengths).astype(np.float16)
    return unit


def stack_checked(rows: Iterable[F32], *, shape: tuple[int, int]) -> F32:
    """Put rows under each other; refuse another ``shape`` (texts, dimension) or length."""
    stacked: F32 = np.asarray(list(rows), dtype=np.float32).reshape(-1, shape[1])
    if stacked.shape != shape:
        raise EmbeddingFailed(f"the encoder returned shape {stacked.shape}, expected {shape}")
    lengths = np.sqrt(np.square(stacked, dtype=np.float64).sum(axis=1))
    if not bool(np.all(np.abs(lengths - 1.0) <= 1e-6)):  # NaN fails the comparison too
        raise EmbeddingFailed("the encoder returned a vector that is not finite or not of length 1")
    return stacked


_T = TypeVar("_T")
INTERVAL_S = 0.2


def throttled(items: Iterable[_T], progress: Progress, *, total: int) -> Iterator[_T]:
    """Yield items and call ``progress(done, total)`` at most every 0.2 s, and once at the end."""
    done, last = 0, time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last >= INTERVAL_S and done < total:
            last = now
            progress(done, total)
    progress(done, total)


# Token ids.
Ids = tuple[int, ...]


class Encoder(ABC):
    """A `ragstream_core.ports.Embedder` whose subclasses embed one text at a time."""

    name: str
    dimension: int
    window: int  # tokens of one text, special tokens and prefixes not included
    device: str = "cpu"
    # how many texts lost tokens on the way into the encoder; always 0, counted so that a check can
    # say so
    truncated_inputs: int = 0
    workers: int = 1
    texts_at_once: int = 0  # how many texts an ingest had better give it at a time; 0: any number
    _pool: ThreadPoolExecutor

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Digest of everything that a vector depends on."""

    @abstractmethod
    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each token of a text of any length, in characters."""

    @abstractmethod
    def _passage(self, text: str) -> F32:
        """Embed one passage of any length."""

    def _query(self, text: str) -> F32:
        """Embed one query; like a passage if the model is symmetric."""
        return self._passage(text)

    @abstractmethod
    def _tokens_of(self, text: str) -> F16:
        """Return the unit token vectors of one text."""

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, special tokens and prefixes not included."""
        return len(self.token_offsets(text))

    def embed_documents(self, texts: Sequence[str], *, progress: Progress | None = None) -> F32:
        """Embed passages of any length."""
        rows = self._rows(texts)
        counted = rows if progress is None else throttled(rows, progress, total=len(texts))
        return stack_checked(counted, shape=(len(texts), self.dimension))

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Embed queries, with the model family's query prefix if it has one."""
        rows = self._rows(texts, query=True)
        return stack_checked(rows, shape=(len(texts), self.dimension))

    def token_vectors(self, texts: Sequence[str]) -> list[F16]:
        """Return (tokens, dimension) float16 a text, unit rows without special tokens."""
        return list(self._each(self._tokens_of, texts))

    def _rows(self, texts: Sequence[str], *, query: bool = False) -> Iterator[F32]:
        return self._each(self._query if query else self._passage, texts)

    def _each(self, function: Callable[[str], _T], texts: Sequence[str]) -> Iterator[_T]:
        if self.workers == 1 or len(texts) < 2:
            return map(function, texts)
        return self._pool.map(function, texts)

    def _start_workers(self, workers: int) -> None:
        """Embed several texts at once: as many as given, 0 = one for each core."""
        self.workers = workers if workers > 0 else (os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="embed")


class WindowedEncoder(Encoder):
    """An encoder that takes token ids: prefix and window, between special tokens."""

    _tokenizer: ModelTokenizer
    _head: Ids
    _tail: Ids

    def _set_limits(self, prefixes: Prefixes, length: int) -> None:
        """Set prefixes and window of a model that takes ``length`` tokens with special ones."""
        self._query_prefix = tuple(self._tokenizer.ids(prefixes.query))
        self._passage_prefix = tuple(self._tokenizer.ids(prefixes.passage))
        longest = max(len(self._query_prefix), len(self._passage_prefix))
        self.window = length - len(self._head) - len(self._tail) - longest

    @abstractmethod
    def _pooled(self, ids: Ids) -> npt.NDArray[Any]:
        """Return the vector of one window of a passage, prefix included; of any length."""

    def _pooled_query(self, ids: Ids) -> npt.NDArray[Any]:
        """Return the same of a query."""
        return self._pooled(ids)

    @abstractmethod
    def _hidden(self, ids: Ids) -> npt.NDArray[Any]:
        """Return the last layer for one window, a row a token, special ones included."""

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each token of a text of any length, in characters."""
        return self._tokenizer.offsets(text)

    def _passage(self, text: str) -> F32:
        ids = (self._pooled((*self._passage_prefix, *window)) for window in self._windows(text))
        return mean_of_windows(ids)

    def _query(self, text: str) -> F32:
        ids = (self._pooled_query((*self._query_prefix, *window)) for window in self._windows(text))
        return mean_of_windows(ids)

    def _tokens_of(self, text: str) -> F16:
        head, tail = len(self._head), len(self._tail)
        hidden = [self._hidden(ids) for ids in self._windows(text)]
        return unit_rows_f16(np.concatenate([rows[head : len(rows) - tail] for rows in hidden]))

    def _windows(self, text: str) -> list[Ids]:
        return self._divided(self._tokenizer.ids(text))

    def _divided(self, ids: list[int]) -> list[Ids]:
        windows = even_windows(ids, self.window)
        if sum(map(len, windows)) != len(ids) or max(map(len, windows)) > self.window:
            self.truncated_inputs += 1
        return [tuple(window) for window in windows]


Raw = Callable[..., Any]
_KEPT_WORDS = 4096


class EmbeddingBackend(Encoder):
    """A `ragstream_core.ports.Embedder` of which only `embed_documents` is missing.

    A subclass may override anything else as well; values are attributes of the class. Tokens are
    words and signs, and the token vectors for late interaction are those of the words alone.
    """

    name: str = ""  # model name for people; default: the name of the class
    version: int = 1  # raise it when the vectors of the same text change; part of the fingerprint
    # largest number of words and signs of one text that `embed_documents` is given
    window: int = fingerprints.WINDOW
    _raw: ClassVar[Raw]

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Keep the subclass's `embed_documents`, and put what the port promises in its place."""
        super().__init_subclass__(**kwargs)
        cls.name = cls.__dict__.get("name") or cls.name or cls.__name__
        raw = cls.__dict__.get("embed_documents")
        if raw is not None:
            cls._raw = raw
            cls.embed_documents = Encoder.embed_documents  # type: ignore[method-assign]

    @abstractmethod
    def embed_documents(self, texts: Sequence[str], *, progress: Progress | None = None) -> F32:
        """Return shape (len(texts), dimension), of any length of rows and any float type.

        A subclass may leave ``progress`` out.
        """

    @property
    def fingerprint(self) -> str:
        """Digest of class, name, version, window and dimension."""
        return digest_of(
            {
                "class": f"{type(self).__module__}.{type(self).__qualname__}",
                "name": self.name,
                "version": self.version,
                "window": self.window,
                "dimension": self.dimension,
                "long_texts": fingerprints.LONG_TEXTS,
            }
        )

    @functools.cached_property
    def dimension(self) -> int:  # type: ignore[override]  # found when it is first asked for
        """Length of a vector, found by embedding a word."""
        return int(self._row("dimension").shape[0])

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each word and sign, in characters."""
        return word_offsets(text)

    def _tokens_of(self, text: str) -> F16:
        rows = [self._word(text[start:end]) for start, end in self.token_offsets(text)]
        return unit_rows_f16(np.asarray(rows, dtype=np.float64).reshape(-1, self.dimension))

    @functools.cached_property
    def _word(self) -> Callable[[str], F32]:
        return functools.lru_cache(maxsize=_KEPT_WORDS)(self._row)

    def _passage(self, text: str) -> F32:
        parts = text_windows(text, self.token_offsets(text), self.window)
        if len(parts) == 1:
            return self._row(text)
        return mean_unit([self._row(part).astype(np.float64) for part in parts])

    def _row(self, text: str) -> F32:
        """Embed one text that fits into the window."""
        try:
            vector: npt.NDArray[np.float64] = np.asarray(type(self)._raw(self, [text]), np.float64)
        except (TypeError, ValueError) as error:
            raise EmbeddingFailed(f"{self.name} returned no vector: {error}") from None
        if vector.ndim != 2 or vector.shape[0] != 1 or not vector.shape[1]:
            raise EmbeddingFailed(f"{self.name} returned shape {vector.shape} for one text")
        if not vector.any():  # a text in which it sees nothing: one fixed direction of its own
            vector[0, 0] = 1.0
        return mean_unit(vector)
