"""The protocols between the layers, on one page; adapters implement them, `wiring` connects them.

Scores are similarities: higher is better. Arrays are NumPy; the import is for type checkers only,
so that looking at a port costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from pydantic import BaseModel

    from ragstream_core.platform.placed_rows import PlacedRows
    from ragstream_core.records import Chunk
    from ragstream_core.records.chat import ChatDelta, ChatMessage, ChatReply
    from ragstream_core.text.bm25 import PostingLists

    F32 = npt.NDArray[np.float32]
    F16 = npt.NDArray[np.float16]

# Called with (done, total) while a long operation runs; never more than a few times a second.
Progress = Callable[[int, int], None]
# Called with (phase, done, total); a total of 0 is not known. What it raises ends the work.
PhaseProgress = Callable[[str, int, int], None]


class TokenCounter(Protocol):
    """Counts the tokens of a text, special tokens not included."""

    @property
    def name(self) -> str:
        """Which counter this is; part of a prompt's key."""
        ...

    def __hash__(self) -> int:
        """Return the same for counters that count alike: what they counted is kept by them."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens, ≥ 0."""
        ...


class Embedder(Protocol):
    """Turns texts into unit vectors; one fingerprint, one vector space.

    The same text gives the same bits whatever the order, the batch and the number of workers.
    """

    @property
    def name(self) -> str:
        """Model name for people."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of weights, tokenizer, window, pooling, prefix and runtime kind (``embed_fp``)."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    @property
    def window(self) -> int:
        """Largest number of tokens of one text, special tokens not included."""
        ...

    @property
    def truncated_inputs(self) -> int:
        """How many texts lost tokens on the way into the encoder so far; must stay 0."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, special tokens not included."""
        ...

    def embed_documents(self, texts: Sequence[str], *, progress: Progress | None = None) -> F32:
        """Embed passages.

        Args:
            texts: Any number of texts of any length; one longer than the window is embedded in
                windows whose mean, normalised, is its vector. Nothing is ever truncated.
            progress: Called with (done, total).

        Returns:
            Shape (len(texts), dimension), float32, each row of length 1 ± 1e-6.

        Raises:
            EmbeddingFailed: Wrong count or a non-finite value.
        """
        ...

    def embed_queries(self, texts: Sequence[str]) -> F32:
        """Embed queries; as `embed_documents` for symmetric models."""
        ...

    def token_vectors(self, texts: Sequence[str]) -> list[F16]:
        """Return the unit token vectors of each text for late interaction.

        Returns:
            One array (tokens without special ones, dimension) a text, rounded to float16.
        """
        ...


class Reranker(Protocol):
    """Scores (query, passage) pairs jointly."""

    @property
    def name(self) -> str:
        """Which reranker this is; part of a prompt's key and shown to people."""
        ...

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return one score a passage, higher is better, aligned with ``passages``."""
        ...


class IndexView(Protocol):
    """One committed generation of one project, pinned: it never changes while it is held.

    Rows are sorted by ``chunk_ids``; ``vectors``, ``paths`` and ``lexical`` are aligned with them.
    """

    @property
    def project(self) -> str:
        """Project name."""
        ...

    @property
    def generation(self) -> int:
        """Generation number, ≥ 1."""
        ...

    @property
    def digest(self) -> str:
        """Digest of the generation's live rows, 64 hex digits."""
        ...

    @property
    def embed_fp(self) -> str:
        """Fingerprint of the model that made ``vectors``."""
        ...

    @property
    def chunk_ids(self) -> Sequence[str]:
        """Ids of the live chunks, sorted."""
        ...

    @property
    def paths(self) -> Sequence[str]:
        """Source path of each row."""
        ...

    @property
    def vectors(self) -> F32 | PlacedRows:
        """Shape (rows, dimension), float32 unit rows: in memory, or where they lie in a file."""
        ...

    @property
    def lexical(self) -> PostingLists:
        """Term arrays of the rows."""
        ...

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        """Load chunks with their texts, in the order asked for.

        Raises:
            IntegrityError: A stored text does not have its hash.
            KeyError: An id is not live in this generation.
        """
        ...


class VectorStore(Protocol):
    """The store verbs every backend has; exact NumPy search is the oracle."""

    def add(self, ids: Sequence[str], vectors: F32) -> None:
        """Add rows.

        Raises:
            DuplicateId: An id is live already; nothing was added.
        """
        ...

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows; unknown ids are no error."""
        ...

    def search(self, query: F32, k: int) -> list[tuple[str, float]]:
        """Return the ``k`` best (id, cosine), ties by id."""
        ...

    def ids(self) -> list[str]:
        """Return all live ids, sorted."""
        ...


class ChatModel(Protocol):
    """A language model: asked for text or for a value of a schema, at once or as a stream.

    Every failure is a `ragstream_core.errors.ChatFailed` that holds neither a key nor a text.
    """

    @property
    def name(self) -> str:
        """The model as its endpoint knows it; part of an exchange's digest."""
        ...

    @property
    def host(self) -> str:
        """``host:port`` that everything is sent to; empty where nothing is sent."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether what is sent stays on this machine."""
        ...

    def list_models(self) -> list[str]:
        """Return the models that the endpoint has, sorted.

        Raises:
            ChatFailed: It cannot be asked.
        """
        ...

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return what so many tokens cost in US dollars, 0 if it is free, None if not known."""
        ...

    def complete(
        self, messages: Sequence[ChatMessage], *, schema: type[BaseModel] | None = None
    ) -> ChatReply:
        """Return the whole answer.

        Args:
            messages: At least one.
            schema: What the answer must be; `ChatReply.parsed` is an instance of it.

        Raises:
            ChatFailed: There is no answer, or, with a schema, none that fits it.
        """
        ...

    def stream(self, messages: Sequence[ChatMessage]) -> Iterator[ChatDelta]:
        """Yield the answer as it comes; the last delta, and no other, holds the reply.

        A stream that breaks off after its first word ends with a ``partial`` reply, not with an
        error. Closing the iterator ends the request.

        Raises:
            ChatFailed: It failed before its first word.
        """
        ...


class FileSource(Protocol):
    """Reads the files that A1 injects; live from disk, or from a record when replaying."""

    def names(self, project: str) -> list[str]:
        """Return the POSIX paths of the project's files, sorted."""
        ...

    def read(self, project: str, path: str) -> bytes:
        """Return the bytes of one file.

        Raises:
            UsageError: No such file in the project.
        """
        ...
