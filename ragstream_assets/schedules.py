"""What happens by the calendar: every index is verified weekly, and what nobody needs is dropped.

Both run by default: they read, heal what is derived, and drop only what the settings no longer
keep. A project that somebody is writing is left for the next time.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from ragstream_assets.documents import ingest_documents
from ragstream_assets.failures import short_errors
from ragstream_assets.previews import table
from ragstream_assets.recorder import INGEST_OPS
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.upkeep import PROJECT_TAG
from ragstream_core.build.workspace import Workspace
from ragstream_core.errors import GenerationGone, ProjectLocked, RagstreamError

WEEKLY_VERIFY = "30 3 * * 0"
WEEKLY_RETENTION = "30 4 * * 0"
RETENTION_JOB = "drop_old_generations"
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
    wanted = [name for name in workspace.open().projects() if name in known]
    for project in wanted:
        yield dg.RunRequest(
            run_key=f"verify:{project}:{day}",
            partition_key=project,
            run_config={"ops": {op: {"config": {"verify": True}} for op in INGEST_OPS}},
            tags={PROJECT_TAG: project, REASON_TAG: "weekly verify"},
        )
    if not wanted:
        yield dg.SkipReason("no project is a partition yet")


@dg.op(description="Drop old generations and prompts that neither the settings nor anybody keeps.")
def drop_generations(context: dg.OpExecutionContext, workspace: WorkspaceResource) -> None:
    """Collect the garbage of every project; one that is locked or damaged is said and passed by."""
    from ragstream_core.build.upkeep import expiring

    space = workspace.open()
    with short_errors(context.run_id):
        prompts = expiring.gc(space)
        rows = [collected(space, name) for name in space.projects()]
    context.add_output_metadata(
        {
            "projects": len(rows),
            "prompts": len(prompts["prompts"]),
            "bytes": prompts["bytes"] + sum(row["bytes"] for row in rows),
            "dropped": table(rows, *COLUMNS),
        }
    )


def collected(workspace: Workspace, project: str) -> dict[str, Any]:
    """Drop what one project no longer needs; return the row that says what went."""
    from ragstream_core.build.upkeep import care

    row: dict[str, Any] = dict.fromkeys(COLUMNS, 0) | {"project": project, "note": ""}
    try:
        went = care.gc(workspace, project)
    except GenerationGone:
        return row | {"note": "never ingested"}
    except ProjectLocked:
        return row | {"note": "somebody is writing it: next time"}
    except RagstreamError as error:
        return row | {"note": error.message}
    numbers = {name: went[name] for name in ("chunks", "vectors", "bytes")}
    return row | numbers | {"generations": len(went["generations"])}


@dg.job(name=RETENTION_JOB, description="Drop the generations and prompts nobody needs.")
def retention_job() -> None:
    """One op over all projects."""
    drop_generations()


@dg.schedule(
    job=retention_job,
    cron_schedule=WEEKLY_RETENTION,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Drop the generations and prompts nobody needs, Sundays after the verification.",
)
def weekly_retention(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """Request one run a week."""
    return dg.RunRequest(run_key=f"retention:{context.scheduled_execution_time:%Y-%m-%d}")


SCHEDULES = [weekly_verify, weekly_retention]
