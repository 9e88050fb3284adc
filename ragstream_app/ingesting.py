"""One ingest as every face makes it: nothing to do is seen at once, workers are asked if due."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring import ingestion

if TYPE_CHECKING:
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.wiring.workspace import Workspace


def ingest(
    workspace: Workspace,
    project: str,
    *,
    verify: bool = False,
    rebuild: bool = False,
    accept_missing: bool = False,
    fan_out: bool = False,
    progress: PhaseProgress | None = None,
) -> IngestionStats:
    """Bring a project's index up to date in this process.

    Workers are asked to embed the texts before if `fan_out` says so, or there are so many of them
    as `embeddings.fan_out_at` says and a broker is set; what they do not, the ingest does.

    Raises:
        RagstreamError: As `ingest_project`.
    """
    unchanged = ingestion.unchanged(workspace, project)
    if unchanged is not None and not (verify or rebuild or accept_missing):
        return unchanged
    not_fanned = ""
    if fan_out or workspace.config.settings.embeddings.broker.get_secret_value():
        from ragstream_assets.fan_out import ahead

        not_fanned = ahead(
            workspace,
            project,
            rebuild=rebuild,
            accept_missing=accept_missing,
            wanted=fan_out,
            progress=progress,
        )
    stats = ingest_project(
        workspace,
        project,
        verify=verify,
        rebuild=rebuild,
        accept_missing=accept_missing,
        progress=progress,
    )
    return replace(stats, warnings=(*stats.warnings, *filter(None, [not_fanned])))
