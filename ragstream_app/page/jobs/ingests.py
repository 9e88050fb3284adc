"""Ingests in the background: one for each project, the same for every tab."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ragstream_app.output.progress import AFTER_COMMIT, ReportRate
from ragstream_app.output.tables import after_text
from ragstream_app.page.jobs.background import BackgroundJob, Report
from ragstream_core.errors import Stopped
from ragstream_core.services.ingest import ingest

if TYPE_CHECKING:
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.wiring.workspace import Workspace

GO_ON = "Ingest Folder continues where it stopped: what was embedded is kept"
MAX_SKIPPED = 12
_COUNTED = ("new", "updated", "unchanged", "deleted", "skipped")


class IngestJob(BackgroundJob["IngestionStats"]):
    """One ingest of a project, repeated if it is asked for again meanwhile.

    Stopped, it commits nothing and keeps what was embedded.

    Args:
        workspace: The data root.
        project: Its name.
    """

    def __init__(self, workspace: Workspace, project: str) -> None:
        super().__init__(f"ingest {project}", self._ingest, line="starting")
        self.project = project
        self._workspace = workspace
        self._rate = ReportRate()
        self._lock, self._again, self._ending = threading.Lock(), False, False

    def repeat(self) -> bool:
        """Ask for one more ingest after this one; return False if it is too late for that."""
        with self._lock:
            self._again = not self._ending
            return self._again

    def report(self, phase: str, done: int, total: int) -> None:
        """Take a report of the ingest.

        Raises:
            Stopped: A person asked for the end, and nothing is committed yet.
        """
        if self.stopped and phase not in AFTER_COMMIT:
            raise Stopped("you stopped the ingest; the index is as it was", hint=GO_ON)
        self._line = self._rate.note(phase, done, total, now=time.monotonic())
        part = min(1.0, done / total) if total else 0.0
        self._fraction = max(self._fraction, part)  # a later phase counts anew: the bar stays

    def _ingest(self, report: Report) -> IngestionStats:
        """Ingest until nobody has asked for more; the last one counts.

        Raises:
            RagstreamError: It was refused, failed or stopped.
        """
        while True:
            try:
                stats = ingest(self._workspace, self.project, progress=report)
            except Exception:
                if not self._goes_on():
                    raise
            else:
                if not self._goes_on():
                    return stats

    def _goes_on(self) -> bool:
        """Whether one more ingest was asked for; if not, none can be any more."""
        with self._lock:
            again, self._again = self._again and not self.stopped, False
            self._ending = not again
            return again


class IngestJobs:
    """The ingests of one process, one for each project."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._jobs: dict[str, IngestJob] = {}

    def of(self, project: str) -> IngestJob | None:
        """Return the newest ingest of a project, running or ended; None if there was none."""
        with self._lock:
            return self._jobs.get(project)

    def start(self, workspace: Workspace, project: str) -> IngestJob:
        """Ingest a project; if that is going on, once more afterwards, for what came since.

        Returns:
            The job that runs.
        """
        with self._lock:
            job = self._jobs.get(project)
            if job is None or not job.repeat():
                # assigned only once it runs: one that never started would block the project
                job = self._jobs[project] = IngestJob(workspace, project).start()
            return job


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
