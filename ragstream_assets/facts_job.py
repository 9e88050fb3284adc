"""The job `remember_facts`: analyze → deduplicate → write; a step with nothing left ends the run.

An output that is not given is a skip, not a failure (R-252). What users said passes between the ops
in memory alone, and no word of it goes into metadata: Dagster would keep it after a clearing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from ragstream_assets.failures import short_errors
from ragstream_assets.metadata import Metadata, table
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.specs import asset_spec
from ragstream_core.services import history_update
from ragstream_core.wiring.workspace import Workspace

if TYPE_CHECKING:
    from ragstream_core.wiring.fact_proposals import FoundFact

JOB = "remember_facts"
IN_MEMORY = "in_memory"
ASSET = ("memory", "facts")
INTERVAL_S = 60
OFF = "facts.form is off: nothing is looked for unless you ask"
FACTS_SPEC = asset_spec(
    ASSET,
    "What is remembered of what was said: `memory/USER_MEMORY.md` and `memory/COMPANY_MEMORY.md`. "
    "The job `remember_facts` looks for new ones, which wait until a person accepts them: "
    "`ragstream memory candidates`.",
    "markdown",
)
WAY = dg.Out(dg.Any, io_manager_key=IN_MEMORY, is_required=False)


class FactsConfig(dg.Config):
    """Which turns are read."""

    since: int = Field(default=0, description="Number of the last turn that is passed over.")
    upto: int = Field(default=0, description="Number of the last turn that is read; 0: all.")
    form: str = Field(
        default="", description="`rules` or `llm`; empty: `facts.form`, `rules` if it is off."
    )


@dg.op(out={"analysis": WAY})
def analyze(
    context: dg.OpExecutionContext, config: FactsConfig, workspace: WorkspaceResource
) -> Iterator[dg.Output[Any]]:
    """Finds facts in turns; gives nothing where no fact is sure enough."""
    from ragstream_core.wiring import fact_proposals

    with short_errors():
        analysis = fact_proposals.analyze(
            workspace.open(), since=config.since, upto=config.upto, form=config.form
        )
    context.log.info(f"{analysis.turns} turns, {len(analysis.found)} facts looked at")
    for line in analysis.notes:
        context.log.warning(line)
    if analysis.writable:
        yield dg.Output(analysis, "analysis", metadata=found_metadata(analysis.found))


@dg.op(out={"fresh": WAY})
def deduplicate(
    context: dg.OpExecutionContext, workspace: WorkspaceResource, analysis: Any
) -> Iterator[dg.Output[Any]]:
    """Drops what is remembered or was proposed before; gives nothing where nothing is new."""
    from ragstream_core.wiring import fact_proposals

    with short_errors():
        fresh = fact_proposals.deduplicate(workspace.open(), analysis.found)
    context.log.info(f"{sum(not row.why for row in fresh)} facts are new of {len(fresh)}")
    if any(not row.why for row in fresh):
        yield dg.Output(fresh, "fresh", metadata=found_metadata(fresh))


@dg.op(out=dg.Out(dg.Nothing))
def write(context: dg.OpExecutionContext, workspace: WorkspaceResource, fresh: Any) -> None:
    """Proposes what is left, in the journal; it waits there, or is accepted as the settings say."""
    from ragstream_core.wiring import fact_proposals

    with short_errors():
        written = fact_proposals.write(workspace.open(), fresh)
    metadata = found_metadata(written)
    context.add_output_metadata(metadata)
    context.log_event(dg.AssetMaterialization(FACTS_SPEC.key, metadata=metadata))


@dg.job(name=JOB, executor_def=dg.in_process_executor)
def remember_facts() -> None:
    """Look through turns for what is worth remembering."""
    write(deduplicate(analyze()))


def found_metadata(found: "Sequence[FoundFact]") -> Metadata:
    """Return the facts by turn, class and outcome; their words stay in the journal."""
    rows: list[Mapping[str, str | int | float]] = [
        {
            "turn": row.seq,
            "fact": row.fact[-8:] or "-",
            "about": row.candidate.target,
            "kind": row.candidate.kind or "-",
            "form": row.candidate.form,
            "confidence": row.candidate.confidence,
            "overlap": round(row.overlap, 2),
            "skipped": row.why.partition(":")[0] or "-",
        }
        for row in found
    ]
    columns = ("turn", "fact", "about", "kind", "form", "confidence", "overlap", "skipped")
    return {
        "facts": len(rows),
        "new": sum(not row.why for row in found),
        "candidates": table(rows, *columns),
    }


@dg.sensor(
    job=remember_facts,
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="Looks for facts in new turns, if `facts.form` is on; old turns wait for you.",
)
def facts_sensor(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.SensorResult:
    """Request a run where turns were added since the last look."""
    return tick(workspace.open(), context.cursor)


def tick(workspace: Workspace, cursor: str | None) -> dg.SensorResult:
    """Look once; the first look only remembers where the journal ends."""
    reason = history_update.idle(workspace)
    if reason or workspace.config.settings.facts.form == "off":
        return dg.SensorResult(skip_reason=reason or OFF, cursor=cursor)
    newest = history_update.newest(workspace)
    since = int(cursor) if cursor and cursor.isdigit() else newest.seq
    if not history_update.turns_behind(workspace, since):
        skip = f"no new turn after record {since}"
        return dg.SensorResult(skip_reason=skip, cursor=str(newest.seq))
    request = dg.RunRequest(
        run_key=f"facts:{newest.chain}",
        run_config={"ops": {"analyze": {"config": {"since": since, "upto": newest.seq}}}},
    )
    return dg.SensorResult(run_requests=[request], cursor=str(newest.seq))
