"""Asset `documents/chroma_collection`: the sealed Chroma collection derived from an index.

Downstream of the commit and never part of it: where this asset fails, the index is committed and
every prompt can be asked; the collection of the last generation stays.
"""

import warnings
from typing import Any

import dagster as dg
from pydantic import Field

from ragstream_assets.documents import GROUP, INDEX, projects
from ragstream_assets.failures import chosen, derived_errors
from ragstream_assets.previews import table
from ragstream_assets.resources import WorkspaceResource
from ragstream_core.build.collections import compare
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
    """The same chunks for everything that speaks Chroma: sealed, verified, never half-written."""
    space = workspace.open()
    if not space.config.settings.vector_store.collection:
        return dg.MaterializeResult(metadata={"made": "switched off: vector_store.collection"})
    with derived_errors():
        (project,) = chosen(context)
        report = space.sync_collection(project, rebuild=config.rebuild, verify_all=config.verify)
    version = dg.DataVersion(report.receipt.digest)
    return dg.MaterializeResult(metadata=collection_metadata(report), data_version=version)


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
