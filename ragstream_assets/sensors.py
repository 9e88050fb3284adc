"""The sensors: a folder that changed is ingested, a journal that grew is embedded.

They only detect. What there is to do is decided by comparing contents and by the catalog's mark,
so a lost cursor costs one superfluous look, and no work is done twice.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from ragstream_assets.document_assets import INGEST_JOB, ingest_documents, projects
from ragstream_assets.history_assets import PUBLISH_OP, SEAL_OP, embed_history
from ragstream_assets.reconcile import PROJECT_TAG, mark_stale_runs
from ragstream_assets.resources import WorkspaceResource
from ragstream_core.conversations.journal.records import HISTORY, Position
from ragstream_core.errors import InputUnavailable, RagstreamError, UsageError
from ragstream_core.records.identity import digest_of
from ragstream_core.services import history_update
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.workspace import Workspace

CURSOR_VERSION = 1
DIGEST_DIGITS = 16
FIRST_RETRY_S = 30.0
ROUNDING_S = 1e-3
LONGEST_RETRY_S = 3600.0


def folder_digest(workspace: Workspace, project: str) -> str:
    """Return the digest of a project's sorted (path, size, mtime_ns, ctime_ns), 16 hex digits.

    The time of change tells a file that was replaced by one of the same size and time, as `rsync
    -t` and a restored backup do. A folder that has just gone has the digest of an empty one, and so
    has a project that cannot be read: its ingest says why.
    """
    try:
        files = workspace.documents(project).scan().files
    except UsageError:
        files = {}
    rows: list[Any] = sorted((path, *sig[:3]) for path, sig in files.items())
    return digest_of(rows)[:DIGEST_DIGITS]


def read_cursor(text: str | None) -> dict[str, str]:
    """Return the digest last dealt with by project; nothing for another version or damage."""
    try:
        data = json.loads(text or "")
        seen = data["projects"] if data["v"] == CURSOR_VERSION else {}
        return {str(project): str(digest) for project, digest in seen.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_cursor(seen: Mapping[str, str]) -> str:
    """Return the sensor's memory as text."""
    return json.dumps({"v": CURSOR_VERSION, "projects": dict(sorted(seen.items()))})


@dataclass(frozen=True, slots=True)
class FinishedRuns:
    """The finished runs for one state of a folder.

    Attributes:
        ended: How many there are, of the last `LOOK_BACK`.
        failures: How many of them failed in a row, newest first.
        last_end: When the newest ended, seconds since the epoch.
        newest: Id of the newest; empty if there is none.
    """

    ended: int
    failures: int
    last_end: float
    newest: str = ""

    def key(self, state: str) -> str:
        """Return the key of the next run for a state: it names the run that it comes after.

        A number would come twice, since old runs are not counted and their records end.
        """
        return f"{state}:{self.newest or 'first'}"

    def due(self, now: float) -> bool:
        """Whether a failed state is to be tried again: after 30 s, then twice as long each time.

        A run that ended in the future was timed by a clock that has been put back since; times are
        kept to the microsecond, rounded.
        """
        pause = min(FIRST_RETRY_S * 2 ** max(self.failures - 1, 0), LONGEST_RETRY_S)
        return self.failures > 0 and not -ROUNDING_S <= now - self.last_end < pause


STATE_TAG = "ragstream/folder_state"
INTERVAL_S = 30
MOST_REQUESTS = 5
LOOK_BACK = 50
NONE = FinishedRuns(ended=0, failures=0, last_end=0.0)


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
    mark_stale_runs(instance, workspace.config)
    seen, names = read_cursor(cursor), workspace.own_projects()
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
        return ingestion.unchanged(workspace, project) is None
    except InputUnavailable:  # its folders are not there; when they come back that is a change
        return False
    except RagstreamError:
        return True


