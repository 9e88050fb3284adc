"""What ingests a project by the settings, and what an ingest would do: configuration and status.

All but `manager_of` decides without a model; what needs one is imported there.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.index.look import kept_generations
from ragstream_core.index.rows import TRUNCATED
from ragstream_core.index.schema import is_pulled, require_own
from ragstream_core.ingestion.forecast import (
    Forecast,
    Inspection,
    Known,
    forecast,
    inspect,
    known,
    peeked,
    without_reader,
)
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.scan import Scan
from ragstream_core.platform.disk import size_of
from ragstream_core.proposers import kept
from ragstream_core.wiring import projects
from ragstream_core.wiring.models import fingerprint

if TYPE_CHECKING:
    from ragstream_core.ingestion.document_tree import DocumentTree
    from ragstream_core.ingestion.ingestion_manager import IngestionManager
    from ragstream_core.ingestion.stats import IngestionStats
    from ragstream_core.ports import Embedder, PhaseProgress
    from ragstream_core.proposers.derived_store import StoreState
    from ragstream_core.records.identity import Json
    from ragstream_core.text.chunk_profiles import ChunkProfile
    from ragstream_core.wiring.workspace import Workspace


_NAMES_SHOWN = 3


def ingestion_config(workspace: Workspace, project: str) -> IngestionConfig:
    """Return what an ingest of a project depends on; loads no model."""
    settings = workspace.config.settings
    away = projects.is_in_place(workspace.layout, project)
    return IngestionConfig(
        profile=settings.chunking.profile,
        chunk_limits=profile_of(workspace).limits,
        delete_replaced=settings.ingestion.delete_replaced,
        retain_generations=settings.ingestion.retain_generations,
        max_text_bytes=settings.discovery.max_text_bytes,
        max_parsed_bytes=settings.discovery.max_pdf_bytes,
        fallback_encoding=settings.discovery.fallback_encoding,
        secrets=settings.discovery.secrets,
        strip_markdown=settings.chunking.strip_markdown,
        include=tuple(settings.discovery.include),
        exclude=tuple(settings.discovery.exclude),
        embedding=fingerprint(workspace.config),
        flat=projects.is_flat(workspace.layout, project),
        documents=workspace.documents(project) if away else None,
    )


def profile_of(workspace: Workspace) -> ChunkProfile:
    """Return how documents are cut: the named profile with the sizes that are set."""
    from ragstream_core.text.chunk_profiles import adjusted, chunk_profile

    chosen = workspace.config.settings.chunking
    return adjusted(
        chunk_profile(chosen.profile),
        size=chosen.size,
        overlap=chosen.overlap,
        unit=chosen.unit,
    )


def unchanged(workspace: Workspace, project: str) -> IngestionStats | None:
    """Return the statistics of a no-op where nothing is to be ingested, else None.

    Opens no document, writes nothing, loads neither NumPy nor a model.
    """
    began = time.perf_counter()
    require_own(workspace.index_dir(project))
    found, documents = inspection(workspace, project)
    documents.require_present(found.found, project)
    if found.pending is not None:
        return None
    if found.newest is not None and kept.due(workspace, project, found.newest):
        return None
    stats = found.idle_stats(project, seconds=time.perf_counter() - began)
    failed = kept.failures(workspace, project, found.newest)
    return replace(stats, warnings=(*documents.kept_back(found.found), *failed))


class PendingFiles(NamedTuple):
    """The documents that an ingest would read or drop, by their signatures."""

    new: Sequence[str]  # paths that are not indexed yet
    changed: Sequence[str] = ()  # paths whose files are others now
    removed: Sequence[str] = ()  # paths whose files are gone

    @property
    def paths(self) -> list[str]:
        """All of them, sorted."""
        return sorted({*self.new, *self.changed, *self.removed})


@dataclass(frozen=True, slots=True)
class ProjectStatus:
    """What is indexed of a project, and what an ingest would do."""

    project: str
    generation: int  # the newest one; 0: nothing was ever ingested
    digest: str  # of that generation; empty without one, as all that follows of it
    created: str  # when it was committed, ISO 8601
    model: str  # fingerprint of the embedding model
    files: int  # how many documents it has
    chunks: int  # how many it has
    on_disk: int  # how many documents there are now
    reason: str  # why an ingest is due, or empty
    absent: tuple[str, ...]  # folders in place that are missing or empty, and why
    truncated_inputs: int  # texts that the encoder cut when the generation was made
    unsure: int  # how many files are so fresh that only their hash can tell
    pending: PendingFiles  # what is to be read or dropped
    forecast: Forecast  # what an ingest would embed, about
    skipped: tuple[tuple[str, str], ...]  # (path, reason) of all that is left out
    # (path, which pages) of documents with pages that have no text
    without_text: tuple[tuple[str, str], ...]
    # (path, what was assumed, left out or read by OCR) of documents
    assumed: tuple[tuple[str, str], ...]
    bytes: int  # of the folder of the index
    # how what is made from its index stands, by its key in reports
    stores: Mapping[str, StoreState]

    def to_json(self) -> dict[str, Json]:
        """Return a project of `ragstream status --json`."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        stores = {name: state.to_json() for name, state in plain.pop("stores").items()}
        more = {"pending": self.pending._asdict(), "forecast": self.forecast._asdict()}
        return plain | more | stores


