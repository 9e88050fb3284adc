"""Asset `remote/mirror`: a project's documents from elsewhere, fetched only if a person asks.

No sensor and no schedule asks for it: the ingest that is told to (`sync`) fetches first and reports
it as an event. It is no output of that step: whoever materializes the documents asks for no fetch.
"""

import dagster as dg

from ragstream_assets.metadata import Metadata, table
from ragstream_assets.specs import EVENT_ID, asset_spec, projects
from ragstream_core.services.sync_project import ProjectSync

MIRROR = asset_spec(
    ("remote", "mirror"),
    "What lies at the addresses of a project's `project.yaml`, in `mirrors/<project>`. Whole files "
    "only; nothing is removed unless a listing came to its end. An ingest with `sync` fetches it "
    "first; `ragstream project sync` fetches it alone.",
    "file",
).replace_attributes(partitions_def=projects)
SHOWN = 50
"""Rows of a table; Dagster keeps it in its event log."""


def mirrored(done: ProjectSync, event_id: str) -> dg.AssetMaterialization:
    """Return how many files were fetched, and what could not be."""
    failed = [
        {"path": path, "reason": reason}
        for root in done.roots
        for path, reason in root.report.failed
    ]
    failed += [{"path": row.url, "reason": row.message} for row in done.problems]
    addresses = [{"label": root.label, "address": root.report.url} for root in done.roots]
    metadata: Metadata = {
        **done.totals(),
        EVENT_ID: event_id,
        "complete": done.is_complete,
        "seconds": round(sum(root.report.seconds for root in done.roots), 3),
        "addresses": table(addresses, "label", "address"),
        "not_fetched": table(failed[:SHOWN], "path", "reason"),
    }
    return dg.AssetMaterialization(MIRROR.key, partition=done.project, metadata=metadata)
