"""Syncs in the background: one for each project, then its ingest, the same for every tab."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ragstream_app.output.synced import progress_line
from ragstream_app.page.jobs.background import BackgroundJob, Report
from ragstream_core.errors import Stopped
from ragstream_core.services.sync_project import sync_project

if TYPE_CHECKING:
    from ragstream_core.services.sync_project import ProjectSync
    from ragstream_core.wiring.workspace import Workspace

GO_ON = "press Sync to continue where it stopped"


class SyncJob(BackgroundJob["ProjectSync"]):
    """One sync of a project's addresses.

    Stopped, it keeps the whole files that came, and removes nothing.

    Args:
        workspace: The data root.
        project: Its name.
        then: Called if anything could be fetched, or nothing was new, unless it was stopped.
    """

    def __init__(self, workspace: Workspace, project: str, then: Callable[[], object]) -> None:
        super().__init__(
            f"sync {project}", self._sync, line="asking what there is", line_of=progress_line
        )
        self.project = project
        self._workspace, self._then = workspace, then

    def report(self, phase: str, done: int, total: int) -> None:
        """Take a report of the sync.

        Raises:
            Stopped: A person asked for the end.
        """
        self._end_if_stopped()
        super().report(phase, done, total)

    def _sync(self, report: Report) -> ProjectSync:
        """Sync, then ingest.

        Raises:
            RagstreamError: It was refused, failed or stopped.
        """
        done = sync_project(self._workspace, self.project, progress=report)
        self._end_if_stopped()
        if done.roots:
            self._then()
        return done

    def _end_if_stopped(self) -> None:
        if self.stopped:
            raise Stopped("you stopped the sync; what was fetched is kept", hint=GO_ON)


class SyncJobs:
    """The syncs of one process, one for each project."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._jobs: dict[str, SyncJob] = {}

    def of(self, project: str) -> SyncJob | None:
        """Return the newest sync of a project, running or ended; None if there was none."""
        with self._lock:
            return self._jobs.get(project)

    def start(self, workspace: Workspace, project: str, then: Callable[[], object]) -> SyncJob:
        """Sync a project; return the job that runs, the one that is at work already if there is.

        Args:
            workspace: The data root.
            project: Its name.
            then: As of `SyncJob`.
        """
        with self._lock:
            job = self._jobs.get(project)
            if job is None or not job.running:
                job = self._jobs[project] = SyncJob(workspace, project, then).start()
            return job
