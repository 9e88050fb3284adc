"""The schedules: verify every index, bring the history up to date, drop what is not needed.

All run by default: they read, repair what is derived, and drop only what the settings no longer
keep. A project that is being written is left for the next time.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from ragstream_assets import run_retention
from ragstream_assets.documents import INGEST_OPS, ingest_documents
from ragstream_assets.failures import short_errors
from ragstream_assets.history import PUBLISH_OP, reconcile_history
from ragstream_assets.metadata import table
from ragstream_assets.resources import Run, WorkspaceResource
from ragstream_assets.specs import PROJECT_TAG
from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import GenerationGone, ProjectLocked, RagstreamError
from ragstream_core.services import generations, history_update, prompt_retention
from ragstream_core.services.prompt_retention import DroppedPrompts
from ragstream_core.wiring.workspace import Workspace

NIGHTLY = "15 2 * * *"
WEEKLY_VERIFY = "30 3 * * 0"
WEEKLY_RETENTION = "30 4 * * 0"
REASON_TAG = "ragstream/reason"
COLUMNS = ("project", "generations", "chunks", "vectors", "bytes", "note")


@dg.schedule(
    job=ingest_documents,
    cron_schedule=WEEKLY_VERIFY,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Hash every file and check every vector of each project, on Sundays.",
)
def weekly_verify(
    context: dg.ScheduleEvaluationContext, workspace: WorkspaceResource
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Request a verifying ingest of each project that is a partition."""
    known = set(context.instance.get_dynamic_partitions("project"))
    day = f"{context.scheduled_execution_time:%Y-%m-%d}"
    wanted = [name for name in workspace.open().own_projects() if name in known]
    for project in wanted:
        yield dg.RunRequest(
            run_key=f"verify:{project}:{day}",
            partition_key=project,
            run_config={"ops": {op: {"config": {"verify": True}} for op in INGEST_OPS}},
            tags={PROJECT_TAG: project, REASON_TAG: "weekly verify"},
        )
    if not wanted:
        yield dg.SkipReason("no project is a partition yet")


class RetentionConfig(dg.Config):
    """What a retention does."""

    dry_run: bool = Field(default=False, description="Only show what would be removed.")


@dg.op
def drop_unneeded(
    context: dg.OpExecutionContext, config: RetentionConfig, workspace: WorkspaceResource, run: Run
) -> None:
    """Drop what neither the settings nor anybody keeps; say how many bytes it freed.

    A project that is locked or damaged is said and passed by.
    """
    space, dry_run = workspace.open(), config.dry_run
    with short_errors(run):
        prompts = prompt_retention.gc(space, dry_run=dry_run)
        runs = run_retention.gc(space, instance=context.instance, dry_run=dry_run)
        rows = [collected(space, name, dry_run=dry_run) for name in space.own_projects()]
    context.add_output_metadata(_figures(prompts, runs, rows) | {"dry_run": dry_run})


def _figures(
    prompts: DroppedPrompts, runs: run_retention.DroppedRuns, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return what went, in numbers and as two tables: by kind, and by project."""
    stages = f"stage files of {prompts.runs} runs, {prompts.files} other files"
    files = f"{runs.orphans} event files without a run, {runs.logs} debug logs"
    went, freed = (sum(row[name] for row in rows) for name in ("generations", "bytes"))
    kinds = [
        ("prompts", len(prompts.prompts), prompts.bytes, stages),
        ("recorded runs", len(runs.runs), runs.bytes, files),
        ("generations", went, freed, f"{len(rows)} projects"),
    ]
    return {
        "projects": len(rows),
        "prompts": len(prompts.prompts),
        "runs": len(runs.runs),
        "bytes": prompts.bytes + runs.bytes + freed,
        "freed": table(("what", "went", "bytes", "note"), kinds),
        "dropped": table(COLUMNS, [[*row.values()] for row in rows]),
    }


def collected(workspace: Workspace, project: str, *, dry_run: bool = False) -> dict[str, Any]:
    """Drop what one project no longer needs; return the row that says what went."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS, 0) | {"project": project, "note": ""}
    try:
        went = generations.gc(workspace, project, dry_run=dry_run)
    except GenerationGone:
        return row | {"note": "never ingested"}
    except ProjectLocked:
        return row | {"note": "another process is writing it: next time"}
    except RagstreamError as error:
        return row | {"note": error.message}
    numbers = {"chunks": went.chunks, "vectors": went.vectors, "bytes": went.bytes}
    return row | numbers | {"generations": len(went.generations)}


@dg.job(name="retention")
def retention_job() -> None:
    """Drop old generations, prompts, runs and logs."""
    drop_unneeded()


@dg.schedule(
    job=retention_job,
    cron_schedule=WEEKLY_RETENTION,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Drop old generations, prompts, recorded runs and logs, on Sundays.",
)
def weekly_retention(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """Request one run a week."""
    return dg.RunRequest(run_key=f"retention:{context.scheduled_execution_time:%Y-%m-%d}")


@dg.schedule(
    job=reconcile_history,
    cron_schedule=NIGHTLY,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Embed what is pending, for another model too, and verify the history, at night.",
)
def nightly_history(
    context: dg.ScheduleEvaluationContext, workspace: WorkspaceResource
) -> dg.RunRequest | dg.SkipReason:
    """Request one run a night, if there is a journal."""
    if reason := history_update.idle(workspace.open()):
        return dg.SkipReason(reason)
    return dg.RunRequest(
        run_key=f"history:{context.scheduled_execution_time:%Y-%m-%d}",
        run_config={"ops": {PUBLISH_OP: {"config": {"follow_model": True}}}},
        tags={PROJECT_TAG: HISTORY, REASON_TAG: "nightly reconciliation"},
    )


SCHEDULES = [weekly_verify, weekly_retention, nightly_history]
