"""One ingest between lock and release: scan, read once, diff, stage, verify, commit, derive.

Nothing is marked before it is stored and nothing old goes before the new is committed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from ragstream_core.errors import ModelMismatch, RagstreamError
from ragstream_core.ingestion.index_store import (
    EMBED_SECONDS,
    EMBEDDED,
    TRUNCATED,
    Fingerprints,
    Generation,
    IndexStore,
    ScanStamp,
)
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.loader import DocumentLoader
from ragstream_core.ingestion.manifest import ManifestDiff, diff
from ragstream_core.ingestion.quality_gate import QUALITY, QualityGate, Verdict
from ragstream_core.ingestion.scan import Scan, scan
from ragstream_core.ingestion.staging import PhaseProgress, Stager
from ragstream_core.ingestion.stats import IngestionStats
from ragstream_core.ingestion.survey import Depth, Recorded, Survey, Surveyor


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one ingest came to.

    Attributes:
        found: The scan.
        survey: What was read.
        diff: The manifest against the one before.
        newest: The newest generation afterwards; None where there is none.
        committed: Whether this ingest made it.
        warnings: What went wrong after the commit.
        verdict: What the quality gate said; None where it was not asked.
    """

    found: Scan
    survey: Survey
    diff: ManifestDiff
    newest: Generation | None
    committed: bool
    warnings: list[str]
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Ingest:
    """One ingest, with its store open and locked.

    Attributes:
        project: Project name.
        store: The project's storage.
        loader: Reads files.
        config: Settings.
        stager: Embeds and stages chunks.
        fingerprints: What the rows are made with.
        progress: Called with (phase, done, total).
        gate: Judges a new generation before it is committed.
    """

    project: str
    store: IndexStore
    loader: DocumentLoader
    config: IngestionConfig
    stager: Stager
    fingerprints: Fingerprints
    progress: PhaseProgress
    gate: QualityGate | None = None

    def run(self, started_ns: int) -> Outcome:
        """Do it, in the order that is law.

        Args:
            started_ns: Now, ns since the epoch: the scan begins no earlier.

        Raises:
            ModelMismatch: The store was built by another model and ``rebuild`` is off.
            RagstreamError: Staging, verification or the commit failed; nothing was committed.
        """
        newest = self.store.latest()
        self._refuse_other_model(newest)
        found = scan(self.loader.folder, self.config.rules)
        last = self.store.last_scan()
        recorded = Recorded(self.store.live_files(), self.store.signatures(), last.started_ns)
        again = self.store.damaged_texts() if self.config.verify else ()
        seen = Surveyor(
            self.loader,
            recorded,
            self._depth(newest, last, again),
            take=self.stager.add,
            progress=self.progress,
        ).survey(found)
        self.stager.finish()
        self.progress("verify", 0, self.stager.staged)
        thorough = self.config.verify or self.config.rebuild
        repaired = self.stager.verify(everything=thorough)
        stamp = ScanStamp(started_ns, self.config.scan_fp)
        made, committed, verdict = self._commit(newest, seen, stamp)
        warnings = list(self.store.notes)
        warnings += [f"{path}: damaged texts were read again" for path in sorted(again)]
        warnings += [f"{repaired} damaged vectors were made again"] if repaired else []
        warnings += [f"{path}: possible secret: {place}" for path, place in seen.secrets]
        rewrite = committed or bool(seen.change.touched or seen.change.opened)
        warnings += self._derive(found.refused + seen.held, rewrite=rewrite)
        if thorough and made is not None and made.embed_fp == self.fingerprints.embed_fp:
            warnings += self._mend_rest()
        changed = diff(recorded.files, seen.current)
        return Outcome(found, seen, changed, made, committed, warnings, verdict)

    def _refuse_other_model(self, newest: Generation | None) -> None:
        wanted = self.fingerprints.embed_fp
        if newest is not None and newest.embed_fp != wanted and not self.config.rebuild:
            project = self.project
            raise ModelMismatch(
                f"the index of {project} was built by model {newest.embed_fp[:12]}, "
                f"the settings name {wanted[:12]}",
                hint=f"ragstream ingest {project} --rebuild",
            )

    def _depth(self, newest: Generation | None, last: ScanStamp, again: Collection[str]) -> Depth:
        config = self.config
        other_rows = newest is None or newest.index_fp != self.fingerprints.index_fp
        return Depth(
            read_all=config.verify or last.scan_fp != config.scan_fp,
            chunk_all=config.rebuild or other_rows,
            chunk=frozenset(again),
        )

    def _cut_before(self, newest: Generation | None) -> int:
        """How many texts were cut for the generations this one stands on."""
        if newest is None or self.config.rebuild:
            return 0
        return int(newest.provenance.get(TRUNCATED, 0))

    def _commit(
        self, newest: Generation | None, seen: Survey, stamp: ScanStamp
    ) -> tuple[Generation | None, bool, Verdict | None]:
        self.progress("commit", 0, self.stager.staged)
        provenance = {
            **self.config.provenance,
            TRUNCATED: str(self._cut_before(newest) + self.stager.truncated_inputs),
            EMBEDDED: str(self.stager.embedded),
            EMBED_SECONDS: f"{self.stager.seconds:.3f}",
        }
        made = self.store.prepare(seen.change, self.fingerprints, provenance=provenance)
        if newest is not None and made.digest == newest.digest:
            self.store.note_scan(seen.change, stamp=stamp)
            return newest, False, None
        verdict = self.gate.judge(self.store.candidate(made), newest) if self.gate else None
        if verdict is not None:
            if verdict.refused:  # nothing is noted: the next ingest looks at the same files again
                return newest, False, verdict
            figures = verdict.figures.to_json()
            made = replace(made, provenance={**made.provenance, QUALITY: figures})
        self.store.commit(made, seen.change, stamp=stamp)
        return made, True, verdict

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
            warnings.append(f"derived files are out of date: {error}")
        return warnings

    def _mend_rest(self) -> list[str]:
        try:
            return self.store.mend_rest(self.fingerprints.embed_fp)
        except (RagstreamError, OSError) as error:
            return [f"not everything could be checked: {error}"]


def stats_of(
    project: str, outcome: Outcome, *, stager: Stager, dimension: int, seconds: float
) -> IngestionStats:
    """Return the numbers of one ingest."""
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
    newest, verdict = outcome.newest, outcome.verdict
    counts = newest.counts if newest else {}
    return IngestionStats(
        project,
        newest.n if newest else 0,
        committed=outcome.committed,
        files=files | {"skipped": len(change.skipped)},
        changed=classes,
        skipped_reasons=(*change.skipped, *held, *found.refused, *unreadable),
        chunks={
            "embedded": stager.embedded,
            "reused": stager.reused,
            "live": counts.get("chunks", 0),
        },
        documents=counts.get("files", 0),
        dimension=dimension,
        long_inputs=stager.long_inputs,
        truncated_inputs=stager.truncated_inputs,
        seconds=seconds,
        model_seconds=stager.seconds,
        warnings=(
            *outcome.warnings,
            *(f"{path}: {reason}" for path, reason in held),
            *(verdict.worse if verdict else ()),
        ),
        digest=newest.digest if newest else "",
        refused=verdict.refused if verdict else "",
        quality=_quality(verdict),
    )


def _quality(verdict: Verdict | None) -> dict[str, Any]:
    if verdict is None:
        return {}
    before = verdict.before.to_json() if verdict.before else None
    return {**verdict.figures.to_json(), "before": before}
