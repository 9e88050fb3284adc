"""The files of a backup: where they lie, how they are checked, and how a folder takes its place."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ragstream_core.conversations.journal.segments import CURRENT, closed_segments, torn_files
from ragstream_core.errors import IntegrityError, RunCommand
from ragstream_core.index.check import verify_structure
from ragstream_core.index.schema import CATALOG_NAME

LIST_NAME = "backup.json"
BACKUP_VERSION = 1
HOME, LOGS = "history", "logs"
"""Where conversations lie in a backup, wherever they lie in the data root."""
_MADE_AGAIN = re.compile(r"session-.*\.log|\.sessions\.json|\.lock(-holder)?|\.(conv|sess).*\.tmp")
"""Names in the folder of the journal beside its own: what is made from it, and its lock."""


class IndexState(NamedTuple):
    """The newest generation of a project: its number, 0 for none, and its digest."""

    generation: int
    digest: str


def files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder, sorted."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.is_file() and not path.is_symlink():
            yield path


def journal_files(folder: Path) -> Iterator[Path]:
    """Yield the segments of a journal, oldest first, and what was quarantined."""
    yield from (segment.path for segment in closed_segments(folder))
    if (folder / CURRENT).exists():
        yield folder / CURRENT
    yield from torn_files(folder)


def verify_indexes(root: Path, states: Mapping[str, IndexState]) -> None:
    """Check the copies of indexes as the indexes themselves are checked."""
    for name, state in states.items():
        findings = verify_structure(root / "index" / name) if state.generation else []
        if findings:
            raise IntegrityError(
                f"the copy of {name} is not sound: {findings[0].message}",
                hint=RunCommand("index check", f"{name} --read-data 1/1"),
            )


def verify_history(root: Path) -> None:
    """Check the catalog in a backup as the catalog itself is checked."""
    from ragstream_core.wiring.verify_history import name_chunk

    index_dir = root / HOME / "index"
    if not (index_dir / CATALOG_NAME).exists():
        return
    findings = verify_structure(index_dir, name_chunk=name_chunk)
    if findings:
        raise IntegrityError(
            f"the copy of the history is not sound: {findings[0].message}",
            hint=RunCommand("history check"),
        )


def keep_others(staging: Path, place: Path) -> None:
    """Take what is not of the journal along into the folder that replaces the folder of logs.

    The debug logs lie there, and where `paths.logs` says so, files of others. They are linked, not
    moved: whatever a kill leaves, each is in the place that counts.
    """
    shutil.copymode(place, staging)
    journal = set(journal_files(place))
    for path in place.iterdir():
        if path in journal or _MADE_AGAIN.fullmatch(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, staging / path.name, symlinks=True, copy_function=_linked)
        else:
            _linked(path, staging / path.name)


def _linked(source: str | Path, to: str | Path) -> None:
    """Give a file a second name; where the file system has no such names, copy it."""
    try:
        os.link(source, to, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, to, follow_symlinks=False)
