"""The folders of projects in place, beside one another: none may hold the documents of another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import AddOption, RagstreamError, Refused, UsageError
from ragstream_core.wiring import projects

if TYPE_CHECKING:
    from ragstream_core.ingestion.document_tree import DocumentTree
    from ragstream_core.wiring.workspace import Workspace


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
    for project in projects.in_place(workspace.data_dir):
        if project != name:
            try:
                roots = workspace.documents(project).roots
            except RagstreamError:  # its file is damaged: nothing is known of it
                continue
            yield from ((project, Path(os.path.realpath(root.path))) for root in roots)
