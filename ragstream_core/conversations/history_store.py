"""What the history worker needs of the storage behind it; `ragstream_core.stores` implements it.

The catalog is complete: every turn up to the high-water mark, tags as of that mark. The published
snapshot is a capped selection of it and is all that prompts read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ragstream_core.conversations.journal.records import Position, Turn

if TYPE_CHECKING:
    from ragstream_core.ports import F32


class TurnRow(NamedTuple):
    """One turn in the catalog.

    Attributes:
        seq: Its place in the order of the journal.
        turn: The record, without texts: both are empty here.
        sha256: Digest of both texts and the speakers, 64 hex digits.
        timestamp_ns: Its time, ns since the epoch.
        tags: Tags as of the high-water mark.
        segment: File it lies in; a hint.
        offset: First byte of its line; a hint.
    """

    seq: int
    turn: Turn
    sha256: str
    timestamp_ns: int
    tags: tuple[str, ...]
    segment: str = ""
    offset: int = 0


class HistoryChunk(NamedTuple):
    """One chunk of one turn.

    Attributes:
        chunk_id: ``history::<session>::<seq>-<seq>::<chunk_idx>``.
        seq: The turn.
        chunk_idx: 0…N-1 within the turn.
        start: Character offset in the turn's unit text (`units.unit_text`).
        end: Character offset, exclusive.
        text_hash: sha256 of the chunk's text (with its date and speaker line).
    """

    chunk_id: str
    seq: int
    chunk_idx: int
    start: int
    end: int
    text_hash: str


class EmbeddedText(NamedTuple):
    """One distinct chunk text with what is derived from it."""

    text_hash: str
    text: str
    tokens: int
    terms: bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the catalog has come.

    Attributes:
        generation: Its newest generation, 0 before the first.
        position: Every turn up to here is embedded.
        embed_fp: Fingerprint of the model.
        index_fp: Fingerprint of model and unit rules.
        digest: Digest of the live rows.
    """

    generation: int = 0
    position: Position = field(default_factory=Position)
    embed_fp: str = ""
    index_fp: str = ""
    digest: str = ""


class HistoryStore(Protocol):
    """The history catalog, open for writing under its lock."""

    @property
    def notes(self) -> Sequence[str]:
        """What opening it had to repair and what went wrong after a commit, a sentence each."""
        ...

    def mark(self) -> Mark:
        """Return how far it has come.

        Raises:
            IntegrityError: It is not what was written.
        """
        ...

    def known(self, text_hashes: Sequence[str], embed_fp: str) -> set[str]:
        """Return those texts that are sound and have a sound vector under a model.

        Raises:
            IntegrityError: The vector file lost its end or is gone.
        """
        ...

    def holds(self, first: int, last: int) -> bool:
        """Say whether there is a turn with a ``seq`` from ``first`` to ``last``."""
        ...

    def lacking(self, embed_fp: str, *, besides: Collection[int]) -> list[tuple[str, str]]:
        """Return (hash, text) of live chunks without a vector under a model.

        Args:
            embed_fp: The model.
            besides: Turns that are left out, by ``seq``.
        """
        ...

    def record_texts(
        self, rows: Sequence[EmbeddedText], vectors: F32, *, embed_fp: str, last: bool = False
    ) -> None:
        """Make texts and vectors durable; a killed run resumes after them.

        Args:
            rows: Texts without a sound vector under this model.
            vectors: Shape (len(rows), dimension), unit rows.
            embed_fp: The model.
            last: The commit comes next: these may become durable with it.

        Raises:
            EmbeddingFailed: Not as many finite unit vectors; nothing was stored.
            OperationFailed: Disk full; nothing was recorded.
        """
        ...

    def turns(self, seqs: Iterable[int] | None = None) -> list[TurnRow]:
        """Return live turns, all or some, ascending by ``seq``.

        Raises:
            IntegrityError: A row fails its crc.
        """
        ...

    def seqs_of(self, turn_ids: Iterable[str]) -> dict[str, int]:
        """Return turn id → ``seq`` of those turns that are here."""
        ...

    def commit(
        self,
        turns: Sequence[TurnRow],
        chunks: Sequence[HistoryChunk],
        *,
        mark: Mark,
        retagged: Mapping[int, tuple[str, ...]],
        provenance: Mapping[str, str],
    ) -> Mark:
        """Commit turns, chunks, changed tags and the new mark in one transaction.

        A turn that already exists is replaced together with its chunks, one that is there just
        so is left as it is; the mark's position never goes down. Where nothing changes at all, no
        generation is made.

        Args:
            turns: New or replaced turns.
            chunks: All chunks of these turns.
            mark: Position, ``embed_fp`` and ``index_fp`` from now on.
            retagged: ``seq`` → tags of turns that are not replaced.
            provenance: Kept in the generation row.

        Raises:
            IntegrityError: A chunk has no vector under the mark's model.
            OperationFailed: Disk full; nothing was committed.
        """
        ...
