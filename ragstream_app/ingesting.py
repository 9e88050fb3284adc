"""One ingest as every face makes it: nothing to do is seen at once."""

from __future__ import annotations

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
    """Bring a project's index up to date in this process; see `ingest_project`."""
    unchanged = ingestion.unchanged(workspace, project)
    if unchanged is not None and not (verify or rebuild or accept_missing):
        return unchanged
    return ingest_project(
        workspace,
        project,
        verify=verify,
        rebuild=rebuild,
        accept_missing=accept_missing,
        fan_out=fan_out,
        progress=progress,
    )
