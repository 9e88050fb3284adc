"""Asset `remote/mirror`: a project's documents from elsewhere, fetched only if a person asks.

No sensor and no schedule materialises it, and the job of an ingest does not hold it.
"""

import dagster as dg
from pydantic import Field

from ragstream_assets.document_assets import GROUP as DOCUMENTS
from ragstream_assets.document_assets import MIRROR_KEY, projects
from ragstream_assets.failures import chosen, reporter, short_errors
from ragstream_assets.metadata import Metadata, table
from ragstream_assets.resources import WorkspaceResource
from ragstream_assets.run_outcomes import outcome
from ragstream_core.services.sync_project import ProjectSync, SyncRequest, sync_if_remote

CODE_VERSION = "1"
FIRST = {"dagster/priority": "1"}
"""One process runs one step at a time, the highest priority first: the mirror before the ingest.

A dependency would say the same, and Dagster's pages would ask every project whether it may be
ingested without a mirror, also those that have no address.
"""
SHOWN = 50
"""Rows of a table; Dagster keeps it in its event log."""


class MirrorConfig(dg.Config):
    """How the mirrors are brought up to date."""

    empty_ok: bool = Field(
        default=False, description="A place that lists nothing may empty its mirror."
    )
    labels: list[str] = Field(default=[], description="Only these addresses; none: all of them.")


@dg.asset(
    key=MIRROR_KEY, group_name=MIRROR_KEY.path[0], partitions_def=projects, kinds={"file"},
    owners=["team:ragstream"], code_version=CODE_VERSION, op_tags=FIRST,
)  # fmt: skip
def mirror(
    context: dg.AssetExecutionContext, config: MirrorConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult[None]:
    """What lies at the addresses of a project's `project.yaml`, in `mirrors/<project>`.

    Whole files only; nothing is removed unless a listing came to its end. A project without an
    address has nothing to fetch, and nobody is contacted.
    """
    with short_errors(context.run_id):
        (project,) = chosen(context)
        request = SyncRequest(tuple(config.labels), empty_ok=config.empty_ok)
        told = reporter(context.log.info, None)
        done = outcome(context.run_id).fetched()
        done = done or sync_if_remote(workspace.open(), project, request, progress=told)
    return dg.MaterializeResult(metadata=sync_metadata(done))


def sync_metadata(done: ProjectSync) -> Metadata:
    """Return how many files were fetched, and what could not be."""
    failed = [
        {"path": path, "reason": reason}
        for root in done.roots
        for path, reason in root.report.failed
    ]
    failed += [{"path": row.url, "reason": row.message} for row in done.problems]
    addresses = [{"label": root.label, "address": root.report.url} for root in done.roots]
    return {
        **done.totals(),
        "complete": done.is_complete,
        "seconds": round(sum(root.report.seconds for root in done.roots), 3),
        "addresses": table(addresses, "label", "address"),
        "not_fetched": table(failed[:SHOWN], "path", "reason"),
    }


sync_documents = dg.define_asset_job(
    "sync_documents",
    selection=dg.AssetSelection.assets(MIRROR_KEY) | dg.AssetSelection.groups(DOCUMENTS),
    description="Fetch what is new at a project's addresses, then ingest what is here.",
    executor_def=dg.in_process_executor,
)
