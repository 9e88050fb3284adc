"""What an ingest did, in numbers: of documents (R-086, R-087), and of turns of conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.text.decoding import ASSUMED
from ragstream_core.text.plurals import counted

if TYPE_CHECKING:
    from ragstream_core.ingestion.quality_gate import GateVerdict
    from ragstream_core.records.identity import Json

FILE_KEYS = ("scanned", "new", "updated", "touched", "unchanged", "deleted", "skipped")

_SHOWN = 5  # files whose reading is remarked on one by one


def remarks(files: Sequence[tuple[str, str]]) -> list[str]:
    """Return a sentence a file of which something was assumed or left out; some of many.

    Args:
        files: (path, what `reading_remark` says), none empty.
    """
    found = []
    for path, remark in files[:_SHOWN]:
        found.append(f"{path}: {'read ' * (ASSUMED in remark)}{reading_phrase(remark)}")
    rest = len(files) - _SHOWN
    return [*found, f"{rest:,} more files likewise: see file_manifest.json"] if rest > 0 else found


def reading_phrase(remark: str) -> str:
    """Return how a file was read, and what names another encoding where one was assumed."""
    if ASSUMED not in remark:
        return remark
    return f"as {remark}; `discovery.fallback_encoding` names another encoding"


@dataclass(frozen=True, slots=True)
class IngestionStats:
    """Result of one ingest.

    Attributes:
        project: Project name.
        generation: Newest generation afterwards; 0 where nothing was ever committed.
        committed: Whether this ingest made that generation.
        files: Counts by `FILE_KEYS`; ``scanned`` is the documents found on disk.
        changed: Sorted paths of the classes new, updated, touched, deleted.
        skipped_reasons: (path, reason) of files that were not read or not taken.
        chunks: ``embedded`` (texts given to the model), ``reused`` (chunks whose text had a
            vector), ``live``; ``shared`` (texts whose vectors other machines made), if vectors are
            shared.
        documents: Documents that are live.
        dimension: Length of a vector; 0 where no model was needed.
        model: The embedding model; empty where none was needed.
        device: Where it computed, e.g. ``cpu``; empty where it does not say.
        long_inputs: Texts over the model's window, embedded in windows.
        truncated_inputs: Texts that the encoder cut, by its own count; must be 0.
        seconds: Wall time of the ingest, the commit included.
        after_commit_s: Wall time after it, in seconds: the Chroma collection, and in a recorded run
            the checks.
        model_seconds: Wall time inside the model.
        warnings: What went wrong after the commit, or was left for the next ingest.
        digest: Digest of the newest generation, or empty.
        refused: Why the quality gate kept the old generation; empty where it did not.
        quality: What the gold questions say of it; None without any.
    """

    project: str
    generation: int
    committed: bool
    files: dict[str, int]
    changed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    skipped_reasons: tuple[tuple[str, str], ...] = ()
    chunks: dict[str, int] = field(default_factory=dict)
    documents: int = 0
    dimension: int = 0
    model: str = ""
    device: str = ""
    long_inputs: int = 0
    truncated_inputs: int = 0
    seconds: float = 0.0
    after_commit_s: float = 0.0
    model_seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    digest: str = ""
    refused: str = ""
    quality: GateVerdict | None = None

    def __str__(self) -> str:
        """Return what it did on one line."""
        done = "generation" if self.committed else "nothing to do; generation"
        files = counted(self.files.get("scanned", 0), "file")
        chunks = counted(self.chunks.get("live", 0), "chunk")
        return f"{self.project}: {done} {self.generation}, {files}, {chunks}"

    @property
    def chunk_keys(self) -> tuple[str, ...]:
        """The counts of `chunks` that are shown, in their order."""
        shared = ("shared",) if "shared" in self.chunks else ()
        return ("embedded", *shared, "reused", "live")

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form: the documented keys first, details after them."""
        return {
            "project": self.project,
            "generation": self.generation,
            "committed": self.committed,
            "files": {key: self.files.get(key, 0) for key in FILE_KEYS},
            "chunks": {key: self.chunks.get(key, 0) for key in self.chunk_keys},
            "seconds": round(self.seconds, 3),
            "documents": self.documents,
            "dimension": self.dimension,
            "model": self.model,
            "device": self.device,
            "long_inputs": self.long_inputs,
            "truncated_inputs": self.truncated_inputs,
            "changed": {name: list(paths) for name, paths in self.changed.items()},
            "skipped_reasons": [list(row) for row in self.skipped_reasons],
            "warnings": list(self.warnings),
            "digest": self.digest,
            "model_seconds": round(self.model_seconds, 3),
            "after_commit_seconds": round(self.after_commit_s, 3),
            "refused": self.refused,
            "quality": self.quality.to_json() if self.quality else {},
        }


@dataclass(frozen=True, slots=True)
class HistoryStats:
    """The numbers of one run.

    Attributes:
        generation: The newest generation of the catalog afterwards; 0 if there is none.
        digest: Its digest, or "".
        seq: Every turn of the journal up to here is embedded.
        committed: Whether this run made a generation.
        turns: Turns that were read and cut.
        retagged: Earlier turns whose tags changed.
        passed_over: Turns that are not embedded: the answer broke off, or they were cleared.
        embedded: Texts given to the model.
        reused: Chunks whose text had a sound vector already, or comes twice.
        missing: Texts that have yet to be embedded before another model can take over.
        months: Turns by month, ``2026-10``.
        sessions: Last turn of each conversation that was read, by ``seq``.
        seconds: Wall time.
        model_seconds: Wall time inside the model.
        warnings: What went wrong after the commit, or is worth knowing.
    """

    generation: int = 0
    digest: str = ""
    seq: int = 0
    committed: bool = False
    turns: int = 0
    retagged: int = 0
    passed_over: int = 0
    embedded: int = 0
    reused: int = 0
    missing: int = 0
    months: Mapping[str, int] = field(default_factory=dict)
    sessions: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    model_seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return the numbers as plain JSON values."""
        return {**asdict(self), "warnings": list(self.warnings)}
