"""Project names, and their folders: below ``doc_raw``, or in place and apart from one another.

A name leads nowhere outside the data root.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import (
    AddOption,
    InvalidName,
    RagstreamError,
    Refused,
    RunCommand,
    UnknownProject,
    UsageError,
)
from ragstream_core.index.schema import is_pulled
from ragstream_core.ingestion.document_tree import PROJECT_FILE, DocumentTree

if TYPE_CHECKING:
    from ragstream_core.ingestion.document_tree import DocumentTree
    from ragstream_core.wiring.workspace import Workspace

FLAT = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RULE = (
    "1 to 64 letters, digits, '.', '_', '-', starting with a letter or digit, no '..', "
    "no name of a Windows device"
)
_PORTS = (f"{port}{number}" for port in ("com", "lpt") for number in range(10))
_DEVICES = frozenset({"con", "prn", "aux", "nul", *_PORTS})


def checked(project: str) -> str:
    """Return the name itself when it is a project name.

    Raises:
        InvalidName: Other characters, ``..``, too long, or a Windows device name.
    """
    if not is_valid(project):
        raise InvalidName(f"{project!r} cannot be a project name", hint=RULE)
    return project


def is_valid(name: str) -> bool:
    """Whether a name can be a project's: see `RULE`."""
    device = name.split(".", maxsplit=1)[0].lower()
    return bool(_NAME.fullmatch(name)) and ".." not in name and device not in _DEVICES


def names(data_dir: Path) -> list[str]:
    """Return all project names, sorted.

    Folders of ``doc_raw``, ``default`` for its flat files, and the projects in place.
    """
    found = set(in_place(data_dir))
    root = data_dir / "doc_raw"
    if not root.is_dir():
        return sorted(found)
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                found.add(FLAT)
            elif entry.is_dir(follow_symlinks=False) and is_valid(entry.name):
                found.add(entry.name)
    return sorted(found)


def in_place(data_dir: Path) -> list[str]:
    """Return the names of the projects whose documents lie elsewhere, sorted."""
    root = data_dir / "projects"
    if not root.is_dir():
        return []
    with os.scandir(root) as entries:
        folders = [entry.name for entry in entries if entry.is_dir() and is_valid(entry.name)]
    return sorted(name for name in folders if is_in_place(data_dir, name))


def is_in_place(data_dir: Path, project: str) -> bool:
    """Whether a file says where the documents of a project lie."""
    return (data_dir / "projects" / project / PROJECT_FILE).is_file()


def unfit(data_dir: Path) -> list[tuple[str, str]]:
    """Return (name, reason) of the folders of ``doc_raw`` that cannot be projects, sorted.

    Hidden ones, whose name begins with a dot, are nobody's projects and not listed.
    """
    root = data_dir / "doc_raw"
    if not root.is_dir():
        return []
    with os.scandir(root) as entries:
        found = [(entry.name, _fault(entry)) for entry in entries if entry.name[0] != "."]
    return sorted((_shown(name), fault) for name, fault in found if fault)


def _shown(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")  # bytes that are no text stay in no output


def _fault(entry: os.DirEntry[str]) -> str:
    """Say why an entry that looks like a project is none; empty for projects and for files."""
    if entry.is_symlink():
        if entry.is_dir():
            return "a link: documents are read from real folders only; move or copy them here"
        return "" if entry.is_file() else "a link that leads nowhere; remove it"
    if entry.is_dir(follow_symlinks=False) and not is_valid(entry.name):
        return f"not a project name; rename it: {RULE}"
    if entry.is_dir() and is_in_place(Path(entry.path).parents[1], entry.name):
        return f"not read: projects/{entry.name}/{PROJECT_FILE} names other folders"
    return ""


def require(data_dir: Path, project: str, index_root: Path) -> None:
    """Refuse a name that no project has, neither here nor pulled.

    Raises:
        InvalidName: Not a project name.
        UnknownProject: There is no such project; the nearest name is named.
    """
    checked(project)
    known = sorted({*names(data_dir), *pulled(index_root)})
    if project in known:
        return
    if fault := dict(unfit(data_dir)).get(project):
        raise UnknownProject(f"{data_dir / 'doc_raw' / project} is not a project", hint=fault)
    near = difflib.get_close_matches(project, known, n=1)
    listed = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
    raise UnknownProject(
        f"no project {project!r} in {data_dir}",
        hint=(
            f"{listed}; ",
            RunCommand("project add", f"{project} PATH"),
            " makes a project of a folder",
        ),
    )


def copied(data_dir: Path, project: str) -> DocumentTree:
    """Return where the documents of a project below the data root lie."""
    flat = is_flat(data_dir, project)
    return DocumentTree.of(data_dir / "doc_raw" / ("" if flat else project), flat=flat)


def is_flat(data_dir: Path, project: str) -> bool:
    """Whether a project is the flat files of ``doc_raw`` itself: no folder is entered."""
    return (
        project == FLAT
        and not (data_dir / "doc_raw" / FLAT).is_dir()
        and not is_in_place(data_dir, FLAT)
    )


def indexed(index_root: Path) -> list[str]:
    """Return the names of the projects that have an index, with or without documents, sorted."""
    if not index_root.is_dir():
        return []
    return sorted(p.name for p in index_root.iterdir() if p.is_dir() and is_valid(p.name))


def pulled(index_root: Path) -> list[str]:
    """Return the names of the projects whose index is made elsewhere, sorted."""
    return [name for name in indexed(index_root) if is_pulled(index_root / name)]


def require_apart(
    workspace: Workspace, name: str, documents: DocumentTree, *, overlap: bool
) -> None:
    """Refuse folders that lie in one another, or in those of another project.

    Raises:
        UsageError: Two folders of the project do.
        Refused: One of another project does, and that is not wanted.
    """
    real = [Path(os.path.realpath(root.path)) for root in documents.roots]
    for n, one in enumerate(real):
        for other in real[:n]:
            if one == other:
                raise UsageError(f"{one} is a folder of {name} already", hint="name it once")
            if _nested(one, other):
                raise UsageError(
                    f"of {one} and {other} one lies in the other", hint="name the outer one alone"
                )
    for project, path in [] if overlap else _others(workspace, name):
        for one in real:
            if _nested(one, path):
                raise Refused(
                    f"{one} and {path}, a folder of project {project}, hold the same documents",
                    hint=(AddOption("--overlap"), " indexes them twice"),
                )


def _nested(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _others(workspace: Workspace, name: str) -> Iterator[tuple[str, Path]]:
    """Yield (project, folder) of what the other projects read in place."""
    for project in in_place(workspace.data_dir):
        if project != name:
            try:
                roots = workspace.documents(project).roots
            except RagstreamError:  # its file is damaged: nothing is known of it
                continue
            yield from ((project, Path(os.path.realpath(root.path))) for root in roots)
