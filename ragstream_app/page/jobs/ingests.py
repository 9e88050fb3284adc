"""Ingests in the background of the page: one a project, attachable from any tab after any rerun."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_app.output.progress import AFTER_COMMIT, ReportRate
from ragstream_app.output.tables import after_text
from ragstream_app.session import describe
from ragstream_core.errors import Stopped

if TYPE_CHECKING:
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.wiring.workspace import Workspace

GO_ON = "Ingest Folder continues where it stopped: what was embedded is kept"
MAX_SKIPPED = 12
_COUNTED = ("new", "updated", "unchanged", "deleted", "skipped")


@dataclass(slots=True)
class IngestJob:
    """One ingest of a project; written by its thread, read by any other.

    Attributes:
        project: Its name.
        line: Where it is, for people.
        fraction: Done share of the present phase, 0 to 1; 0 where it is not known.
        stats: What it did, once it has.
        run_id: The Dagster run, empty where there is none.
        problem: Why it failed, as `describe` says it; empty where it did not.
        done: Set at its end.
        stop: Set by whoever wants its end: nothing is committed, what was embedded is kept.
    """

    project: str
    line: str = "starting"
    fraction: float = 0.0
    stats: IngestionStats | None = None
    run_id: str = ""
    problem: dict[str, str] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    _pace: ReportRate = field(default_factory=ReportRate)

    def report(self, phase: str, done: int, total: int) -> None:
        """Take a report of the ingest: an `IngestProgress`.

        Raises:
            Stopped: A person asked for its end, and nothing is committed yet.
        """
        if self.stop.is_set() and phase not in AFTER_COMMIT:
            raise Stopped("you stopped the ingest; the index is as it was", hint=GO_ON)
        self.line = self._pace.note(phase, done, total, now=time.monotonic())
        part = min(1.0, done / total) if total else 0.0
        self.fraction = max(self.fraction, part)  # a later phase counts anew: the bar stays


class IngestJobs:
    """The ingests of one process."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._jobs: dict[str, IngestJob] = {}
        self._again: set[str] = set()

    def of(self, project: str) -> IngestJob | None:
        """Return the newest ingest of a project, running or done; None where there was none."""
        with self._lock:
            return self._jobs.get(project)

    def start(self, workspace: Workspace, project: str) -> IngestJob:
        """Ingest a project; where that is going on, once more afterwards, for what came since.

        Returns:
            The job that runs.
        """
        with self._lock:
            running = self._jobs.get(project)
            if running is not None and not running.done.is_set():
                self._again.add(project)
                return running
            job = IngestJob(project)
            threading.Thread(
                target=self._work, args=(workspace, job), name=f"ingest {project}", daemon=True
            ).start()
            self._jobs[project] = job  # not before: one that never started would run for ever
        return job

    def _work(self, workspace: Workspace, job: IngestJob) -> None:
        while True:
            _ingest(workspace, job)
            with self._lock:
                if job.stop.is_set():
                    self._again.discard(job.project)
                if job.project not in self._again:
                    job.done.set()
                    return
                self._again.remove(job.project)


def summary(stats: IngestionStats) -> list[str]:
    """Return what an ingest did in a few lines, in the command line's words."""
    counts = " · ".join(f"{kind} {stats.files.get(kind, 0):,}" for kind in _COUNTED)
    done = "committed" if stats.committed else "nothing to commit; the newest is"
    if stats.refused:
        done = f"refused by the quality gate: {stats.refused}; the newest stays"
    chunks = stats.chunks
    lines = [
        counts,
        f"chunks: embedded {chunks.get('embedded', 0):,} · reused {chunks.get('reused', 0):,} · "
        f"live {chunks.get('live', 0):,}",
        f"{done} generation {stats.generation} in {stats.seconds:.2f} s{after_text(stats)}",
    ]
    lines += [f"skipped: {path}: {reason}" for path, reason in stats.skipped_reasons[:MAX_SKIPPED]]
    more = len(stats.skipped_reasons) - MAX_SKIPPED
    lines += [f"skipped: {more:,} more"] if more > 0 else []
    return [*lines, *(f"warning: {warning}" for warning in stats.warnings)]


def _ingest(workspace: Workspace, job: IngestJob) -> None:
    """Ingest once; whatever goes wrong is the job's problem, never the thread's."""
    try:
        if workspace.config.settings.dagster.record == "none":
            unchanged = workspace.unchanged(job.project)
            job.stats = unchanged or workspace.ingest(job.project, progress=job.report)
        else:
            from ragstream_assets.recorder.recorder import record_ingest

            job.stats, job.run_id = record_ingest(workspace, job.project, progress=job.report)
        job.problem = {}
    except BaseException as error:  # the page's error boundary; a job must end
        job.problem = describe(error)
