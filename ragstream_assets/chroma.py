"""Asset `documents/chroma_collection`: the sealed Chroma collection derived from an index.

Downstream of the commit and never part of it: where it cannot be made, the index is committed, the
ingest succeeds and every prompt can be asked; the collection of the last generation stays.
"""

import warnings
from typing import Any

import dagster as dg
from pydantic import Field

from ragstream_assets.documents import GROUP, INDEX, projects
from ragstream_assets.failures import chosen, derived_errors, failure
from ragstream_assets.previews import table
from ragstream_assets.recording.outcomes import outcome
from ragstream_assets.resources import WorkspaceResource
from ragstream_core.build.collections import Left, compare, keep_up
from ragstream_core.stores.chroma_making import CollectionReport

CODE_VERSION = "1"
EQUAL = "chroma_equals_the_index"
KEY = dg.AssetKey([GROUP, "chroma_collection"])


class CollectionConfig(dg.Config):
    """How to bring a collection up to date."""

    verify: bool = Field(default=False, description="Ask for every vector, not only the changed.")
    rebuild: bool = Field(default=False, description="Build it anew from the catalog.")


@dg.asset(
    key=KEY, deps=[INDEX.key], group_name=GROUP, partitions_def=projects, kinds={"chroma"},
    owners=["team:ragstream"], code_version=CODE_VERSION,
)  # fmt: skip
def chroma_collection(
    context: dg.AssetExecutionContext, config: CollectionConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """The same chunks for everything that speaks Chroma: sealed, verified, never half-written.

    Where it cannot be made, a run that also ingests goes on with a warning, and the check fails;
    launched alone, the step fails.
    """
    outcome(context.run_id).tell("collection")
    with derived_errors():
        (project,) = chosen(context)
        done = keep_up(
            workspace.open(),
            project,
            rebuild=config.rebuild,
            verify_all=config.verify,
            again=is_alone(context, INDEX.key),
        )
    return made_of(context, done, upstream=INDEX.key)


def is_alone(context: dg.AssetExecutionContext, upstream: dg.AssetKey) -> bool:
    """Say whether a person launched a collection itself, without what it is made from."""
    selected = context.run.asset_selection  # none or empty: all that the job holds
    return upstream not in selected if selected else False


def made_of(
    context: dg.AssetExecutionContext, done: CollectionReport | Left, *, upstream: dg.AssetKey
) -> dg.MaterializeResult[None]:
    """Return what a collection is now, or why it was left as it was.

    Args:
        context: The step.
        done: What became of the collection.
        upstream: What it is made from.

    Raises:
        Failure: It could not be made, and this run was launched for it.
    """
    if not isinstance(done, Left):
        version = dg.DataVersion(done.receipt.digest)
        return dg.MaterializeResult(metadata=collection_metadata(done), data_version=version)
    if done.failed and is_alone(context, upstream):
        raise failure(done.why, done.next)
    if done.failed:
        context.log.warning(done.warning)
        outcome(context.run_id).warn(done.warning)
    return dg.MaterializeResult(metadata={"made": done.why, "next": done.next or "-"})


def collection_metadata(report: CollectionReport) -> dict[str, Any]:
    """Return what a collection is now, what was done, and how to open it."""
    receipt = report.receipt
    return {
        "made": report.made,
        "reason": report.reason or "-",
        "generation": receipt.generation,
        "rows": receipt.rows,
        "dead_rows": receipt.dead,
        "added": report.added,
        "deleted": report.deleted,
        "vectors_verified": report.verified,
        "self_recall": receipt.self_recall,
        "graph": receipt.graph,
        "chromadb": receipt.chromadb,
        "collection": receipt.collection,
        "folder": dg.MetadataValue.path(str(report.folder)),
        "seconds": round(report.seconds, 3),
    }


def _spec() -> dg.AssetCheckSpec:
    with warnings.catch_warnings():
        # Dagster calls partitions of checks a preview; without them projects overwrite each other.
        warnings.simplefilter("ignore")
        return dg.AssetCheckSpec(
            EQUAL,
            asset=KEY,
            description="The sealed collection is that of the newest generation, as verified.",
            partitions_def=projects,
        )


@dg.multi_asset_check(name="chroma_check", specs=[_spec()])
def chroma_check(
    context: dg.AssetCheckExecutionContext, workspace: WorkspaceResource
) -> dg.AssetCheckResult:
    """Compare one project's collection with its index and with what was sealed."""
    with derived_errors():
        faults = compare(workspace.open(), context.partition_key)
    rows = [{"message": fault} for fault in faults]
    return dg.AssetCheckResult(
        passed=not faults,
        check_name=EQUAL,
        asset_key=KEY,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"findings": len(faults), "what": table(rows, "message")},
    )