def status(workspace: Workspace, project: str) -> ProjectStatus:
    """Return what is indexed and what an ingest would do; light, writes nothing."""
    found, documents = inspection(workspace, project)
    newest, pending = found.newest, found.pending
    changes = pending.changes if pending else None
    index_dir = workspace.index_dir(project)
    past = known(index_dir, newest)
    unread = without_reader(found.found)
    waiting = _waiting(found, unread)
    likely = peeked(documents, waiting, found.found, past)
    return ProjectStatus(
        project=project,
        generation=newest.n if newest else 0,
        digest=newest.digest if newest else "",
        created=newest.created if newest else "",
        model=newest.embed_fp if newest else "",
        files=newest.counts.get("files", 0) if newest else 0,
        chunks=newest.counts.get("chunks", 0) if newest else 0,
        on_disk=len(found.found.files),
        reason=pending.reason if pending else "",
        absent=tuple(f"{root.shown}: {why}" for root, why in documents.absent(found.found)),
        truncated_inputs=int(newest.provenance.get(TRUNCATED, 0)) if newest else 0,
        unsure=len(changes.racy) if changes else 0,
        pending=_pending(found, past, unread),
        forecast=forecast(waiting, found.found, likely, profile=profile_of(workspace)),
        skipped=_left_out(found, past, unread),
        without_text=past.unread,
        assumed=past.assumed,
        bytes=size_of(index_dir),
        stores=kept.states(workspace, project, newest),
    )


def changed_files(
    workspace: Workspace, projects: Sequence[str], *, shown: Callable[[str], str] = str
) -> list[str]:
    """Return one sentence a project with documents that changed since its last ingest.

    Before every prompt: where nothing is pending the catalog is not asked for more.
    """
    sentences = []
    for project in projects:
        found, _ = inspection(workspace, project)
        if found.pending is None:
            continue
        past = known(workspace.index_dir(project), found.newest)
        if paths := _pending(found, past, without_reader(found.found)).paths:
            names = ", ".join(map(shown, paths[:_NAMES_SHOWN]))
            more = " …" if len(paths) > _NAMES_SHOWN else ""
            changed = f"{len(paths)} file(s) changed since the last ingest"
            sentences.append(f"{project}: {changed}: {names}{more}")
    return sentences


def _waiting(found: Inspection, unread: Mapping[str, str]) -> list[str]:
    """Return the files whose content an ingest would read as new."""
    if found.pending is None:
        return []
    changes = found.pending.changes
    paths = [*changes.new, *changes.changed] if changes else sorted(found.found.files)
    return [path for path in paths if path not in unread]


def _pending(found: Inspection, past: Known, unread: Mapping[str, str]) -> PendingFiles:
    """Return what an ingest would read or drop, but for the files that nothing here can read."""
    changes = found.pending.changes if found.pending else None
    if changes is None:
        return PendingFiles(_waiting(found, unread))
    again = [path for path in past.again if path in found.found.files]
    return PendingFiles(
        [path for path in changes.new if path not in unread],
        sorted({*changes.changed, *again} - unread.keys()),
        changes.removed,
    )


def _left_out(
    found: Inspection, past: Known, unread: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return (path, reason) of what no ingest would take: as the scan, readers and the last say."""
    skipped = {
        path: reason
        for path, reason in past.skipped
        if path in found.found.files and path not in past.again
    }
    return tuple(sorted({**skipped, **unread, **dict(found.found.refused)}.items()))


def inspection(workspace: Workspace, project: str) -> tuple[Inspection, DocumentTree]:
    """Return a project's documents against its catalog, by signatures alone, and where they lie."""
    config = ingestion_config(workspace, project)
    documents = config.documents or workspace.documents(project)
    if is_pulled(workspace.index_dir(project)):
        newest = kept_generations(workspace.index_dir(project))[-1]
        return Inspection(Scan({}, [], []), newest, None), documents
    found = inspect(
        workspace.index_dir(project), documents, scan_fp=config.scan_fp, rules=config.rules
    )
    return found, documents


def manager_of(
    workspace: Workspace, project: str, embedder: Embedder, progress: PhaseProgress | None
) -> IngestionManager:
    """Return what ingests a project with an embedder, see `IngestionManager`."""
    from ragstream_core.ingestion.ingestion_manager import IngestionManager
    from ragstream_core.prompts.store import pinned
    from ragstream_core.text.chunker import Chunker
    from ragstream_core.text.tokenizer import word_offsets
    from ragstream_core.wiring.quality_gate import gate_of

    offsets = getattr(embedder, "token_offsets", word_offsets)
    return IngestionManager(
        workspace.layout.doc_raw,
        workspace.layout.indexes,
        embedder=embedder,
        chunkers=lambda _: Chunker(
            profile_of(workspace),
            token_offsets=offsets,
            strip_markdown=workspace.config.settings.chunking.strip_markdown,
        ),
        progress=progress,
        gate=gate_of(workspace, project),
        pinned=functools.partial(pinned, workspace.store.root),
    )
