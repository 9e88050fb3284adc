"""The folder sensor: looks at all projects, requests an ingest where a folder changed."""

import time
from collections.abc import Sequence

import dagster as dg

from ragstream_assets.documents import INGEST_JOB, ingest_documents, projects
from ragstream_assets.folder_state import (
    Attempts,
    folder_digest,
    read_cursor,
    write_cursor,
)
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.upkeep import PROJECT_TAG, mark_stale_runs
from ragstream_core.build.workspace import Workspace
from ragstream_core.errors import RagstreamError

STATE_TAG = "ragstream/folder_state"
INTERVAL_S = 30
MOST_REQUESTS = 5
LOOK_BACK = 50
NONE = Attempts(ended=0, failures=0, last_end=0.0)


@dg.sensor(
    job=ingest_documents,
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks at every project's folder and requests an ingest if files changed.",
)
def folder_sensor(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.SensorResult:
    """Request an ingest of each project whose folder changed, new folders included."""
    return tick(workspace.open(), context.instance, context.cursor)


def tick(workspace: Workspace, instance: dg.DagsterInstance, cursor: str | None) -> dg.SensorResult:
    """Look once; at most five requests, the rest stay for the next tick.

    Runs of dead processes are closed first: an open one would keep its project from being ingested.
    """
    mark_stale_runs(instance)
    seen, names = read_cursor(cursor), workspace.projects()
    failed = failed_states(instance)
    after: dict[str, str] = {}
    requests: list[dg.RunRequest] = []
    for name in names:
        digest = folder_digest(workspace, name)
        state, known = f"{name}:{digest}", seen.get(name, "")
        tried = attempts(instance, state) if state in failed or digest != known else NONE
        wanted = tried.due(time.time()) if digest == known else behind(workspace, name)
        if wanted and len(requests) < MOST_REQUESTS:
            requests.append(_request(name, state, tried))
            after[name] = digest
        else:
            after[name] = known if wanted else digest
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else dg.SkipReason(_idle(workspace, len(names))),
        cursor=write_cursor(after),
        dynamic_partitions_requests=_new_partitions(instance, names),
    )


def _idle(workspace: Workspace, projects: int) -> str:
    unfit = [f"{name} is not a project: {reason}" for name, reason in workspace.unfit_folders()]
    return "; ".join([f"no folder changed, of {projects}", *unfit])


def behind(workspace: Workspace, project: str) -> bool:
    """Whether an ingest has anything to do, or to complain of."""
    try:
        return workspace.unchanged(project) is None
    except RagstreamError:
        return True


def failed_states(instance: dg.DagsterInstance) -> set[str]:
    """Return the folder states whose runs failed lately."""
    runs = instance.get_runs(
        dg.RunsFilter(job_name=INGEST_JOB, statuses=[dg.DagsterRunStatus.FAILURE]), limit=LOOK_BACK
    )
    return {run.tags[STATE_TAG] for run in runs if STATE_TAG in run.tags}


def _request(project: str, state: str, tried: Attempts) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=f"{state}:{tried.ended + 1}",
        partition_key=project,
        tags={PROJECT_TAG: project, STATE_TAG: state},
    )


def attempts(instance: dg.DagsterInstance, state: str) -> Attempts:
    """Count the finished runs for one state of a folder."""
    records = instance.get_run_records(dg.RunsFilter(tags={STATE_TAG: state}), limit=LOOK_BACK)
    ended = [r for r in records if r.dagster_run.is_finished]
    failures = 0
    for record in ended:
        if record.dagster_run.status is not dg.DagsterRunStatus.FAILURE:
            break
        failures += 1
    last_end = max((r.end_time or r.update_timestamp.timestamp() for r in ended), default=0.0)
    return Attempts(len(ended), failures, last_end)


def _new_partitions(
    instance: dg.DagsterInstance, names: Sequence[str]
) -> list[dg.AddDynamicPartitionsRequest]:
    known = set(instance.get_dynamic_partitions("project"))
    new = [name for name in names if name not in known]
    return [projects.build_add_request(new)] if new else []
