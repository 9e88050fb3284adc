"""What ingests a project by the settings: its chunker, its quality gate, what retention keeps."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ragstream_core.wiring import ingestion

if TYPE_CHECKING:
    from ragstream_core.ingestion.ingestion_manager import IngestionManager
    from ragstream_core.ports import Embedder, PhaseProgress
    from ragstream_core.wiring.workspace import Workspace


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
        workspace.data_dir / "doc_raw",
        workspace.config.index_dir,
        embedder=embedder,
        chunkers=lambda _: Chunker(
            ingestion.profile_of(workspace),
            token_offsets=offsets,
            strip_markdown=workspace.config.settings.chunking.strip_markdown,
        ),
        progress=progress,
        gate=gate_of(workspace, project),
        pinned=functools.partial(pinned, workspace.store.root),
    )
