"""What takes the space below a data root."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.platform.disk import size_of
from ragstream_core.wiring import projects

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

_AREAS = {
    "doc_raw": "documents",
    "mirrors": "fetched documents",
    "projects": "project texts",
    "prompts": "prompts",
    "specs": "test specifications",
    "models": "models",
    "dagster_home": "Dagster runs",
    "chroma_db": "Chroma",
    "history": "history",
    "memory": "remembered facts",
    "index": "index",
}
_HISTORY = {
    "index": "history/index",
    "selection": "history/vectors/history_store.arrow",
    "Chroma": "history/vectors/history_main",
    "archive": "history/archive",
}


class Area(NamedTuple):
    """One folder or file directly below the data root: what it holds, where it lies, its size."""

    name: str
    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """What takes the space below a data root."""

    total: int  # bytes on disk
    free: int  # bytes that the disk has left
    areas: tuple[Area, ...]  # the largest first
    projects: dict[str, dict[str, int]]  # project → part of its index → bytes
    history: dict[str, int]  # part of the conversations → bytes


def disk_usage(workspace: Workspace) -> DiskUsage:
    """Return what takes the space below the data root."""
    root = workspace.data_dir
    paths = sorted(root.iterdir()) if root.is_dir() else []
    elsewhere, logs = workspace.layout.indexes, workspace.layout.logs
    for folder in (elsewhere, logs):
        if folder.is_dir() and not folder.resolve().is_relative_to(root.resolve()):
            paths.append(folder)
    areas = [Area(_AREAS.get(path.name, "other"), str(path), size_of(path)) for path in paths]
    return DiskUsage(
        total=sum(area.bytes for area in areas),
        free=shutil.disk_usage(root if root.is_dir() else Path.cwd()).free,
        areas=tuple(sorted(areas, key=lambda area: -area.bytes)),
        projects={
            name: _parts(workspace.index_dir(name)) for name in projects.indexed(workspace.layout)
        },
        history={
            name: size
            for name, path in (("journal", logs), *_history(root))
            if (size := size_of(path))
        },
    )


def _history(root: Path) -> Iterator[tuple[str, Path]]:
    return ((name, root / path) for name, path in _HISTORY.items())


def _parts(index_dir: Path) -> dict[str, int]:
    parts: dict[str, int] = {}
    for path in index_dir.iterdir():
        name = path.name
        kind = (
            "damaged copies" if ".damaged-" in name
            else "catalog" if name.startswith(CATALOG_NAME)
            else "vectors" if name.startswith("vectors-")
            else "lexical" if name.startswith("lexical-")
            else "token vectors" if name.startswith("tokens-")
            else "other"
        )  # fmt: skip
        parts[kind] = parts.get(kind, 0) + size_of(path)
    return dict(sorted(parts.items(), key=lambda item: -item[1]))
