"""`IngestionManager`: the one way documents get into an index (R-084…R-088).

The order is fixed: lock, scan, read once, diff by content hash, embed what is new, verify, commit
in one transaction; only then what is derived. Nothing is marked before it is stored and nothing
old goes before the new is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.ingestion.index_store import (
    Fingerprints,
    OpenStore,
)
from ragstream_core.ingestion.ingestion_config import PARSERS_VERSION, IngestionConfig
from ragstream_core.ingestion.loader import DocumentLoader
from ragstream_core.ingestion.one_ingest import Ingest, stats_of
from ragstream_core.ingestion.parsers.limited import kept_engines
from ragstream_core.ingestion.quality_gate import QualityGate
from ragstream_core.ingestion.reading import Reading
from ragstream_core.ingestion.scan import require_folder
from ragstream_core.ingestion.staging import DocumentChunker, PhaseProgress, Stager
from ragstream_core.ingestion.stats import IngestionStats
from ragstream_core.records.identity import digest_of

if TYPE_CHECKING:
    from ragstream_core.ports import Embedder

_PROGRESS_EVERY_S = 0.25


def index_fingerprint(embed_fp: str, chunker_version: str, parsers: str = PARSERS_VERSION) -> str:
    """Return the digest of everything but the documents that shapes an index's rows."""
    return digest_of({"embed_fp": embed_fp, "chunker": chunker_version, "parsers": parsers})


def reading_of(config: IngestionConfig) -> Reading:
    """Return how an ingest reads files."""
    return Reading(
        max_text_bytes=config.max_text_bytes,
        max_parsed_bytes=config.max_parsed_bytes,
        fallback_encoding=config.fallback_encoding,
        secrets=config.secrets,
    )


class IngestionManager:
    """Brings a project's index up to its folder.

    Args:
        doc_root: Folder of all projects' documents.
        open_store: Opens a project's storage and holds its lock.
        embedder: Makes the vectors.
        chunkers: Returns the chunker of a profile name.
        progress: Called with (phase, done, total), a few times a second; phases ``read``,
            ``embed``, ``verify``, ``commit``, ``publish``.
        gate: Judges a generation before it is committed; default: none.
        clock: Now, ns since the epoch.
    """

    def __init__(
        self,
        doc_root: Path,
        open_store: OpenStore,
        *,
        embedder: Embedder,
        chunkers: Callable[[str], DocumentChunker],
        progress: PhaseProgress | None = None,
        gate: QualityGate | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._doc_root = doc_root
        self._open_store = open_store
        self._embedder = embedder
        self._chunkers = chunkers
        self._progress = _throttled(progress)
        self._gate = gate
        self._clock = clock

    def run(self, project_name: str, config: IngestionConfig) -> IngestionStats:
        """Ingest one project.

        Args:
            project_name: Name of its folder below ``doc_root``.
            config: Settings.

        Returns:
            What was done; ``committed`` is false where no content changed, or where ``refused``
            says why the quality gate kept the old generation.

        Raises:
            UnknownProject: There is no such folder.
            UnknownSetting: There is no such chunk profile.
            ProjectLocked: Another process writes this project.
            ModelMismatch: The store was built by another model and ``rebuild`` is off.
            IntegrityError: The store is damaged.
            EmbeddingFailed: The model returned something unusable; the files stay pending.
            OperationFailed: Disk full; what was embedded so far is kept.
        """
        began = time.perf_counter()
        chunker = self._chunkers(config.profile)
        loader = DocumentLoader(
            self._doc_root,
            "" if config.flat else project_name,
            rules=config.rules,
            reading=reading_of(config),
            clock=self._clock,
        )
        require_folder(loader.folder)  # an unknown project leaves no index folder behind
        with self._open_store(project_name, rebuild=config.rebuild) as store:
            stager = Stager(store, self._embedder, chunker=chunker, progress=self._progress)
            task = Ingest(
                project_name,
                store,
                loader,
                config=config,
                stager=stager,
                fingerprints=Fingerprints(
                    index_fingerprint(self._embedder.fingerprint, chunker.version, config.parsers),
                    self._embedder.fingerprint,
                ),
                progress=self._progress,
                gate=self._gate,
            )
            with kept_engines():
                outcome = task.run(self._clock())
        stats = stats_of(
            project_name,
            outcome,
            stager=stager,
            dimension=self._embedder.dimension,
            seconds=time.perf_counter() - began,
        )
        device = str(getattr(self._embedder, "device", ""))
        return replace(stats, model=self._embedder.name, device=device)


def _throttled(progress: PhaseProgress | None) -> PhaseProgress:
    """Call ``progress`` a few times a second at most, and for every new phase."""
    last_phase, last_time = "", 0.0

    def report(phase: str, done: int, total: int) -> None:
        nonlocal last_phase, last_time
        now = time.monotonic()
        due = phase != last_phase or done == total or now - last_time >= _PROGRESS_EVERY_S
        if progress is not None and due:
            last_phase, last_time = phase, now
            progress(phase, done, total)

    return report
