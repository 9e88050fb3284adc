"""`IngestionManager`: the one way documents get into an index (R-084…R-088).

The order is fixed: lock, scan, read once, diff by content hash, embed what is new, verify, commit
in one transaction; only then what is derived. Nothing is marked before it is stored and nothing
old goes before the new is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import ModelMismatch, RagstreamError
from ragstream_core.ingestion.index_store import (
    Fingerprints,
    Generation,
    IndexStore,
    OpenStore,
    ScanStamp,
)
from ragstream_core.ingestion.ingestion_config import PARSERS_VERSION, IngestionConfig
from ragstream_core.ingestion.loader import DocumentLoader
from ragstream_core.ingestion.manifest import ManifestDiff, diff
from ragstream_core.ingestion.scan import Scan, require_folder, scan
from ragstream_core.ingestion.staging import DocumentChunker, PhaseProgress, Stager
from ragstream_core.ingestion.stats import IngestionStats
from ragstream_core.ingestion.survey import Depth, Recorded, Survey, Surveyor
from ragstream_core.records.identity import digest_of

if TYPE_CHECKING:
    from ragstream_core.ports import Embedder

_PROGRESS_EVERY_S = 0.25


def index_fingerprint(embed_fp: str, chunker_version: str) -> str:
    """Return the digest of everything but the documents that shapes an index's rows."""
    return digest_of({"embed_fp": embed_fp, "chunker": chunker_version, "parsers": PARSERS_VERSION})


class IngestionManager:
    """Brings a project's index up to its folder.

    Args:
        doc_root: Folder of all projects' documents.
        open_store: Opens a project's storage and holds its lock.
        embedder: Makes the vectors.
        chunkers: Returns the chunker of a profile name.
        progress: Called with (phase, done, total), a few times a second; phases ``read``,
            ``embed``, ``verify``, ``commit``, ``publish``.
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
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._doc_root = doc_root
        self._open_store = open_store
        self._embedder = embedder
        self._chunkers = chunkers
        self._progress = _throttled(progress)
        self._clock = clock

    def run(self, project_name: str, config: IngestionConfig) -> IngestionStats:
        """Ingest one project.

        Args:
            project_name: Name of its folder below ``doc_root``.
            config: Settings.

        Returns:
            What was done; ``committed`` is false where no content changed.

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
            max_text_bytes=config.max_text_bytes,
            clock=self._clock,
        )
        require_folder(loader.folder)  # an unknown project leaves no index folder behind
        with self._open_store(project_name, rebuild=config.rebuild) as store:
            stager = Stager(store, self._embedder, chunker=chunker, progress=self._progress)
            task = _Ingest(
                project_name,
                store,
                loader,
                config=config,
                stager=stager,
                fingerprints=Fingerprints(
                    index_fingerprint(self._embedder.fingerprint, chunker.version),
                    self._embedder.fingerprint,
                ),
                progress=self._progress,
            )
            outcome = task.run(self._clock())
        return _stats(
            project_name,
            outcome,
            stager=stager,
            dimension=self._embedder.dimension,
            seconds=time.perf_counter() - began,
        )


@dataclass(frozen=True, slots=True)
class _Outcome:
    found: Scan
    survey: Survey
    diff: ManifestDiff
    newest: Generation
    committed: bool
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class _Ingest:
    """One run, with its store open and locked."""

    project: str
    store: IndexStore
    loader: DocumentLoader
    config: IngestionConfig
    stager: Stager
    fingerprints: Fingerprints
    progress: PhaseProgress

    def run(self, started_ns: int) -> _Outcome:
        newest = self.store.latest()
        self._refuse_other_model(newest)
        found = scan(self.loader.folder, self.config.rules)
        last = self.store.last_scan()
        recorded = Recorded(self.store.live_files(), self.store.signatures(), last.started_ns)
        seen = Surveyor(
            self.loader,
            recorded,
            self._depth(newest, last),
            take=self.stager.add,
            progress=self.progress,
        ).survey(found)
        self.stager.finish()
        self.progress("verify", 0, self.stager.staged)
        thorough = self.config.verify or self.config.rebuild
        repaired = self.stager.verify(everything=thorough)
        stamp = ScanStamp(started_ns, self.config.scan_fp)
        made, committed = self._commit(newest, seen, stamp)
        warnings = [f"{repaired} damaged vectors were made anew"] if repaired else []
        rewrite = committed or bool(seen.change.touched)
        warnings += self._derive(found.refused + seen.held, rewrite=rewrite)
        return _Outcome(found, seen, diff(recorded.files, seen.current), made, committed, warnings)

    def _refuse_other_model(self, newest: Generation | None) -> None:
        wanted = self.fingerprints.embed_fp
        if newest is not None and newest.embed_fp != wanted and not self.config.rebuild:
            project = self.project
            raise ModelMismatch(
                f"the index of {project} was built by model {newest.embed_fp}, "
                f"the settings name {wanted}",
                hint=f"ragstream ingest {project} --rebuild",
            )

    def _depth(self, newest: Generation | None, last: ScanStamp) -> Depth:
        config = self.config
        other_rows = newest is None or newest.index_fp != self.fingerprints.index_fp
        return Depth(
            read_all=config.verify or last.scan_fp != config.scan_fp,
            chunk_all=config.rebuild or other_rows,
        )

    def _commit(
        self, newest: Generation | None, seen: Survey, stamp: ScanStamp
    ) -> tuple[Generation, bool]:
        self.progress("commit", 0, self.stager.staged)
        made = self.store.prepare(seen.change, self.fingerprints, provenance=self.config.provenance)
        if newest is not None and made.digest == newest.digest:
            self.store.note_scan(seen.change, stamp=stamp)
            return newest, False
        self.store.commit(made, seen.change, stamp=stamp)
        return made, True

    def _derive(self, refused: list[tuple[str, str]], *, rewrite: bool) -> list[str]:
        """Do what comes after the commit; a failure is reported and healed by the next run."""
        self.progress("publish", 0, 0)
        warnings = []
        try:
            self.store.retain(self.config.kept_generations)
        except (RagstreamError, OSError) as error:
            warnings.append(f"old generations were not dropped: {error}")
        try:
            self.store.publish(refused, rewrite_manifest=rewrite)
        except (RagstreamError, OSError) as error:
            warnings.append(f"derived files are behind: {error}")
        return warnings


def _stats(
    project: str, outcome: _Outcome, *, stager: Stager, dimension: int, seconds: float
) -> IngestionStats:
    found, seen, change = outcome.found, outcome.survey, outcome.diff
    classes = {
        "new": change.new,
        "updated": change.updated,
        "touched": change.touched,
        "deleted": change.deleted,
    }
    held = [row for row in seen.held if row not in change.skipped]
    unreadable = [(path or ".", reason) for path, reason in found.unreadable]
    files = {name: len(paths) for name, paths in classes.items()}
    files |= {"scanned": len(found.files), "unchanged": len(change.unchanged)}
    return IngestionStats(
        project,
        outcome.newest.n,
        committed=outcome.committed,
        files=files | {"skipped": len(change.skipped)},
        changed=classes,
        skipped_reasons=(*change.skipped, *held, *found.refused, *unreadable),
        chunks={
            "embedded": stager.embedded,
            "reused": stager.reused,
            "live": outcome.newest.counts.get("chunks", 0),
        },
        documents=outcome.newest.counts.get("files", 0),
        dimension=dimension,
        long_inputs=stager.long_inputs,
        seconds=seconds,
        warnings=(*outcome.warnings, *(f"{path}: {reason}" for path, reason in held)),
        digest=outcome.newest.digest,
    )


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
