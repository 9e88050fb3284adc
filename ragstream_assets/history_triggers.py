"""When the history is embedded: a sensor on the end of the journal, and a nightly reconciliation.

The sensor only detects. What there is to do is decided by the catalog's mark, so a lost cursor
costs one look, and no work is done twice.
"""

import json
import time

import dagster as dg

from ragstream_assets.history import PUBLISH_OP, SEAL_OP, embed_history, reconcile_history
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.schedules import REASON_TAG
from ragstream_assets.sensors import STATE_TAG, attempts
from ragstream_assets.upkeep import PROJECT_TAG
from ragstream_core.build.history import upkeep as history_upkeep
from ragstream_core.build.workspace import Workspace
from ragstream_core.history.records import HISTORY, Position

CURSOR_VERSION = 1
INTERVAL_S = 30
REST_S = 600
"""A conversation does not have the whole collection copied and verified at every turn."""
OTHER_MODEL = "the settings name another model: a backfill or the nightly run embeds for it"
NIGHTLY = "15 2 * * *"
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
    """Request a run where turns were added behind the mark."""
    return tick(workspace.open(), context.instance, context.cursor)


def tick(workspace: Workspace, instance: dg.DagsterInstance, cursor: str | None) -> dg.SensorResult:
    """Look once; reads the end of the journal, and the catalog's mark where that moved."""
    if reason := history_upkeep.idle(workspace):
        return dg.SensorResult(skip_reason=reason, cursor=cursor)
    newest = history_upkeep.newest(workspace)
    seen = tail_cursor(workspace, newest)
    state = f"{HISTORY}:{newest.chain}"
    tried = attempts(instance, state)
    wanted = tried.due(time.time()) if seen == cursor else history_upkeep.behind(workspace)
    if not wanted:
        return dg.SensorResult(skip_reason=f"nothing new after record {newest.seq}", cursor=seen)
    if under_way(instance):
        return dg.SensorResult(skip_reason="a run is in progress: next time", cursor=cursor)
    if history_upkeep.waits_for_model(workspace):
        return dg.SensorResult(skip_reason=OTHER_MODEL, cursor=cursor)
    request = dg.RunRequest(
        run_key=f"{state}:{tried.ended + 1}",
        run_config={
            "ops": {
                PUBLISH_OP: {"config": {"upto": newest.seq}},
                SEAL_OP: {"config": {"rest_s": REST_S}},
            }
        },
        tags={PROJECT_TAG: HISTORY, STATE_TAG: state},
    )
    return dg.SensorResult(run_requests=[request], cursor=seen)


def tail_cursor(workspace: Workspace, newest: Position) -> str:
    """Return where the journal ends, as the sensor remembers it; a hint, never the truth."""
    return json.dumps(
        {
            "v": CURSOR_VERSION,
            "inode": history_upkeep.inode(workspace, newest),
            "offset": newest.offset,
            "head": newest.chain,
        }
    )


def under_way(instance: dg.DagsterInstance) -> bool:
    """Say whether a run of the history waits or runs."""
    mine = dg.RunsFilter(tags={PROJECT_TAG: HISTORY}, statuses=UNFINISHED)
    return bool(instance.get_runs(mine, limit=1))


@dg.schedule(
    job=reconcile_history,
    cron_schedule=NIGHTLY,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Embed what is pending, for another model too, and verify the history, at night.",
)
def nightly_history(
    context: dg.ScheduleEvaluationContext, workspace: WorkspaceResource
) -> dg.RunRequest | dg.SkipReason:
    """Request one run a night, wherever there is a journal."""
    if reason := history_upkeep.idle(workspace.open()):
        return dg.SkipReason(reason)
    return dg.RunRequest(
        run_key=f"history:{context.scheduled_execution_time:%Y-%m-%d}",
        run_config={"ops": {PUBLISH_OP: {"config": {"follow_model": True}}}},
        tags={PROJECT_TAG: HISTORY, REASON_TAG: "nightly reconciliation"},
    )
