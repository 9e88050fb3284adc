"""The one life cycle of stores that are made from an index: due, made, left with a note, told.

A store that cannot be made harms nothing else, and is not tried again before the generation or the
settings change. Light to import: an ingest that has nothing to do asks `due`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, ProjectLocked, RagstreamError
from ragstream_core.index.rows import latest_generation
from ragstream_core.index.schema import check_hint, no_generation, read
from ragstream_core.platform.disk import on_disk
from ragstream_core.platform.files import make_private_dir
from ragstream_core.proposers.collections import COLLECTION
from ragstream_core.proposers.derived_store import (
    DerivedStore,
    FailedAttempt,
    How,
    Outcome,
    StoreState,
    clear_failure,
    failed_attempt,
    index_dir_of,
    note_failure,
)
from ragstream_core.proposers.graph import GRAPH
from ragstream_core.proposers.inverted_lists import LISTS
from ragstream_core.proposers.list_paths import FOLDER, OLDER

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.records.identity import Json
    from ragstream_core.wiring.workspace import Workspace

STORES: tuple[DerivedStore, ...] = (COLLECTION, LISTS, GRAPH)

# A store is of one generation: if a commit or an erasure comes meanwhile, it is made again.
TRIES = 5


def due(workspace: Workspace, project: str, newest: Generation) -> bool:
    """Return whether a store is to be made for a generation; one that failed for it is not."""
    return any(
        not store.is_current(workspace, project, newest)
        and failed_attempt(store, workspace, project, newest) is None
        for store in _wanted(workspace, project, newest)
    )


def _wanted(workspace: Workspace, project: str, newest: Generation) -> list[DerivedStore]:
    chunks = newest.counts.get("chunks", 0)
    return [store for store in STORES if not store.why_unwanted(workspace, project, chunks)]


def failures(workspace: Workspace, project: str, newest: Generation | None) -> tuple[str, ...]:
    """Return the warnings of stores that could not be made for a generation."""
    failed = _failures(workspace, project, newest)
    return tuple(_left(store, project, note.error).warning for store, note in failed)


def _failures(
    workspace: Workspace, project: str, newest: Generation | None
) -> Iterator[tuple[DerivedStore, FailedAttempt]]:
    if newest is None:
        return
    for store in _wanted(workspace, project, newest):
        note = failed_attempt(store, workspace, project, newest)
        if note is not None:
            yield store, note


def states(workspace: Workspace, project: str, newest: Generation | None) -> dict[str, StoreState]:
    """Return how each store of a project stands, by its key in reports; reads small files."""
    failed = {store.report: note for store, note in _failures(workspace, project, newest)}
    return {
        store.report: store.state(workspace, project, newest, failed.get(store.report))
        for store in STORES
    }


def figures(workspace: Workspace, project: str) -> dict[str, Json]:
    """Return what Dagster shows of a project's stores beside its generation."""
    try:
        newest = read(workspace.index_dir(project), latest_generation)
    except RagstreamError:
        newest = None
    shown: dict[str, Json] = {}
    for state in states(workspace, project, newest).values():
        shown |= state.figures
    return shown


def bring_up_to_date(
    workspace: Workspace,
    project: str,
    *,
    stores: Sequence[DerivedStore] | None = None,
    rebuild: bool = False,
    verify: bool = False,
    again: bool = False,
    progress: PhaseProgress | None = None,
) -> list[Outcome]:
    """Make the stores that are wanted (`stores`; None: all) those of the newest generation.

    `again` tries what failed for this generation already, and compares what may have changed;
    `progress` is called with (check, 0, 0) for each that may have to be made.
    """
    how = How(rebuild, verify, again, progress)
    chosen = STORES if stores is None else stores
    return [_brought_up(store, workspace, project, how) for store in chosen]


def asked_stores(workspace: Workspace) -> list[DerivedStore]:
    """Return the stores that prompts ask under the settings of now."""
    return [store for store in STORES if store.is_asked(workspace)]


def _brought_up(store: DerivedStore, workspace: Workspace, project: str, how: How) -> Outcome:
    try:
        for _ in range(TRIES - 1):
            with contextlib.suppress(GenerationGone):
                return _attempted(store, workspace, project, how)
        return _attempted(store, workspace, project, how)
    except GenerationGone as gone:  # there is none yet, or one came after the other meanwhile
        return Outcome(store, reason=f"left for later: {gone.message}")
    except RagstreamError as error:
        return _left(store, project, error)


def _attempted(store: DerivedStore, workspace: Workspace, project: str, how: How) -> Outcome:
    index_dir = index_dir_of(workspace, project)
    newest = _newest(index_dir)
    chunks = newest.counts.get("chunks", 0) if newest else 0
    if why := store.why_unwanted(workspace, project, chunks):
        return Outcome(store, reason=why, is_off=True)
    if newest is None:
        raise no_generation(index_dir)
    failed = failed_attempt(store, workspace, project, newest)
    if failed is not None and not (how.again or how.rebuild):
        return _left(store, project, failed.error)
    if how.progress is not None:
        how.progress(store.check, 0, 0)
    with _noting(store, workspace, project, newest):
        return store.make(workspace, project, how)


def _newest(index_dir: Path) -> Generation | None:
    try:
        return read(index_dir, latest_generation)
    except GenerationGone:
        return None


def _left(store: DerivedStore, project: str, error: RagstreamError) -> Outcome:
    return Outcome(store, problem=f"{store.failure(project)}: {error.message}", next=error.hint)


@contextlib.contextmanager
def _noting(
    store: DerivedStore, workspace: Workspace, project: str, newest: Generation
) -> Iterator[None]:
    try:
        with on_disk(store.folder(workspace, project)):
            yield
    except (GenerationGone, ProjectLocked):  # a newer one came; another process makes it
        raise
    except RagstreamError as error:
        again = check_hint(index_dir_of(workspace, project))
        error.advice = (*error.advice, "; then ", again) if error.advice else (again,)
        note_failure(store, workspace, project, newest, error=error)
        raise
    clear_failure(store, workspace, project)


def keep_training(old: Path, index_dir: Path) -> None:
    """Move lists from an index to the one that took its place; what cannot be moved is lost."""
    for path in (old / FOLDER).glob("lists-*.ivf"):
        name = OLDER + path.name.removeprefix(OLDER).removeprefix("lists-")
        with contextlib.suppress(OSError):
            make_private_dir(index_dir / FOLDER)
            path.rename(index_dir / FOLDER / name)


def drop(workspace: Workspace, project: str) -> None:
    """Remove what stores of a project hold outside the data root."""
    for store in STORES:
        store.drop(workspace, project)
