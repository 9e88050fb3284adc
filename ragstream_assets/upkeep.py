"""Keeping Dagster's view true: runs of dead processes, generations it was not told of."""

import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ragstream_core.build.workspace import Workspace
from ragstream_core.stores.lock import process_start

if TYPE_CHECKING:
    from dagster import DagsterInstance

PROJECT_TAG = "ragstream/project"
PID_TAG = "ragstream/pid"
START_TAG = "ragstream/pid_start"
HOST_TAG = "ragstream/host"
SCANNED_RUNS = 100


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

    Runs of another host, or of a process whose start time is unknown, are left alone.
    """
    from dagster import DagsterRunStatus, RunsFilter

    unfinished = [
        DagsterRunStatus.NOT_STARTED,
        DagsterRunStatus.STARTING,
        DagsterRunStatus.STARTED,
        DagsterRunStatus.CANCELING,
    ]
    runs = instance.get_runs(RunsFilter(statuses=unfinished), limit=SCANNED_RUNS)
    stale = [run for run in runs if _gone(run.tags)]
    for run in stale:
        instance.report_run_failed(run, "The process that made this run is gone.")
    return [run.run_id for run in stale]


def tidy(instance: "DagsterInstance", workspace: Workspace, project: str) -> None:
    """Do what is due before a run; before an ingest, also make its project a partition.

    Raises:
        UnknownProject: There is no such folder.
    """
    mark_stale_runs(instance)
    if not project:
        return
    instance.add_dynamic_partitions("project", [project])
    report_missed_generation(instance, workspace, project)


def report_missed_generation(
    instance: "DagsterInstance", workspace: Workspace, project: str
) -> int:
    """Report a newest generation that was committed without Dagster; return it, else 0.

    Raises:
        UnknownProject: There is no such folder.
    """
    from dagster import AssetKey, AssetMaterialization, AssetRecordsFilter

    status = workspace.status(project)
    generation = int(status["generation"] or 0)
    if not generation:
        return 0
    key = AssetKey(["documents", "index"])
    found = instance.fetch_materializations(
        AssetRecordsFilter(asset_key=key, asset_partitions=[project]), limit=1
    ).records
    event = found[0].asset_materialization if found else None
    if event is not None and event.metadata["generation"].value == generation:
        return 0
    instance.report_runless_asset_event(
        AssetMaterialization(
            key,
            description="committed without Dagster",
            partition=project,
            metadata={"generation": generation, "digest": status["digest"] or "-"},
        )
    )
    return generation


def _gone(tags: Mapping[str, str]) -> bool:
    pid, start = tags.get(PID_TAG, ""), tags.get(START_TAG, "unknown")
    if tags.get(HOST_TAG) != socket.gethostname() or start == "unknown" or not pid.isdigit():
        return False
    return process_start(int(pid)) != start
