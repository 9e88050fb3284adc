"""The job `import_agent_logs`, and the sensor that starts it when a coding agent's log has grown.

Dagster keeps counts alone: no title, no path and no word of a conversation, for it would keep them
after a clearing.
"""

from collections import Counter
from collections.abc import Mapping

import dagster as dg

from ragstream_assets.failures import RETRIES, short_errors, unattended
from ragstream_assets.metadata import table
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.sensors import AGAIN
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


@dg.op(out=dg.Out(dg.Nothing), retry_policy=RETRIES)
def follow_agent_logs(context: dg.OpExecutionContext, workspace: WorkspaceResource) -> None:
    """Adds what is new in the logs to the journal."""
    with short_errors(again=unattended(context)):
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
    return tick(workspace.open(), context.cursor)


def tick(workspace: Workspace, cursor: str | None) -> dg.SensorResult:
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