def failed_states(instance: dg.DagsterInstance) -> set[str]:
    """Return the folder states whose runs failed lately."""
    runs = instance.get_runs(
        dg.RunsFilter(job_name=INGEST_JOB, statuses=[dg.DagsterRunStatus.FAILURE]), limit=LOOK_BACK
    )
    return {run.tags[STATE_TAG] for run in runs if STATE_TAG in run.tags}


def _request(
    project: str, state: str, tried: FinishedRuns, ops: Mapping[str, object] | None = None
) -> dg.RunRequest:
    """Request a run for one state; the next attempt has another key, so it is no duplicate."""
    return dg.RunRequest(
        run_key=tried.key(state),
        partition_key=None if project == HISTORY else project,
        run_config={"ops": {op: {"config": given} for op, given in ops.items()}} if ops else None,
        tags={PROJECT_TAG: project, STATE_TAG: state},
    )


def attempts(instance: dg.DagsterInstance, state: str) -> FinishedRuns:
    """Count the finished runs for one state of a folder."""
    records = instance.get_run_records(dg.RunsFilter(tags={STATE_TAG: state}), limit=LOOK_BACK)
    ended = [r for r in records if r.dagster_run.is_finished]
    failures = 0
    for record in ended:
        if record.dagster_run.status is not dg.DagsterRunStatus.FAILURE:
            break
        failures += 1
    last_end = max((r.end_time or r.update_timestamp.timestamp() for r in ended), default=0.0)
    newest = ended[0].dagster_run.run_id if ended else ""
    return FinishedRuns(len(ended), failures, last_end, newest)


def _new_partitions(
    instance: dg.DagsterInstance, names: Sequence[str]
) -> list[dg.AddDynamicPartitionsRequest]:
    known = set(instance.get_dynamic_partitions("project"))
    new = [name for name in names if name not in known]
    return [projects.build_add_request(new)] if new else []


REST_S = 600
"""A conversation does not have the whole collection copied and verified at every turn."""
OTHER_MODEL = "the settings name another model: a backfill or the nightly run embeds for it"
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


@dg.sensor(
    job=embed_history,
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks at the end of the journal and embeds the turns that were added.",
)
def journal_sensor(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.SensorResult:
    """Request a run if turns were added behind the mark."""
    return history_tick(workspace.open(), context.instance, context.cursor)


def history_tick(
    workspace: Workspace, instance: dg.DagsterInstance, cursor: str | None
) -> dg.SensorResult:
    """Look once; reads the end of the journal, and the catalog's mark if that moved."""
    if reason := history_update.idle(workspace):
        return dg.SensorResult(skip_reason=reason, cursor=cursor)
    newest = history_update.newest(workspace)
    seen = tail_cursor(workspace, newest)
    state = f"{HISTORY}:{newest.chain}"
    tried = attempts(instance, state)
    wanted = tried.due(time.time()) if seen == cursor else history_update.behind(workspace)
    if not wanted:
        return dg.SensorResult(skip_reason=f"nothing new after record {newest.seq}", cursor=seen)
    if under_way(instance):
        return dg.SensorResult(skip_reason="a run is in progress: next time", cursor=cursor)
    if history_update.waits_for_model(workspace):
        return dg.SensorResult(skip_reason=OTHER_MODEL, cursor=cursor)
    ops = {PUBLISH_OP: {"upto": newest.seq}, SEAL_OP: {"rest_s": REST_S}}
    request = _request(HISTORY, state, tried, ops)
    return dg.SensorResult(run_requests=[request], cursor=seen)


def tail_cursor(workspace: Workspace, newest: Position) -> str:
    """Return where the journal ends, as the sensor remembers it; a hint, never the truth."""
    return json.dumps(
        {
            "v": CURSOR_VERSION,
            "inode": history_update.inode(workspace, newest),
            "offset": newest.offset,
            "head": newest.chain,
        }
    )


def under_way(instance: dg.DagsterInstance) -> bool:
    """Whether a run of the history waits or runs."""
    mine = dg.RunsFilter(tags={PROJECT_TAG: HISTORY}, statuses=UNFINISHED)
    return bool(instance.get_runs(mine, limit=1))
