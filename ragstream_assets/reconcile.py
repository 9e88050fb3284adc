"""Keeping Dagster's view true: runs of dead processes, generations it was not told of."""

import os
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ragstream_core.platform.locks import pid_namespace, process_start
from ragstream_core.wiring.workspace import Workspace

if TYPE_CHECKING:
    from dagster import AssetMaterialization, DagsterInstance, RunRecord

    from ragstream_core.index.rows import Generation

PROJECT_TAG = "ragstream/project"
PID_TAG = ".dagster/ragstream_pid"
START_TAG = ".dagster/ragstream_pid_start"
HOST_TAG = ".dagster/ragstream_host"
SPACE_TAG = ".dagster/ragstream_pid_space"
"""Of the process that makes a run; Dagster's pages show no tag that begins so."""
_BEFORE = {PID_TAG: "ragstream/pid", START_TAG: "ragstream/pid_start", HOST_TAG: "ragstream/host"}
"""Their names of before, which older runs still have; of the namespace those say nothing."""
SCANNED_RUNS = 100
NAMING_S = 120.0
"""How long a run that is repeated in Dagster's pages may have begun before it names its process."""
INDEX_KEY = ("documents", "index")


def process_tags() -> dict[str, str]:
    """Return the tags that name this process for good: pid, start time, host, pid namespace."""
    pid = os.getpid()
    return {
        PID_TAG: str(pid),
        START_TAG: process_start(pid) or "unknown",
        HOST_TAG: socket.gethostname(),
        SPACE_TAG: pid_namespace(),
    }


def mark_stale_runs(instance: "DagsterInstance") -> list[str]:
    """Fail the unfinished runs whose process is gone; return their ids.

    Runs of another host or container, or of a process whose start time is unknown, are left alone;
    so are runs that are being launched or have just begun, if they carry the names of the run that
    they repeat.
    """
    from dagster import DagsterRunStatus, RunsFilter

    unfinished = [
        DagsterRunStatus.NOT_STARTED,
        DagsterRunStatus.STARTED,
        DagsterRunStatus.CANCELING,
    ]
    stale: list[str] = []
    for run in instance.get_runs(RunsFilter(statuses=unfinished), limit=SCANNED_RUNS):
        record = instance.get_run_record_by_id(run.run_id) if _gone(run.tags) else None
        # read again: a process that ended well has said so before it went
        if record is None or record.dagster_run.status not in unfinished:
            continue
        if _gone(record.dagster_run.tags) and not _just_begun(instance, record):
            instance.report_run_failed(run, "The process that made this run is gone.")
            stale.append(run.run_id)
    return stale


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


def _just_begun(instance: "DagsterInstance", record: "RunRecord") -> bool:
    """Whether a run that began lately carries the names of the run that it repeats."""
    if time.time() - (record.start_time or 0.0) > NAMING_S:
        return False
    run = record.dagster_run
    parent = instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    return parent is not None and _names(parent.tags) == _names(run.tags)


def _names(tags: Mapping[str, str]) -> list[str]:
    names = [tags.get(name, tags.get(_BEFORE[name], "")) for name in _BEFORE]
    return [*names, tags.get(SPACE_TAG, "")]


def _gone(tags: Mapping[str, str]) -> bool:
    pid, start, host, space = _names(tags)
    if host != socket.gethostname() or start in ("", "unknown") or not pid.isdigit():
        return False
    if space and space != pid_namespace():  # its pid says nothing here
        return False
    return process_start(int(pid)) != start
