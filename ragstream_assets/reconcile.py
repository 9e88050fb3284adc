"""Keeping Dagster's view true: runs of dead processes, generations it was not told of."""

import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ragstream_core.platform.locks import process_start
from ragstream_core.wiring.workspace import Workspace

if TYPE_CHECKING:
    from dagster import AssetMaterialization, DagsterInstance

    from ragstream_core.index.rows import Generation

PROJECT_TAG = "ragstream/project"
PID_TAG = ".dagster/ragstream_pid"
START_TAG = ".dagster/ragstream_pid_start"
HOST_TAG = ".dagster/ragstream_host"
"""Of the process that makes a run; Dagster's pages show no tag that begins so."""
_BEFORE = {PID_TAG: "ragstream/pid", START_TAG: "ragstream/pid_start", HOST_TAG: "ragstream/host"}
"""Their names of before, which older runs still have."""
SCANNED_RUNS = 100
INDEX_KEY = ("documents", "index")


def process_tags() -> dict[str, str]:
    """Return the tags that name this process for good: pid, start time and host."""
    pid = os.getpid()
    return {
        PID_TAG: str(pid),
        START_TAG: process_start(pid) or "unknown",
        HOST_TAG: socket.gethostname(),
    }


def mark_stale_runs(instance: "DagsterInstance") -> list[str]:
    """Fail the unfinished runs whose process is gone; return their ids.

    Runs of another host, or of a process whose start time is unknown, are left alone; so are runs
    that are being launched, which may still carry the names of a run before them.
    """
    from dagster import DagsterRunStatus, RunsFilter

    unfinished = [
        DagsterRunStatus.NOT_STARTED,
        DagsterRunStatus.STARTED,
        DagsterRunStatus.CANCELING,
    ]
    runs = instance.get_runs(RunsFilter(statuses=unfinished), limit=SCANNED_RUNS)
    stale = [run for run in runs if _gone(run.tags)]
    for run in stale:
        instance.report_run_failed(run, "The process that made this run is gone.")
    return [run.run_id for run in stale]


def tidy(instance: "DagsterInstance", workspace: Workspace, project: str) -> None:
    """Do what is due before a run; before an ingest, also make its project a partition."""
    mark_stale_runs(instance)
    if not project:
        return
    instance.add_dynamic_partitions("project", [project])
    report_missed_generations(instance, workspace, project)


def report_missed_generations(
    instance: "DagsterInstance", workspace: Workspace, project: str
) -> list[int]:
    """Report every kept generation that was committed without Dagster since the last it knows.

    Returns:
        Their numbers, in the order of the reports: oldest first.
    """
    from ragstream_core.services import generations

    number, digest = _last_reported(instance, project)
    missed = generations.generations_since(workspace, project, number, digest=digest)
    for generation in missed:
        instance.report_runless_asset_event(_materialization(project, generation))
    return [generation.n for generation in missed]


def _last_reported(instance: "DagsterInstance", project: str) -> tuple[int, str]:
    from dagster import AssetKey, AssetRecordsFilter

    wanted = AssetRecordsFilter(AssetKey(INDEX_KEY), asset_partitions=[project])
    for record in instance.fetch_materializations(wanted, limit=1).records:
        if record.asset_materialization is not None:
            metadata = record.asset_materialization.metadata
            return int(str(metadata["generation"].value)), str(metadata["digest"].value)
    return 0, ""


def _materialization(project: str, generation: "Generation") -> "AssetMaterialization":
    from dagster import AssetKey, AssetMaterialization

    return AssetMaterialization(
        AssetKey(INDEX_KEY),
        description=f"committed without Dagster, {generation.created}",
        partition=project,
        metadata={
            "generation": generation.n,
            "committed": True,
            "documents": generation.counts.get("files", 0),
            "chunks": generation.counts.get("chunks", 0),
            "digest": generation.digest,
        },
        tags={"dagster/data_version": generation.digest},
    )


def _gone(tags: Mapping[str, str]) -> bool:
    pid, start, host = (tags.get(name, tags.get(_BEFORE[name], "")) for name in _BEFORE)
    if host != socket.gethostname() or start in ("", "unknown") or not pid.isdigit():
        return False
    return process_start(int(pid)) != start
