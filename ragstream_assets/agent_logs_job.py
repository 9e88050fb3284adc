"""The job `import_agent_logs`, and the sensor that starts it when a coding agent's log has grown.

Dagster keeps counts alone: no title, no path and no word of a conversation, for it would keep them
after a clearing.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import dagster as dg

from ragstream_assets.failures import short_errors
from ragstream_assets.metadata import table
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.sensors import STATE_TAG, attempts
from ragstream_assets.specs import asset_spec
from ragstream_core.records.identity import digest_of
from ragstream_core.services import import_conversations as importing
from ragstream_core.wiring.workspace import Workspace

JOB = "import_agent_logs"
INTERVAL_S = 60
OFF = "paths.agent_logs names no folder: no log is followed"
AGENT_LOGS_SPEC = asset_spec(
    ("history", "agent_logs"),
    "Turns of coding agents' sessions, read from the folders of `paths.agent_logs` into the "
    "journal as the logs grow. The logs are only read.",
    "json",
)


@dg.op(out=dg.Out(dg.Nothing))
def follow_agent_logs(context: dg.OpExecutionContext, workspace: WorkspaceResource) -> None:
    """Adds what is new in the logs to the journal."""
    with short_errors():
        done = importing.follow_logs(workspace.open())
    added: Counter[str] = Counter()
    for row in done.conversations:
        added[row.format] += row.added
    rows: list[Mapping[str, str | int | float]] = [
        {"agent": name, "turns": count} for name, count in sorted(added.items())
    ]
    context.log_event(
        dg.AssetMaterialization(
            AGENT_LOGS_SPEC.key,
            metadata={
                "turns": done.added,
                "not answered yet": done.unfinished,
                "not read": len(done.problems),
                "sessions with secrets": len(done.secrets),
                "agents": table(rows, "agent", "turns"),
            },
        )
    )
    if done.problems:
        context.log.warning(
            f"{len(done.problems)} records of logs could not be read: "
            "`ragstream history import FOLDER --dry-run` names them"
        )
    if done.secrets:
        context.log.warning(
            f"{len(done.secrets)} sessions seem to hold secrets: `ragstream history sessions`"
        )


@dg.job(name=JOB, executor_def=dg.in_process_executor)
def import_agent_logs() -> None:
    """Read what coding agents' logs hold since the last time."""
    follow_agent_logs()


@dg.sensor(
    job=import_agent_logs,
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks at the logs below `paths.agent_logs` and requests an import if one grew.",
)
def agent_logs_sensor(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.SensorResult:
    """Request a run if a log is new or has changed."""
    return tick(workspace.open(), context.instance)


def tick(workspace: Workspace, instance: dg.DagsterInstance) -> dg.SensorResult:
    """Look once; a state whose run failed is asked for again, later each time."""
    folders = importing.log_folders(workspace)
    if not folders or not workspace.config.settings.history.persist:
        return dg.SensorResult(skip_reason=OFF if not folders else "history.persist is off")
    states = importing.changed_states(workspace)
    if not states:
        missing = sum(not folder.is_dir() for folder in folders)
        note = [f"{missing} of {len(folders)} folders are not there"] if missing else []
        return dg.SensorResult(skip_reason="; ".join(["no log has changed", *note]))
    state = f"agent_logs:{digest_of(states)}"
    tried = attempts(instance, state)
    # a run that ended well, and after which there is still something to do, could not read a log
    if tried.ended and not replace(tried, failures=tried.ended).due(time.time()):
        return dg.SensorResult(skip_reason=f"tried {tried.ended} times: again later")
    request = dg.RunRequest(run_key=tried.key(state), tags={STATE_TAG: state})
    return dg.SensorResult(run_requests=[request])
