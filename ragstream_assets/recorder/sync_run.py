"""Syncs a project's addresses for people, and records what came of it as a Dagster run.

A sync waits for other machines, and two runs of a process exclude each other: so the run is written
of what was fetched, once that is over, and holds up no prompt meanwhile.
"""

from dataclasses import dataclass

from ragstream_assets.reconcile import PROJECT_TAG
from ragstream_assets.recorder import runs
from ragstream_assets.recorder.chain_run import UNRECORDED
from ragstream_assets.recorder.recorder import WAIT_S, is_on
from ragstream_assets.recorder.writer import Recording
from ragstream_assets.run_here import one_run
from ragstream_assets.run_outcomes import RunOutcome
from ragstream_core.errors import RagstreamError
from ragstream_core.ports import PhaseProgress
from ragstream_core.services.sync_project import (
    ProjectSync,
    SyncRequest,
    addresses,
    sync_project,
)
from ragstream_core.wiring.workspace import Workspace

STEP = "remote__mirror"


@dataclass(frozen=True, slots=True)
class RecordedSync:
    """A sync and its run.

    Attributes:
        done: What was fetched.
        run_id: The Dagster run, empty if there is none.
        warning: Why there is none if there should be one; else empty.
    """

    done: ProjectSync
    run_id: str = ""
    warning: str = ""


def record_sync(
    workspace: Workspace,
    project: str,
    request: SyncRequest | None = None,
    *,
    record: bool = True,
    progress: PhaseProgress | None = None,
) -> RecordedSync:
    """Sync a project; a run is written if a document came or went, or could not be had.

    Args:
        workspace: The data root.
        project: Its name.
        request: Which addresses, and how.
        record: False leaves no run behind, whatever the settings say.
        progress: As of `sync_project`.

    Raises:
        RagstreamError: As `sync_project`. A place that refused or failed has a failed
            run, and so has a sync that was stopped.
    """
    request = request or SyncRequest()
    has_address = bool(addresses(workspace, project))
    wanted = record and is_on(workspace) and has_address and not request.dry_run
    left = RunOutcome(has_run=True)
    try:
        left.synced = sync_project(workspace, project, request, progress=progress)
    except RagstreamError as error:
        left.error = error
        if wanted:
            _write(workspace, project, request, left)
        raise
    done = left.synced
    if not wanted or (done.is_complete and not done.is_changed):
        return RecordedSync(done)
    run_id, problem = _write(workspace, project, request, left)
    return RecordedSync(done, run_id, f"{UNRECORDED}{problem}" if problem else "")


def _write(
    workspace: Workspace, project: str, request: SyncRequest, left: RunOutcome
) -> tuple[str, str]:
    """Write the run of a sync that is over; return its id, or why there is none."""
    given = {"empty_ok": request.empty_ok, "labels": list(request.labels)}
    tags = {"dagster/partition": project, PROJECT_TAG: project, "ragstream/mode": "sync"}
    recording = Recording("sync_documents", tags=tags, steps=[STEP])
    if not one_run.acquire(timeout=WAIT_S):
        return "", f"another run has been busy for {WAIT_S:.0f} s"
    try:
        problem = runs.execute(workspace, recording, lambda: {STEP: given}, left)
    finally:
        one_run.release()
    return ("", problem) if problem else (recording.run_id, "")
