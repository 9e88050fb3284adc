"""The sensors: a folder that changed is ingested, a journal that grew is embedded.

They only detect. What there is to do is decided by comparing contents and by the catalog's mark,
so a lost cursor costs one superfluous look, and no work is done twice. A state is requested once:
its run tries again by itself what may pass, and Dagster launches a run again whose process died.
"""

import json
from collections import Counter
from typing import Any

import dagster as dg

from ragstream_assets.documents import ingest_documents
from ragstream_assets.failures import RETRIES, short_errors, unattended
from ragstream_assets.history import PUBLISH_OP, SEAL_OP, embed_history
from ragstream_assets.metadata import Metadata, table
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import CURSOR_VERSION, PROJECT_TAG, asset_spec, projects, read_cursor
from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import InputUnavailable, RagstreamError, UsageError
from ragstream_core.records.identity import digest_of
from ragstream_core.services import history_update
from ragstream_core.services import import_conversations as importing
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.workspace import Workspace

DIGEST_DIGITS = 16

# Tags of a run that Dagster launches so often again when its process dies.
AGAIN = {"dagster/max_retries": "3"}


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


INTERVAL_S = 30
MOST_REQUESTS = 5


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
    """Look once; at most five requests, the rest stay for the next tick."""
    seen, names = read_cursor(cursor).get("projects"), workspace.own_projects()
    seen = seen if isinstance(seen, dict) else {}
    after: dict[str, str] = {}
    requests: list[dg.RunRequest] = []
    for name in names:
        digest = folder_digest(workspace, name)
        known = seen.get(name, "")
        wanted = digest != known and behind(workspace, name)
        if wanted and len(requests) < MOST_REQUESTS:
            requests.append(dg.RunRequest(partition_key=name, tags={PROJECT_TAG: name, **AGAIN}))
            after[name] = digest
        else:
            after[name] = known if wanted else digest
    unfit = [f"{name} is not a project: {reason}" for name, reason in workspace.unfit_folders()]
    new = sorted({*names} - {*instance.get_dynamic_partitions("project")})
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None
        if requests
        else "; ".join([f"no folder changed, of {len(names)}", *unfit]),
        cursor=json.dumps({"v": CURSOR_VERSION, "projects": after}),
        dynamic_partitions_requests=[projects.build_add_request(new)] if new else [],
    )


def behind(workspace: Workspace, project: str) -> bool:
    """Whether an ingest has anything to do, or to complain of."""
    try:
        return ingestion.unchanged(workspace, project) is None
    except InputUnavailable:  # its folders are not there; when they come back that is a change
        return False
    except RagstreamError:
        return True


# A conversation does not have the whole collection copied and verified at every turn.
REST_S = 600
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
    newest = journal(workspace).newest()
    seen = newest.chain  # the hash of the last line covers all before it
    status = None if seen == cursor else History(workspace).status()
    if status is None or not status.is_behind:
        return dg.SensorResult(skip_reason=f"nothing new after record {newest.seq}", cursor=seen)
    mine = dg.RunsFilter(tags={PROJECT_TAG: HISTORY}, statuses=UNFINISHED)
    if instance.get_runs(mine, limit=1):
        return dg.SensorResult(skip_reason="a run is in progress: next time", cursor=cursor)
    if status.other_model:
        return dg.SensorResult(skip_reason=OTHER_MODEL, cursor=cursor)
    ops = {PUBLISH_OP: {"upto": newest.seq}, SEAL_OP: {"rest_s": REST_S}}
    request = dg.RunRequest(
        run_config={"ops": {op: {"config": given} for op, given in ops.items()}},
        tags={PROJECT_TAG: HISTORY, **AGAIN},
    )
    return dg.SensorResult(run_requests=[request], cursor=seen)


OFF = "paths.agent_logs names no folder: no log is followed"
AGENT_LOGS_SPEC = asset_spec(
    ("history", "agent_logs"),
    "Turns of coding agents' sessions, read from the folders of `paths.agent_logs` into the "
    "journal as the logs grow. The logs are only read.",
    "json",
)


@dg.op(out=dg.Out(dg.Nothing), retry_policy=RETRIES)
def follow_agent_logs(context: dg.OpExecutionContext, workspace: WorkspaceResource) -> None:
    """Adds what is new in the logs to the journal."""
    with short_errors(again=unattended(context)):
        done = importing.follow_logs(workspace.open())
    added: Counter[str] = Counter()
    for row in done.conversations:
        added[row.format] += row.added
    metadata: Metadata = {
        "turns": done.added,
        "not answered yet": done.unfinished,
        "not read": len(done.problems),
        "sessions with secrets": len(done.secrets),
        "agents": table(("agent", "turns"), sorted(added.items())),
    }
    context.log_event(dg.AssetMaterialization(AGENT_LOGS_SPEC.key, metadata=metadata))
    if done.problems:
        context.log.warning(
            f"{len(done.problems)} records of logs could not be read: "
            "`ragstream history import FOLDER --dry-run` names them"
        )
    if done.secrets:
        context.log.warning(
            f"{len(done.secrets)} sessions seem to hold secrets: `ragstream history sessions`"
        )


@dg.job(executor_def=dg.in_process_executor)
def import_agent_logs() -> None:
    """Read what coding agents' logs hold since the last time."""
    follow_agent_logs()


@dg.sensor(
    job=import_agent_logs,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks at the logs below `paths.agent_logs` and requests an import if one grew.",
)
def agent_logs_sensor(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.SensorResult:
    """Request a run if a log is new or has changed."""
    return logs_tick(workspace.open(), context.cursor)


def logs_tick(workspace: Workspace, cursor: str | None) -> dg.SensorResult:
    """Look once; a log that could not be read is asked for again when one has changed."""
    folders = importing.log_folders(workspace)
    if not folders or not workspace.config.settings.history.persist:
        return dg.SensorResult(skip_reason=OFF if not folders else "history.persist is off")
    states = importing.changed_states(workspace)
    if not states:
        missing = sum(not folder.is_dir() for folder in folders)
        note = [f"{missing} of {len(folders)} folders are not there"] if missing else []
        return dg.SensorResult(skip_reason="; ".join(["no log has changed", *note]))
    state = digest_of(states)
    if state == cursor:
        return dg.SensorResult(skip_reason="these logs were read as far as they can be")
    return dg.SensorResult(run_requests=[dg.RunRequest(tags=AGAIN)], cursor=state)
