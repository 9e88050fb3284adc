"""Project names, and their folders: below ``doc_raw``, or in place and apart from one another.

A name leads nowhere outside the data root.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import (
    AddOption,
    RagstreamError,
    Refused,
    RunCommand,
    UnknownProject,
    UsageError,
)
from ragstream_core.index.schema import is_pulled
from ragstream_core.ingestion.document_tree import DocumentTree
from ragstream_core.platform.data_root import (
    NAME_RULE,
    PROJECT_FILE,
    Layout,
    checked,
    is_project_name,
)

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

FLAT = "default"


def names(layout: Layout) -> list[str]:
    """Return all project names, sorted.

    Folders of ``doc_raw``, ``default`` for its flat files, and the projects in place.
    """
    found = set(in_place(layout))
    root = layout.doc_raw
    if not root.is_dir():
        return sorted(found)
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                found.add(FLAT)
            elif entry.is_dir(follow_symlinks=False) and is_project_name(entry.name):
                found.add(entry.name)
    return sorted(found)


def all_names(layout: Layout) -> list[str]:
    """Return the names of all projects, those included whose index is made elsewhere, sorted."""
    return sorted({*names(layout), *pulled(layout)})


def in_place(layout: Layout) -> list[str]:
    """Return the names of the projects whose documents lie elsewhere, sorted."""
    root = layout.projects
    if not root.is_dir():
        return []
    with os.scandir(root) as entries:
        folders = [
            entry.name for entry in entries if entry.is_dir() and is_project_name(entry.name)
        ]
    return sorted(name for name in folders if is_in_place(layout, name))


def is_in_place(layout: Layout, project: str) -> bool:
    """Whether a file says where the documents of a project lie."""
    return (layout.projects / project / PROJECT_FILE).is_file()


def unfit(layout: Layout) -> list[tuple[str, str]]:
    """Return (name, reason) of the folders of ``doc_raw`` that cannot be projects, sorted.

    Hidden ones, whose name begins with a dot, are nobody's projects and not listed.
    """
    root = layout.doc_raw
    if not root.is_dir():
        return []
    with os.scandir(root) as entries:
        found = [(entry.name, _fault(layout, entry)) for entry in entries if entry.name[0] != "."]
    return sorted((_shown(name), fault) for name, fault in found if fault)


def _shown(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")  # bytes that are no text stay in no output


def _fault(layout: Layout, entry: os.DirEntry[str]) -> str:
    """Say why an entry that looks like a project is none; empty for projects and for files."""
    if entry.is_symlink():
        if entry.is_dir():
            return "a link: documents are read from real folders only; move or copy them here"
        return "" if entry.is_file() else "a link that leads nowhere; remove it"
    if entry.is_dir(follow_symlinks=False) and not is_project_name(entry.name):
        return f"not a project name; rename it: {NAME_RULE}"
    if entry.is_dir() and is_in_place(layout, entry.name):
        return f"not read: projects/{entry.name}/{PROJECT_FILE} names other folders"
    return ""


def require(layout: Layout, project: str) -> None:
    """Refuse a name that no project has, neither here nor pulled."""
    checked(project)
    known = all_names(layout)
    if project in known:
        return
    if fault := dict(unfit(layout)).get(project):
        raise UnknownProject(f"{layout.doc_raw / project} is not a project", hint=fault)
    near = difflib.get_close_matches(project, known, n=1)
    listed = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
    raise UnknownProject(
        f"no project {project!r} in {layout.root}",
        hint=(
            f"{listed}; ",
            RunCommand("project add", f"{project} PATH"),
            " makes a project of a folder",
        ),
    )


def copied(layout: Layout, project: str) -> DocumentTree:
    """Return where the documents of a project below the data root lie."""
    flat = is_flat(layout, project)
    return DocumentTree.of(layout.doc_raw / ("" if flat else project), flat=flat)


def is_flat(layout: Layout, project: str) -> bool:
    """Whether a project is the flat files of ``doc_raw`` itself: no folder is entered."""
    return (
        project == FLAT and not (layout.doc_raw / FLAT).is_dir() and not is_in_place(layout, FLAT)
    )


def indexed(layout: Layout) -> list[str]:
    """Return the names of the projects that have an index, with or without documents, sorted."""
    if not layout.indexes.is_dir():
        return []
    return sorted(
        p.name for p in layout.indexes.iterdir() if p.is_dir() and is_project_name(p.name)
    )


def pulled(layout: Layout) -> list[str]:
    """Return the names of the projects whose index is made elsewhere, sorted."""
    return [name for name in indexed(layout) if is_pulled(layout.indexes / name)]


def require_apart(
    workspace: Workspace, name: str, documents: DocumentTree, *, overlap: bool
) -> None:
    """Refuse folders that lie in one another, or in those of another project."""
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
    for project in in_place(workspace.layout):
        if project != name:
            try:
                roots = workspace.documents(project).roots
            except RagstreamError:  # its file is damaged: nothing is known of it
                continue
            yield from ((project, Path(os.path.realpath(root.path))) for root in roots)
