"""The Chroma collection ``history_main``, connected to settings; light to import."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import GenerationGone, RagstreamError
from ragstream_core.wiring.chroma_collections import SWITCHED_OFF, Left, left_behind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ragstream_core.vector_stores.chroma.publisher import CollectionReport
    from ragstream_core.vector_stores.chroma.sync import Collection
    from ragstream_core.wiring.workspace import Workspace

TRIES = 5
"""Tags are read as they are now: where a commit comes between, the collection is made again."""


def history_collection(workspace: Workspace) -> Collection:
    """Return the collection of the history, whether it is there or not."""
    from ragstream_core.vector_stores.chroma.history_store_chroma import COLLECTION
    from ragstream_core.vector_stores.chroma.sync import Collection

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
        OperationFailed: Disk full; the old collection stays.
    """
    collection = history_collection(workspace)
    return _patiently(lambda: collection.sync(rebuild=rebuild, verify_all=verify_all))


def _patiently(make: Callable[[], CollectionReport]) -> CollectionReport:
    for _ in range(TRIES - 1):
        try:
            return make()
        except GenerationGone:
            continue
    return make()


def kept(
    workspace: Workspace, *, rest_s: float = 0.0, again: bool = False
) -> CollectionReport | Left:
    """Bring the collection up to date where one is kept and anything is embedded.

    A failure harms nothing else, and is not repeated before generation or settings change.

    Args:
        workspace: The data root.
        rest_s: Leave it while it is younger, in seconds: making one reads all rows.
        again: Try even if it failed for this generation already.

    Returns:
        What became of it, or why it was left.
    """
    if not workspace.config.settings.vector_store.collection:
        return Left(SWITCHED_OFF)
    collection = history_collection(workspace)
    age = _age_s(collection.chroma_dir)
    if age < rest_s:
        return Left(f"left for later: it was made {age:.0f} s ago")
    try:
        return _patiently(collection.sync if again else collection.keep_up)
    except GenerationGone:
        return Left("nothing is embedded yet")
    except RagstreamError as error:
        return left_behind("the Chroma collection of the history", error)


def sync_after_commit(workspace: Workspace) -> tuple[str, ...]:
    """As `kept`; return the warnings of it."""
    done = kept(workspace)
    return (done.warning,) if isinstance(done, Left) and done.warning else ()


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
    from ragstream_core.vector_stores.chroma.seal import CURRENT

    try:
        return max(0.0, time.time() - (chroma_dir / CURRENT).stat().st_mtime)
    except OSError:
        return math.inf
