"""`ragstream project remove`: forget a project in place, never its documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import AddOption, RagstreamError, Refused, RunCommand, UnknownProject
from ragstream_core.index.schema import is_pulled, project_lock, publishing_copy
from ragstream_core.platform.data_root import PROJECT_FILE
from ragstream_core.platform.disk import size_of
from ragstream_core.platform.files import (
    aside_of,
    make_private_dir,
    move_aside,
    remove_path,
    sync_dir,
)
from ragstream_core.platform.locks import serialized
from ragstream_core.prompts.store import pinned
from ragstream_core.proposers import kept
from ragstream_core.wiring import projects

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Removed:
    """What `remove` did, or would do."""

    project: str
    folders: tuple[str, ...]
    index_bytes: int
    stays: tuple[str, ...]
    # its own globs of what is left out; they go, and new ones read those documents
    exclude: tuple[str, ...]
    removed: bool


def remove(
    workspace: Workspace, name: str, *, keep_index: bool = False, dry_run: bool = False
) -> Removed:
    """Forget a project in place, or what a deleted project left; its documents are not touched.

    Args:
        workspace: The data root.
        name: Of the project.
        keep_index: Leave its index, so that prompts which read it can still be replayed.
        dry_run: Change nothing; the answer is the same.

    Raises:
        UnknownProject: There is no such project and no index of it.
        Refused: Its documents lie below the data root, kept prompts need its index, or it is
            pulled and the index is to stay.
        ProjectLocked: Another process writes its index.
        OSError: Something cannot be removed; run it again.
        StoreFailed: Its vectors are in a database that cannot be asked.
    """
    index_dir = workspace.index_dir(name)
    aside = index_dir.with_name(f".{name}.removed")
    away = projects.is_in_place(workspace.layout, name)
    if not away:
        _require_left_over(workspace, name, index_dir, aside)
    folders, exclude = _named(workspace, name) if away else ((), ())
    if keep_index and is_pulled(index_dir):
        raise Refused(
            f"{name} is pulled: there is nothing of it here but its index",
            hint=RunCommand("project remove", name),
        )
    there = index_dir.is_dir() or aside.is_dir()
    going = there and not keep_index
    if going and (needed := pinned(workspace.store.root, name)):
        raise Refused(
            f"{sum(map(len, needed.values()))} kept prompts read the index of {name}",
            hint=(RunCommand("keep", "KEY --undo"), " first, for each of them")
            if is_pulled(index_dir)
            else (AddOption("--keep-index"), " leaves it"),
        )
    taken = size_of(index_dir) + size_of(aside) if going else 0
    if not dry_run:
        with serialized(make_private_dir(workspace.layout.projects)):
            _remove(workspace, name, aside, keep_index=keep_index)
    stays = tuple(_stays(workspace, name, going, there))
    return Removed(name, folders, taken, stays, exclude, not dry_run)


def _named(workspace: Workspace, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders of a project, and the globs of what is left out."""
    try:
        documents = workspace.documents(name)
    except RagstreamError:  # a damaged file is removed like any other
        return (), ()
    return tuple(root.shown for root in documents.roots), documents.exclude


def _require_left_over(workspace: Workspace, name: str, index_dir: Path, aside: Path) -> None:
    if name in workspace.own_projects():
        folder = workspace.documents(name).roots[0].path
        raise Refused(
            f"the documents of {name} are below the data root, in {folder}",
            hint=("remove that folder yourself; then ", RunCommand("project remove", name)),
        )
    if not index_dir.is_dir() and not aside.is_dir():
        workspace.require_project(name)
        raise UnknownProject(f"no project {name!r}", hint=RunCommand("project list"))


def _remove(workspace: Workspace, name: str, aside: Path, *, keep_index: bool) -> None:
    """Take the index away, then the file; killed anywhere, the next call goes on."""
    index_dir, file = workspace.index_dir(name), workspace.layout.project_file(name)
    if not keep_index:
        kept.drop(workspace, name)
    remove_path(aside)
    if index_dir.is_dir() and not keep_index:
        with project_lock(index_dir):
            move_aside(index_dir, aside)
            _unlink(file)
    _unlink(file)
    remove_path(index_dir.with_name(f".{name}.pulling"))
    remove_path(aside_of(index_dir))
    remove_path(publishing_copy(index_dir))
    remove_path(workspace.layout.mirrors / name)
    if not keep_index:
        remove_path(workspace.layout.collections / name)
    remove_path(aside)


def _unlink(file: Path) -> None:
    if file.exists():
        file.unlink()
        sync_dir(file.parent)


def _stays(workspace: Workspace, name: str, going: bool, there: bool) -> Iterator[str]:
    yield "the documents, in their folders and at their addresses"
    if there and not going:
        yield f"the index, in {workspace.index_dir(name)}"
    yield "prompts that read it, with the passages they show" + (
        "; they can be read, but not replayed from the index" if going else ""
    )
    yield "the conversations"
    folder = workspace.layout.projects / name
    if any(path.name != PROJECT_FILE for path in folder.glob("[!.]*")):
        yield f"gold questions and what else lies in {folder}"
