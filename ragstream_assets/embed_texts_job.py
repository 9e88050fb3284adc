"""Job `embed_texts`: the texts of a coming ingest, embedded in batches before it commits.

Plan, one step a batch, settle. At home the steps run in the process of the run or in a few of this
machine; with a broker, Celery workers on any number of machines take the batches. The plan and the
end stay where the documents are. Steps hand nothing to each other but their order: texts and
vectors are in the database of `embeddings.shared`.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from ragstream_assets.document_assets import projects
from ragstream_assets.failures import reporter, short_errors
from ragstream_assets.resources import WorkerResource, WorkspaceResource
from ragstream_assets.run_outcomes import outcome
from ragstream_assets.worker_executor import JOB, PLAN_OP, here_or_workers
from ragstream_core.services import fan_out

PLANNED_TAG = "ragstream/texts"
"""How many texts a run planned; with it, one that settles fewer is found out."""
_AGAIN = dg.RetryPolicy(max_retries=5, delay=1, backoff=dg.Backoff.EXPONENTIAL)


class PlanConfig(dg.Config):
    """For which ingest."""

    rebuild: bool = Field(default=False, description="As of the ingest: all texts, a new model.")
    accept_missing: bool = Field(
        default=False, description="As of the ingest: a folder in place that is away is empty."
    )


@dg.op(name=PLAN_OP, out=dg.DynamicOut(dg.Nothing))
def plan(
    context: dg.OpExecutionContext, config: PlanConfig, workspace: WorkspaceResource
) -> Iterator[dg.DynamicOutput[None]]:
    """Finds the texts that an ingest would embed, and puts them into the database in batches."""
    with short_errors():
        sizes = fan_out.plan_batches(
            workspace.open(),
            context.partition_key,
            _batches_of(context),
            rebuild=config.rebuild,
            accept_missing=config.accept_missing,
            progress=reporter(context.log.info, outcome(context.run_id).progress),
        )
    context.instance.add_run_tags(context.run_id, {PLANNED_TAG: str(sum(sizes))})
    context.log.info(f"{sum(sizes)} texts in {len(sizes)} batches")
    for batch in range(len(sizes)):
        yield dg.DynamicOutput(None, mapping_key=f"batch_{batch}")


@dg.op(ins={"planned": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing), retry_policy=_AGAIN)
def embed_batch(context: dg.OpExecutionContext, worker: WorkerResource) -> None:
    """Embeds the texts of a batch that have no vector yet; done again, it does nothing."""
    batch = int((context.get_mapping_key() or "").removeprefix("batch_"))
    with short_errors(again=True):  # perhaps by another worker, or when the database is back
        done = fan_out.embed_batch(worker.open(), _batches_of(context), batch)
    if not done.texts:
        context.log.info(f"batch {batch} is gone: its run has ended or was planned anew")
        return
    context.log.info(
        f"{done.embedded} of {done.texts} texts embedded on {done.host} in {done.seconds:.1f} s"
    )


@dg.op(ins={"embedded": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
def settle(context: dg.OpExecutionContext, workspace: WorkspaceResource) -> None:
    """Requires a vector for each text, and removes the texts from the database."""
    with short_errors():
        texts = fan_out.settle(workspace.open(), _batches_of(context))
    context.log.info(f"{texts} texts have their vectors")
    gone = _planned(context) - texts
    if gone > 0:
        said = f"{gone} of {texts + gone} planned texts were removed before they were settled"
        outcome(context.run_id).unsettled = said
        context.log.warning(
            f"{said}: by another run of the project, by `ragstream forget` or by "
            "`ragstream embeddings clear`; an ingest embeds those that have no vector"
        )


@dg.graph
def embed() -> None:
    """Embed the texts of a coming ingest in batches."""
    settle(plan().map(embed_batch).collect())


embed_texts = embed.to_job(
    name=JOB,
    description="Embed the new texts of a project before its ingest, on workers if there are any.",
    partitions_def=projects,
    executor_def=here_or_workers,
)


def _planned(context: dg.OpExecutionContext) -> int:
    """Return how many texts a run, or the one that it goes on with, planned; 0 if none says so."""
    runs = (context.instance.get_run_by_id(key) for key in (context.run_id, _batches_of(context)))
    return next((int(r.tags[PLANNED_TAG]) for r in runs if r and PLANNED_TAG in r.tags), 0)


def _batches_of(context: dg.OpExecutionContext) -> str:
    """Return what names the batches of a run: a run that is executed again goes on with them."""
    return context.run.root_run_id or context.run_id
