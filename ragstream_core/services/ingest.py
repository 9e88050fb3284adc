"""`ragstream ingest`: bring a project's index, and what is derived from it, up to date."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.index.schema import require_own
from ragstream_core.proposers import kept
from ragstream_core.proposers.collections import COLLECTION
from ragstream_core.wiring import ingestion, models
from ragstream_core.wiring.fan_out import ahead
from ragstream_core.wiring.shared_vectors import sharing

if TYPE_CHECKING:
    from ragstream_core.ingestion.ingestion_config import IngestionConfig
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.models.embedders.shared_vectors import SharedEmbedder
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.wiring.workspace import Workspace


def ingest_project(
    workspace: Workspace,
    project: str,
    *,
    verify: bool = False,
    rebuild: bool = False,
    accept_missing: bool = False,
    progress: PhaseProgress | None = None,
    provenance: dict[str, str] | None = None,
    collection: bool = True,
    fan_out: bool = False,
) -> IngestionStats:
    """Bring a project's index up to date.

    Args:
        workspace: The data root.
        project: Its name.
        verify: Hash every file and check every vector, whatever the signatures say.
        rebuild: Start a new store; needed after a change of the model or damage.
        accept_missing: Take the documents of a folder in place that is missing or empty for
            deleted.
        progress: Called with (phase, done, total).
        provenance: Kept in the generation row, e.g. the Dagster run.
        collection: Bring its Chroma collection up to date as well, if one is kept; what goes
            wrong there is a warning.
        fan_out: Have workers embed the new texts first, however few; what they do not embed is
            embedded here.

    Raises:
        UnknownSetting: `fan_out`, and no database is set through which workers get texts.
        UnknownProject: There is no such folder.
        InvalidName: The name could lead outside the data root.
        InputUnavailable: The folders of a project in place are missing or empty.
        ProjectLocked: Another process is writing it.
        Refused: Its index is made elsewhere.
        ModelMismatch: The store was built by another model.
        IntegrityError: The store is damaged.
    """
    require_own(workspace.index_dir(project))
    config = replace(
        ingestion.ingestion_config(workspace, project),
        verify=verify,
        rebuild=rebuild,
        accept_missing=accept_missing,
        provenance=provenance or {},
    )
    not_fanned = ahead(workspace, project, config, wanted=fan_out, progress=progress)
    stats = _run(workspace, project, config, progress)
    ended = time.perf_counter()
    stores = [store for store in kept.STORES if collection or store is not COLLECTION]
    outcomes = kept.bring_up_to_date(
        workspace, project, stores=stores, rebuild=rebuild, verify=verify, progress=progress
    )
    warnings = filter(None, (not_fanned, *(done.warning for done in outcomes)))
    return replace(
        stats,
        warnings=(*stats.warnings, *warnings),
        after_commit_s=time.perf_counter() - ended,
    )


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
    """Bring a project's index up to date as every face does: nothing to do is seen at once.

    The arguments, and what is raised, are those of `ingest_project`.
    """
    if not (verify or rebuild or accept_missing):
        unchanged = ingestion.unchanged(workspace, project)
        if unchanged is not None:
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


def _run(
    workspace: Workspace, project: str, config: IngestionConfig, progress: PhaseProgress | None
) -> IngestionStats:
    """Ingest, with the vectors that machines share if there are any."""
    workspace.require_project(project)
    embedder = models.embedder(workspace.config)
    with sharing(workspace.config, embedder) as shared:
        manager = ingestion.manager_of(workspace, project, shared or embedder, progress)
        run = functools.partial(manager.run, project, config)
        if workspace.config.settings.debug.enabled:
            from ragstream_core.wiring.debug_log import logged_ingest

            stats = logged_ingest(workspace, project, run)
        else:
            stats = run()
    return stats if shared is None else _with_shared(stats, shared)


def _with_shared(stats: IngestionStats, shared: SharedEmbedder) -> IngestionStats:
    """Return what an ingest did: texts whose vectors were taken over were not embedded here."""
    embedded = stats.chunks.get("embedded", 0) - shared.taken
    warnings = [shared.warning] if shared.warning else []
    warnings += [f"{shared.remade} shared vectors were damaged and made again"] * bool(
        shared.remade
    )
    return replace(
        stats,
        chunks=stats.chunks | {"embedded": embedded, "shared": shared.taken},
        warnings=(*stats.warnings, *warnings),
    )
