"""What an ingest needs of the storage behind it, and the rows that pass between them.

`ragstream_core.stores` implements `IndexStore`; the manager knows only this page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ragstream_core.ingestion.manifest import FileEntry
from ragstream_core.ingestion.scan import Signature

if TYPE_CHECKING:
    from ragstream_core.ports import F32, IndexView


TRUNCATED = "truncated_inputs"
"""Key of a generation's provenance: how many texts the encoder cut while it was made."""


EMBEDDED, EMBED_SECONDS = "embedded", "embed_seconds"
"""Keys of a generation's provenance: texts given to the model, and wall time inside it."""


class ChunkRow(NamedTuple):
    """One chunk of one version of a file; every column is part of the generation's digest."""

    chunk_id: str
    path: str
    sha256: str
    chunk_idx: int
    start: int
    end: int
    page: int
    heading: str
    text_hash: str


class TextRow(NamedTuple):
    """One distinct chunk text with what is derived from it."""

    text_hash: str
    text: str
    tokens: int
    terms: bytes


@dataclass(frozen=True, slots=True)
class Generation:
    """A committed generation.

    Attributes:
        n: Number, ≥ 1.
        digest: Digest of the live rows and both fingerprints, 64 hex digits.
        row_sum: Order-independent sum over the live rows.
        parent: Number of the one before, 0 for the first.
        created: ISO 8601, UTC.
        index_fp: Fingerprint of model, chunker and parsers.
        embed_fp: Fingerprint of the model.
        counts: ``files``, ``chunks``.
        provenance: What made it; free JSON, e.g. a run id.
    """

    n: int
    digest: str
    row_sum: int
    parent: int
    created: str
    index_fp: str
    embed_fp: str
    counts: Mapping[str, int]
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """What the rows of an ingest are made with."""

    index_fp: str
    embed_fp: str


@dataclass(slots=True)
class Change:
    """What one ingest found, besides the staged chunks.

    Attributes:
        opened: Manifest rows that become live: new, updated or newly skipped files.
        closed: Paths whose live rows end: updated, deleted, or skipped from now on.
        touched: Rows whose bytes are the same; size, mtime and reason are rewritten.
        signatures: Signatures to record.
        forgotten: Paths whose signature is dropped, so that the next ingest looks again.
    """

    opened: list[FileEntry] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    touched: list[FileEntry] = field(default_factory=list)
    signatures: dict[str, Signature] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ScanStamp:
    """When the scan behind an ingest began, and under which settings."""

    started_ns: int
    scan_fp: str


class IndexStore(Protocol):
    """One project's storage, open for writing under its lock."""

    @property
    def notes(self) -> Sequence[str]:
        """What opening it had to repair, a sentence each."""
        ...

    def latest(self) -> Generation | None:
        """Return the newest committed generation."""
        ...

    def live_files(self) -> dict[str, FileEntry]:
        """Return the manifest of the newest generation by path."""
        ...

    def signatures(self) -> dict[str, Signature]:
        """Return the recorded signatures by path."""
        ...

    def last_scan(self) -> ScanStamp:
        """Return the stamp of the last finished scan; zeros before the first."""
        ...

    def known(self, text_hashes: Sequence[str], embed_fp: str) -> set[str]:
        """Return those texts that have a vector under a model and were not found damaged."""
        ...

    def record_texts(self, rows: Sequence[TextRow], vectors: F32, *, embed_fp: str) -> None:
        """Make texts and their vectors durable; a killed ingest resumes after them.

        Args:
            rows: Texts without a vector under this model.
            vectors: Shape (len(rows), dimension), float32, unit rows.
            embed_fp: The model.

        Raises:
            EmbeddingFailed: Wrong count or shape, a non-finite or a non-unit row; nothing stored.
            OperationFailed: Disk full; nothing recorded.
        """
        ...

    def stage(self, rows: Iterable[ChunkRow]) -> None:
        """Put chunk rows aside for the commit; lost when the process dies."""
        ...

    def staged_count(self) -> int:
        """Return the number of staged chunk rows."""
        ...

    def broken_texts(self, embed_fp: str, *, everything: bool) -> list[tuple[str, str]]:
        """Return (text_hash, text) whose stored vector fails its checks, and forget those vectors.

        Args:
            embed_fp: The model.
            everything: Check all vectors; else those that staged chunks use.

        Raises:
            IntegrityError: A staged chunk has no text.
        """
        ...

    def damaged_texts(self) -> Collection[str]:
        """Hash every stored text; return the live files with one that is damaged or missing.

        `known` no longer knows those texts, so that they are recorded again when the files are
        staged.
        """
        ...

    def repair_rest(self, embed_fp: str) -> list[str]:
        """Drop damaged vectors of models other than this one; check everything that is left.

        To be called after the commit: generations that need a dropped vector go with it.

        Returns:
            A sentence for each thing that was dropped or is still damaged.
        """
        ...

    def prepare(
        self, change: Change, fingerprints: Fingerprints, *, provenance: Mapping[str, str]
    ) -> Generation:
        """Return the generation that `commit` would make, with its digest; writes nothing."""
        ...

    def candidate(self, prepared: Generation) -> IndexView:
        """Return what `commit` would publish, readable while this store is open.

        Raises:
            IntegrityError: A row has no text, or no sound vector.
        """
        ...

    def commit(self, generation: Generation, change: Change, *, stamp: ScanStamp) -> None:
        """Commit chunks, files, signatures and the generation row in one transaction."""
        ...

    def note_scan(self, change: Change, *, stamp: ScanStamp) -> None:
        """Record signatures and touched rows without a generation."""
        ...

    def retain(self, generations: int) -> None:
        """Drop what only generations older than the last ``generations`` hold."""
        ...

    def publish(self, refused: Sequence[tuple[str, str]], *, rewrite_manifest: bool) -> None:
        """Bring what is derived from the newest generation up to date."""
        ...


class OpenStore(Protocol):
    """Opens a project's storage for writing and holds its lock meanwhile."""

    def __call__(
        self, project: str, *, rebuild: bool = False
    ) -> AbstractContextManager[IndexStore]:
        """Open; ``rebuild`` first puts a damaged store aside.

        Raises:
            ProjectLocked: Another process writes it.
            IntegrityError: The store is damaged or of a newer format.
        """
        ...
