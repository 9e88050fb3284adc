"""What other faces did, as events of Dagster's assets: once, in order, in figures and keys."""

import dagster as dg

from ragstream_core.index.rows import Generation
from ragstream_core.services import generations
from ragstream_core.wiring.workspace import Workspace

INDEX_KEY = ("documents", "index")


def report_missed_generations(
    instance: dg.DagsterInstance, workspace: Workspace, project: str
) -> list[int]:
    """Report every kept generation that was committed without Dagster since the last it knows.

    Returns:
        Their numbers, in the order of the reports: oldest first.
    """
    number, digest = _last_reported(instance, project)
    missed = generations.generations_since(workspace, project, number, digest=digest)
    for generation in missed:
        instance.report_runless_asset_event(_materialization(project, generation))
    return [generation.n for generation in missed]


def _last_reported(instance: dg.DagsterInstance, project: str) -> tuple[int, str]:
    wanted = dg.AssetRecordsFilter(dg.AssetKey(INDEX_KEY), asset_partitions=[project])
    for record in instance.fetch_materializations(wanted, limit=1).records:
        if record.asset_materialization is not None:
            metadata = record.asset_materialization.metadata
            return int(str(metadata["generation"].value)), str(metadata["digest"].value)
    return 0, ""


def _materialization(project: str, generation: Generation) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        dg.AssetKey(INDEX_KEY),
        description=f"committed without Dagster, {generation.created}",
        partition=project,
        metadata={
            "generation": generation.n,
            "committed": True,
            "documents": generation.counts.get("files", 0),
            "chunks": generation.counts.get("chunks", 0),
            "digest": generation.digest,
        },
        tags={"dagster/data_version": generation.digest},
    )
