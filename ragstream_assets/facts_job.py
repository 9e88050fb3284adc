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

if TYPE_CHECKING:
    from ragstream_core.wiring.fact_proposals import FoundFact

JOB = "remember_facts"
IN_MEMORY = "in_memory"
ASSET = ("memory", "facts")
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
