"""The Chroma collections of projects and of the history, connected to settings.

Light to import: the path on which nothing changed asks `due` and must load no engine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import GenerationGone, RagstreamError
from ragstream_core.platform import extras
from ragstream_core.proposers.chroma import publisher, seal
from ragstream_core.proposers.chroma.names import HISTORY_MAIN
from ragstream_core.wiring.projects import checked

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.proposers.chroma.collection import Collection
    from ragstream_core.proposers.chroma.publisher import CollectionReport, FailedAttempt
    from ragstream_core.wiring.workspace import Workspace

SWITCHED_OFF = "switched off: vector_store.collection"
NOT_INSTALLED = "not kept: the extra 'chroma' is not installed"
TRIES = 5
"""A collection is of one generation: if a commit comes meanwhile, it is made again."""


@dataclass(frozen=True, slots=True)
class Left:
    """A collection that was left as it is.

    Attributes:
        why: The reason, for people.
        failed: Whether it could not be made, rather than was not to be.
        next: What to run, if it could not be made.
        off: Whether none is to be there: it is switched off, or Chroma is not installed.
    """

    why: str
    failed: bool = False
    next: str = ""
    off: bool = False

    @property
    def warning(self) -> str:
        """What to say of a failure; empty if there was none."""
        return f"{self.why}\n  next: {self.next}" if self.failed else ""


def is_kept(workspace: Workspace) -> bool:
    """Return whether collections are to be kept: by default if Chroma is installed.

    If a person switched them on, they are, and that Chroma is missing is a failure.
    """
    config = workspace.config
    if config.origin["vector_store.collection"] == "default" and not extras.is_here("chroma"):
        return False
    return config.settings.vector_store.collection


def _why_not(workspace: Workspace) -> str:
    return NOT_INSTALLED if workspace.config.settings.vector_store.collection else SWITCHED_OFF


def collection_of(workspace: Workspace, project: str) -> Collection:
    """Return a collection, whether it is there or not.

    Args:
        workspace: The data root.
        project: A project's name, or `HISTORY` for the collection ``history_main``.

    Raises:
        InvalidName: The name could lead outside the data root.
    """
    from ragstream_core.proposers.chroma.collection import Collection

    if project == HISTORY:
        index_dir = workspace.data_dir / "history" / "index"
    else:
        index_dir = workspace.index_dir(project)
    return Collection(_chroma_dir(workspace, project), index_dir, project, model_name(workspace))


def model_name(workspace: Workspace) -> str:
    """Return the name of the embedding model, for people."""
    chosen = workspace.config.settings.embeddings
    return f"{chosen.backend}/{chosen.model}"


def _chroma_dir(workspace: Workspace, project: str) -> Path:
    if project == HISTORY:
        return workspace.data_dir / "history" / "vectors" / HISTORY_MAIN
    return workspace.data_dir / "chroma_db" / checked(project)


def keep_up(
    workspace: Workspace,
    project: str,
    *,
    rebuild: bool = False,
    verify_all: bool = False,
    again: bool = False,
    rest_s: float = 0.0,
) -> CollectionReport | Left:
    """Bring a collection up to date if one is kept; a failure harms nothing else.

    A failure is not repeated before the generation or the settings change.

    Args:
        workspace: The data root.
        project: A project's name, or `HISTORY`.
        rebuild: Build it from the catalog even if it could be updated.
        verify_all: Compare every vector even if nothing is to be done.
        again: Try even if it failed for this generation already, as ``rebuild`` does.
        rest_s: Leave it while it is younger, in seconds: making one reads all rows.

    Returns:
        What became of it, or why it was left.
    """
    if not is_kept(workspace):
        return Left(_why_not(workspace), off=True)
    collection = collection_of(workspace, project)
    age = _age_s(collection.chroma_dir)
    if age < rest_s:
        return Left(f"left for later: it was made {age:.0f} s ago")

    def attempt() -> CollectionReport:
        if rebuild or again:
            return collection.sync(rebuild=rebuild, verify_all=verify_all)
        return collection.keep_up(verify_all=verify_all)

    try:
        return _of_one_generation(attempt)
    except GenerationGone as gone:  # there is none yet, or one came after the other meanwhile
        return Left(f"left for later: {gone.message}")
    except RagstreamError as error:
        return _left_behind(project, error)


def _of_one_generation(attempt: Callable[[], CollectionReport]) -> CollectionReport:
    for _ in range(TRIES - 1):
        try:
            return attempt()
        except GenerationGone:
            continue
    return attempt()


def _age_s(chroma_dir: Path) -> float:
    try:
        return max(0.0, time.time() - (chroma_dir / seal.CURRENT).stat().st_mtime)
    except OSError:  # there is none
        return math.inf


def _left_behind(project: str, error: RagstreamError) -> Left:
    name = "the Chroma collection" + (" of the history" if project == HISTORY else "")
    return Left(f"{name} was left as it was: {error.message}", failed=True, next=error.hint)


def sync_after_commit(
    workspace: Workspace, project: str, *, rebuild: bool = False, verify_all: bool = False
) -> tuple[str, ...]:
    """As `keep_up`; return the warnings of it."""
    done = keep_up(workspace, project, rebuild=rebuild, verify_all=verify_all)
    return (done.warning,) if isinstance(done, Left) and done.warning else ()


def failures(workspace: Workspace, project: str, newest: Generation | None) -> tuple[str, ...]:
    """Return the warning of a collection that could not be made for a generation, if any."""
    failed = _failed(workspace, project, newest)
    return (_left_behind(project, failed.error).warning,) if failed else ()


def _failed(workspace: Workspace, project: str, newest: Generation | None) -> FailedAttempt | None:
    folder = _chroma_dir(workspace, project)
    kept = is_kept(workspace)
    if not kept or newest is None or publisher.noted(folder) is None:
        return None
    return collection_of(workspace, project).failed(newest)


class CollectionState(NamedTuple):
    """How a project's Chroma collection stands.

    Attributes:
        kept: Whether the settings ask for one.
        generation: That it was made of; 0: there is none.
        rows: How many it has.
        self_recall: Share of a sample of rows that the graph finds by their own vectors; None: not
            measured.
        graph: Parameters of the graph.
        problem: Why it could not be made; empty if it could.
        next: What makes it good.
    """

    kept: bool
    generation: int
    rows: int
    self_recall: float | None
    graph: str
    problem: str
    next: str


def state(workspace: Workspace, project: str, newest: Generation | None) -> CollectionState:
    """Return how a project's collection stands; reads two small files.

    Args:
        workspace: The data root.
        project: Its name.
        newest: The newest generation, None if nothing is ingested.
    """
    receipt = seal.current_receipt(_chroma_dir(workspace, project))
    failed = _failed(workspace, project, newest)
    measured = receipt is not None and receipt.self_recall >= 0
    return CollectionState(
        kept=is_kept(workspace),
        generation=receipt.generation if receipt else 0,
        rows=receipt.rows if receipt else 0,
        self_recall=receipt.self_recall if receipt and measured else None,
        graph=receipt.graph if receipt else "",
        problem=failed.message if failed else "",
        next=failed.hint if failed else "",
    )


def compare(workspace: Workspace, project: str) -> list[str]:
    """Return what tells a collection from its index, for people.

    One of which nothing is indexed yet, or that is not to be kept, has no faults.

    Raises:
        RagstreamError: The index is damaged.
        OSError: Disk full.
    """
    if not is_kept(workspace):
        return []
    try:
        return collection_of(workspace, project).faults()
    except GenerationGone:
        return []


def due(workspace: Workspace, project: str, newest: Generation) -> bool:
    """Say whether a collection that is kept is to be made for a generation; reads small files.

    One that could not be made for it is not due.
    """
    if not is_kept(workspace):
        return False
    receipt = seal.current_receipt(_chroma_dir(workspace, project))
    if receipt is not None and (receipt.generation, receipt.digest) == (newest.n, newest.digest):
        return False
    return _failed(workspace, project, newest) is None
