"""The Chroma collection ``history_main``, connected to settings; light to import."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, RagstreamError
from ragstream_core.history.records import HISTORY

if TYPE_CHECKING:
    from pathlib import Path

    from ragstream_core.build.workspace import Workspace
    from ragstream_core.stores.chroma_making import CollectionReport
    from ragstream_core.stores.chroma_sync import Collection

TRIES = 5
"""Tags are read as they are now: where a commit comes between, the collection is made again."""


def history_collection(workspace: Workspace) -> Collection:
    """Return the collection of the history, whether it is there or not."""
    from ragstream_core.stores.chroma_sync import Collection
    from ragstream_core.stores.history_store_chroma import COLLECTION

    chosen, home = workspace.config.settings.embeddings, workspace.data_dir / "history"
    return Collection(
        home / "vectors" / COLLECTION,
        home / "index",
        HISTORY,
        f"{chosen.backend}/{chosen.model}",
        COLLECTION,
    )


def sync(
    workspace: Workspace, *, rebuild: bool = False, verify_all: bool = False
) -> CollectionReport:
    """Bring the collection up to the history catalog; nothing is embedded.

    Args:
        workspace: The data root.
        rebuild: Build it from the catalog even if it could be updated.
        verify_all: Check every vector, not only those that changed.

    Raises:
        ProjectLocked: Another process is at it.
        GenerationGone: No turn is embedded yet, or commits never stop coming.
        IntegrityError: The catalog is damaged, or what Chroma made of it is wrong twice.
        StoreFailed: Chroma refused or its process died.
        OSError: Disk full; the old collection stays.
    """
    collection = history_collection(workspace)
    for _ in range(TRIES - 1):
        try:
            return collection.sync(rebuild=rebuild, verify_all=verify_all)
        except GenerationGone:
            continue
    return collection.sync(rebuild=rebuild, verify_all=verify_all)


def kept(workspace: Workspace, *, rest_s: float = 0.0) -> CollectionReport | str:
    """Bring the collection up to date where one is kept and anything is embedded.

    Args:
        workspace: The data root.
        rest_s: Leave it while it is younger, in seconds: making one reads all rows.

    Returns:
        What became of it, or why it was left.

    Raises:
        RagstreamError: As `sync`.
        OSError: Disk full; the old collection stays.
    """
    if not workspace.config.settings.vector_store.collection:
        return "switched off: vector_store.collection"
    age = _age_s(history_collection(workspace).chroma_dir)
    if age < rest_s:
        return f"left for later: it was made {age:.0f} s ago"
    try:
        return sync(workspace)
    except GenerationGone:
        return "nothing is embedded yet"


def sync_after_commit(workspace: Workspace) -> tuple[str, ...]:
    """Bring the collection up to date where one is kept; what goes wrong is a warning.

    The turns are committed by then, and the next run tries again.
    """
    try:
        kept(workspace)
    except (RagstreamError, OSError) as error:
        return (f"the Chroma collection of the history was left as it was: {error}",)
    return ()


def compare(workspace: Workspace) -> list[str]:
    """Return what tells the collection from the history catalog, for people.

    A history without a generation, or without a collection where none is kept, has no faults.

    Raises:
        RagstreamError: The catalog is damaged.
        OSError: Disk full.
    """
    if not workspace.config.settings.vector_store.collection:
        return []
    try:
        return history_collection(workspace).faults()
    except GenerationGone:
        return []


def _age_s(chroma_dir: Path) -> float:
    """Return how long ago the collection was made, in seconds; infinite where there is none."""
    from ragstream_core.stores.chroma_seal import CURRENT

    try:
        return max(0.0, time.time() - (chroma_dir / CURRENT).stat().st_mtime)
    except OSError:
        return math.inf
