"""Projects whose documents are read in place or fetched: `ragstream project add`, `list`, `init`.

Of folders nothing is copied, and nothing is written into them but a data root that a person asks
for; an address is only noted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from ragstream_core.errors import (
    AddOption,
    RagstreamError,
    Refused,
    RunCommand,
    RunProgram,
    UsageError,
    quoted,
)
from ragstream_core.index.look import kept_generations
from ragstream_core.index.schema import CATALOG_NAME, is_pulled, read_mark
from ragstream_core.ingestion.document_tree import EMPTY, MISSING, NOT_FETCHED, DocumentTree
from ragstream_core.ingestion.forecast import UNREADABLE, without_reader
from ragstream_core.ingestion.junk import KINDS
from ragstream_core.platform import data_root
from ragstream_core.platform.data_root import Layout, checked
from ragstream_core.platform.files import make_private_dir, replace_text
from ragstream_core.platform.locks import serialized
from ragstream_core.remote.address import Address, is_remote, parse
from ragstream_core.wiring import ingestion, project_files, projects
from ragstream_core.wiring.project_files import ProjectFile, RootEntry

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.ingestion.scan import Scan
    from ragstream_core.wiring.workspace import Workspace

State = Literal["ok", "missing", "unreadable"]
_IGNORE = "# Made by RAGstream: prompts, conversations and indexes are nobody else's.\n*\n"


@dataclass(frozen=True, slots=True)
class RootState:
    """One folder of a project."""

    label: str  # stands before the paths of its documents if there are several folders
    path: str  # where it lies, or the address
    documents: int  # as many as were found in it now
    state: State = "ok"  # missing also if it is empty and was not: its documents stay indexed
    reason: str = ""  # why it is not ok


@dataclass(frozen=True, slots=True)
class ProjectState:
    """A project: where its documents lie, and how much of it is indexed."""

    name: str
    in_place: bool  # whether its folders are the user's own, outside the data root
    roots: tuple[RootState, ...] = ()
    include: tuple[str, ...] = ()  # its own globs of documents to take
    exclude: tuple[str, ...] = ()
    indexed: int = 0  # documents in the newest generation
    generation: int = 0  # 0: never ingested
    problem: str = ""  # why nothing can be said of it
    pulled_from: str = ""  # where its index is published, if it is made elsewhere


@dataclass(frozen=True, slots=True)
class Added:
    """What `add` wrote, or would write."""

    project: ProjectState  # as it is now
    file: str  # the project.yaml
    left_out: int  # files and folders that are no documents or are left out
    notes: tuple[str, ...]  # what a person should know: another file system, names that change
    written: bool  # False after a dry run


def list_projects(workspace: Workspace) -> tuple[ProjectState, ...]:
    """Return all projects, copied ones too, sorted; a file that cannot be used is a finding."""
    return tuple(project_state(workspace, name) for name in workspace.projects())


def project_state(workspace: Workspace, name: str) -> ProjectState:
    """Return where a project's documents lie and how many there are; writes nothing.

    Raises:
        UnknownProject: There is no such project.
        InvalidName: Not a project name.
    """
    workspace.require_project(name)
    state = ProjectState(name, projects.is_in_place(workspace.layout, name))
    try:
        found, documents = ingestion.inspection(workspace, name)
        said = project_files.read(workspace.layout, name) if state.in_place else None
        if is_pulled(index_dir := workspace.index_dir(name)):
            state = replace(state, pulled_from=read_mark(index_dir).url)
    except RagstreamError as error:
        return _counted(replace(state, problem=error.message), _newest(workspace, name))
    reason = found.pending.reason if found.pending else ""
    problem = reason.partition("\n")[0] if reason.startswith(UNREADABLE) else ""
    state = replace(state, roots=_roots(documents, found.found, said), problem=problem)
    if said is not None:
        state = replace(state, include=said.include, exclude=said.exclude)
    return _counted(state, found.newest)


def _counted(state: ProjectState, newest: Generation | None) -> ProjectState:
    if newest is None:
        return state
    return replace(state, indexed=newest.counts.get("files", 0), generation=newest.n)


def _newest(workspace: Workspace, name: str) -> Generation | None:
    try:
        return kept_generations(workspace.index_dir(name))[-1]
    except (RagstreamError, IndexError):
        return None


def _roots(documents: DocumentTree, found: Scan, said: ProjectFile | None) -> tuple[RootState, ...]:
    absent = {root.label: reason for root, reason in documents.absent(found)}
    read = found.files.keys() - without_reader(found).keys()
    states = []
    for n, root in enumerate(documents.roots):
        label = said.roots[n].label if said else ""
        count = sum(path.startswith(root.prefix) for path in read)
        reason = absent.get(root.label, "")
        gone = reason in (MISSING, EMPTY, NOT_FETCHED)
        state: State = "missing" if gone else "unreadable" if reason else "ok"
        states.append(RootState(label, root.shown, count, state, reason))
    return tuple(states)


@dataclass(frozen=True, slots=True)
class AddRequest:
    """What is to be added."""

    paths: Sequence[str | Path]  # folders and addresses, in the order of the labels
    labels: Sequence[str] = ()  # one a folder; none: the folders' own names
    include: Sequence[str] = ()  # git-style globs of documents to take; none: all
    exclude: Sequence[str] = ()
    replace: bool = False  # forget what the project read in place before
    overlap: bool = False  # also folders that another project reads, in whole or in part


def add(workspace: Workspace, name: str, request: AddRequest, *, dry_run: bool = False) -> Added:
    """Make a project of folders that stay where they are, or add folders to such a project.

    Args:
        workspace: The data root.
        name: Of the project.
        request: What is to be added.
        dry_run: Write nothing; the answer is the same.

    Raises:
        InvalidName: Not a project name.
        UsageError: A folder is missing, is a file, cannot be listed, lies in the data root, or
            comes twice; a label or a glob that is not valid; documents of that name are copied.
        Refused: Another project reads one of the folders.
        OSError: Disk full, permission denied.
    """
    _require_name(workspace, name)
    if not request.paths:
        raise UsageError("no folder given", hint=RunCommand("project add", f"{name} PATH"))
    folder = workspace.layout.projects
    places = [_place(workspace, path) for path in request.paths]
    with contextlib.nullcontext() if dry_run else serialized(make_private_dir(folder)):
        before = None
        if projects.is_in_place(workspace.layout, name) and not request.replace:
            before = project_files.read(workspace.layout, name)
        content = _content(before, places, request)
        documents = project_files.tree_of(workspace.layout, name, content)
        projects.require_apart(workspace, name, documents, overlap=request.overlap)
        if not dry_run:
            project_files.write(workspace.layout, name, content)
    found = documents.scan(ingestion.ingestion_config(workspace, name).rules)
    state = ProjectState(
        name, True, _roots(documents, found, content), content.include, content.exclude
    )
    return Added(
        state,
        str(workspace.layout.project_file(name)),
        len(found.refused) + len(without_reader(found)),
        tuple(_notes(workspace, name, documents, before)),
        not dry_run,
    )


def _require_name(workspace: Workspace, name: str) -> None:
    if projects.is_in_place(workspace.layout, checked(name)):
        return
    if name in workspace.projects():
        if is_pulled(workspace.index_dir(name)):
            raise UsageError(
                f"{name} is pulled; its documents lie where its index is made",
                hint=("choose another name, or ", RunCommand("project remove", name), " first"),
            )
        raise UsageError(
            f"the documents of {name} lie in {workspace.layout.doc_raw}; a project has "
            "either those or folders in place",
            hint="choose another name",
        )
    workspace.require_unused(name)


def existing_folder(given: str | Path) -> Path:
    """Return a folder that can be read, links in its path resolved.

    Raises:
        UsageError: There is no such folder, it cannot be listed, or it is the whole machine.
    """
    if not str(given).strip():
        raise UsageError("a path is empty", hint="name the folder; `.` is the one you are in")
    try:
        named = Path(given).expanduser()
    except RuntimeError:
        raise UsageError(f"{given}: there is no such user", hint="check the path") from None
    try:
        path = named.resolve(strict=True)
        with os.scandir(path) as entries:
            next(entries, None)
    except FileNotFoundError:
        raise UsageError(f"there is no folder {given}", hint="check the path") from None
    except NotADirectoryError:
        raise UsageError(
            f"{given} is a file", hint=("name its folder, and choose with ", AddOption("--include"))
        ) from None
    except PermissionError:
        raise UsageError(
            f"{given} cannot be listed: permission denied",
            hint=RunProgram(quoted("chmod", "u+rx", given)),
        ) from None
    except (OSError, ValueError, RuntimeError) as error:  # NUL, a loop of links
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{given} cannot be read: {why}", hint="check the path") from None
    if path == Path(path.anchor):
        raise UsageError(f"{path} is the whole machine", hint="name the folders that you mean")
    return path


def _folder(workspace: Workspace, given: str | Path) -> Path:
    path, root = existing_folder(given), Path(os.path.realpath(workspace.data_dir))
    if path.is_relative_to(root):
        raise UsageError(
            f"{path} lies within the data root {root}",
            hint="a folder below doc_raw is a project already; name a folder outside",
        )
    return path


def _place(workspace: Workspace, given: str | Path) -> Path | Address:
    """Return a folder or an address to be added."""
    if isinstance(given, str) and is_remote(given):
        return parse(given)
    return _folder(workspace, given)


def _content(
    before: ProjectFile | None, places: Sequence[Path | Address], request: AddRequest
) -> ProjectFile:
    """Return what the file is to say."""
    if request.labels and len(request.labels) != len(places):
        raise UsageError(
            f"{len(places)} folders and {len(request.labels)} labels",
            hint=("give ", AddOption("--label"), " once a folder, in their order"),
        )
    labels = request.labels or [label_of(place) for place in places]
    entries = [
        {"label": label, **({"url": at.url} if isinstance(at, Address) else {"path": str(at)})}
        for label, at in zip(labels, places, strict=True)
    ]
    try:
        added = [RootEntry.model_validate(entry) for entry in entries]
        old = project_files.labelled(before) if before else None
        if before and old and set(added) <= set(old.roots):
            old, added = before, []  # a project of one folder needs no label still
        return ProjectFile(
            roots=tuple(dict.fromkeys([*(old.roots if old else ()), *added])),
            include=tuple(dict.fromkeys([*(old.include if old else ()), *request.include])),
            exclude=tuple(dict.fromkeys([*(old.exclude if old else ()), *request.exclude])),
        )
    except ValidationError as error:
        _, fault = project_files.first_fault(error)
        twice = "comes twice" in fault
        raise UsageError(
            fault, hint=("give each folder a name with ", AddOption("--label")) if twice else ()
        ) from None


def name_for(workspace: Workspace, place: str) -> str:
    """Return the name of a project that was given none, from its first folder or address.

    Args:
        workspace: The data root.
        place: A path, or an address; it is checked, and nobody is contacted.

    Raises:
        UsageError: Neither a folder that can be read nor an address.
    """
    return label_of(_place(workspace, place))


def label_of(place: Path | Address) -> str:
    """Return the label of a folder or address that was given none, from its own name."""
    return project_files.label_of(place.title if isinstance(place, Address) else place.name)


def _notes(
    workspace: Workspace, name: str, documents: DocumentTree, before: ProjectFile | None
) -> Iterator[str]:
    here = workspace.data_dir.stat().st_dev
    for root in documents.roots:
        if root.path.is_dir() and root.path.stat().st_dev != here:
            yield (
                f"{root.path} is on another file system: while it is not mounted, its documents "
                "stay in the index as they were"
            )
        outermost = (
            folder
            for folder in root.closed
            if not any(folder != other and folder.startswith(other) for other in root.closed)
        )
        for folder in sorted(outermost):
            yield f"{root.path / folder.removeprefix(root.prefix)} is left out: RAGstream's own"
    if before is not None and len(before.roots) == len(documents.roots):
        yield f"{name} reads all of that already"
    if before is not None and len(before.roots) == 1 and len(documents.roots) > 1:
        yield (
            f"paths of documents now begin with the label of their folder, e.g. "
            f"{documents.roots[0].label}/; the next ingest renames them and embeds nothing again"
        )
    if before is None and (workspace.index_dir(name) / CATALOG_NAME).exists():
        yield (
            f"there is an index of {name} from before: what it holds and these folders do not "
            f"goes with the next ingest, or with `ragstream ingest {name} --yes`"
        )


@dataclass(frozen=True, slots=True)
class NewRoot:
    """A data root that was made."""

    folder: str  # what it reads
    data_dir: str
    project: str  # the name of the folder's project
    exclude: tuple[str, ...]  # kinds of files that are left out besides what .gitignore names
    above: str  # another data root that commands found here before


def init_folder(folder: Path, name: str = "") -> NewRoot:
    """Make ``FOLDER/.ragstream`` with one project: the folder itself, read in place.

    The project is written last; after a kill the command can be run again.

    Args:
        folder: Of the project.
        name: Of the project; empty: the folder's own name.

    Raises:
        UsageError: There is no such folder.
        InvalidName: Not a project name.
        Refused: It has a data root already, or something else has that name.
        OSError: Disk full, permission denied.
    """
    path = existing_folder(folder)
    project = checked(name or label_of(path))
    layout = Layout.of(path / data_root.FOLDER)
    if projects.names(layout):
        raise Refused(
            f"{path} has a data root already: {layout.root}",
            hint=(RunCommand("project list"), " shows what it reads"),
        )
    if os.path.lexists(layout.root) and not layout.root.is_dir():
        raise Refused(
            f"{layout.root} is there and is no folder", hint="move it away, then run again"
        )
    above = data_root.find(path)
    make_private_dir(layout.root)
    replace_text(layout.root / ".gitignore", _IGNORE)
    content = ProjectFile(roots=(RootEntry(label=project, path=".."),))
    project_files.write(layout, project, content)
    return NewRoot(str(path), str(layout.root), project, KINDS, str(above or ""))
