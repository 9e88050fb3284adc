"""`EmbeddingBackend`: a base class for embedders of your own; `embed_documents` is all it needs.

What a subclass returns is brought into the form of the port: texts go to it one by one, so that the
vector of a text depends on nothing else; a text longer than the window is embedded in windows whose
mean, normalised, is its vector; each row is scaled to length 1 in float64 and rounded once. Tokens
are words and signs, and the token vectors for late interaction are those of the words alone.
"""

from __future__ import annotations

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ragstream_core.errors import EmbeddingFailed
from ragstream_core.models.embedders import fingerprints
from ragstream_core.records.identity import digest_of
from ragstream_core.text.tokenizer import even_windows, word_offsets

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragstream_core.ports import F16, F32, Progress


def mean_unit(rows: Sequence[npt.NDArray[Any]] | npt.NDArray[Any]) -> F32:
    """Return the mean of rows, scaled to length 1.

    Args:
        rows: Shape (n, dimension), n ≥ 1.

    Returns:
        Shape (dimension,), float32, length 1 ± 1e-6.

    Raises:
        EmbeddingFailed: The mean is not finite or has no length.
    """
    mean = np.asarray(rows, dtype=np.float64).mean(axis=0)
    length = float(np.sqrt(np.square(mean).sum()))
    if not 0.0 < length < float("inf"):  # also catches NaN
        raise EmbeddingFailed("the encoder returned a vector that is not finite or has no length")
    unit: F32 = (mean / length).astype(np.float32)
    return unit


def unit_rows_f16(rows: npt.NDArray[Any]) -> F16:
    """Scale each row to length 1 and round it to float16.

    Args:
        rows: Shape (n, dimension), n ≥ 0.

    Raises:
        EmbeddingFailed: A row is not finite or has no length.
    """
    wide = np.asarray(rows, dtype=np.float64)
    lengths = np.sqrt(np.square(wide).sum(axis=1, keepdims=True))
    if not bool(np.all((lengths > 0.0) & np.isfinite(lengths))):
        raise EmbeddingFailed("the encoder returned a token vector that is not usable")
    unit: F16 = (wide / lengths).astype(np.float16)
    return unit


def stack_checked(rows: Iterable[F32], *, shape: tuple[int, int]) -> F32:
    """Put rows under each other and refuse anything but what was asked for.

    Args:
        rows: Vectors of length ``shape[1]``.
        shape: Expected (texts, dimension).

    Returns:
        Shape ``shape``, float32, each row of length 1 ± 1e-6.

    Raises:
        EmbeddingFailed: Wrong count, wrong dimension, not finite, or not of length 1.
    """
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


Raw = Callable[..., Any]
_KEPT_WORDS = 4096


class EmbeddingBackend(ABC):
    """A `ragstream_core.ports.Embedder` of which only `embed_documents` is missing.

    A subclass may override anything else as well; values are attributes of the class.

    Attributes:
        name: Model name for people; default: the name of the class.
        version: Raise it when the vectors of the same text change; part of the fingerprint.
        window: Largest number of words and signs of one text that `embed_documents` is given.
        device: Where it computes, for people.
        truncated_inputs: How many texts lost something; stays 0.
    """

    name: str = ""
    version: int = 1
    window: int = fingerprints.WINDOW
    device: str = "cpu"
    truncated_inputs: int = 0
    _raw: ClassVar[Raw]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the subclass's `embed_documents` with what the port promises."""
        super().__init_subclass__(**kwargs)
        cls.name = cls.__dict__.get("name") or cls.name or cls.__name__
        raw = cls.__dict__.get("embed_documents")
        if raw is not None:
            cls._raw = raw
            cls.embed_documents = _embed_documents  # type: ignore[method-assign]

    @abstractmethod
    def embed_documents(self, texts: Sequence[str], *, progress: Progress | None = None) -> F32:
        """Return one vector a text; a subclass may leave ``progress`` out.

        Args:
            texts: Any number of texts.
            progress: Called with (done, total).

        Returns:
            Shape (len(texts), dimension); of the subclass, any length and any float type.
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
    def dimension(self) -> int:
        """Length of a vector, found by embedding a word."""
        return int(self._row("dimension").shape[0])

    def count(self, text: str) -> int:
        """Return the number of words and signs of a text."""
        return len(word_offsets(text))

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each word and sign, in characters."""
        return word_offsets(text)

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Embed queries: the same as passages.

        Raises:
            EmbeddingFailed: As `embed_documents`.
        """
        return self.embed_documents(texts)

    def token_vectors(self, texts: Sequence[str]) -> list[F16]:
        """Return the vector of each word by itself, float16 unit rows.

        Raises:
            EmbeddingFailed: As `embed_documents`.
        """
        return [self._words_of(text) for text in texts]

    def _words_of(self, text: str) -> F16:
        rows = [self._word(text[start:end]) for start, end in self.token_offsets(text)]
        return unit_rows_f16(np.asarray(rows, dtype=np.float64).reshape(-1, self.dimension))

    @functools.cached_property
    def _word(self) -> Callable[[str], F32]:
        return functools.lru_cache(maxsize=_KEPT_WORDS)(self._row)

    def _row(self, text: str) -> F32:
        """Embed one text that fits into the window.

        Raises:
            EmbeddingFailed: The subclass returned something else than one vector.
        """
        try:
            found: npt.NDArray[np.float64] = np.asarray(type(self)._raw(self, [text]), np.float64)
        except (TypeError, ValueError) as error:
            raise EmbeddingFailed(f"{self.name} returned no vector: {error}") from None
        if found.ndim != 2 or found.shape[0] != 1 or not found.shape[1]:
            raise EmbeddingFailed(f"{self.name} returned shape {found.shape} for one text")
        if not found.any():  # a text in which it sees nothing: one fixed direction of its own
            found[0, 0] = 1.0
        return mean_unit(found)

    def _vector(self, text: str) -> F32:
        offsets = self.token_offsets(text)
        if len(offsets) <= self.window:
            return self._row(text)
        spans = even_windows(list(range(len(offsets))), self.window)
        parts = [text[offsets[span[0]][0] : offsets[span[-1]][1]] for span in spans]
        return mean_unit([self._row(part).astype(np.float64) for part in parts])


def _embed_documents(
    self: EmbeddingBackend, texts: Sequence[str], *, progress: Progress | None = None
) -> F32:
    """Embed passages of any length.

    Args:
        self: The backend.
        texts: The passages.
        progress: Called with (done, total), at most five times a second and at the end.

    Returns:
        Shape (len(texts), dimension), float32, rows of length 1 ± 1e-6, aligned with ``texts``.

    Raises:
        EmbeddingFailed: What the subclass returned is not one finite vector a text.
    """
    rows = map(self._vector, texts)
    counted = rows if progress is None else throttled(rows, progress, total=len(texts))
    return stack_checked(counted, shape=(len(texts), self.dimension))
