"""The files of a backup: where they lie, how they are checked, and how a folder takes its place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ragstream_core.conversations.journal.segments import CURRENT, closed_segments, torn_files
from ragstream_core.errors import IntegrityError, RunCommand
from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.index.verify import verify_structure
from ragstream_core.platform.files import aside_of, exchange_dirs, publish_dir

LIST_NAME = "backup.json"
BACKUP_VERSION = 1
HOME, LOGS = "history", "logs"
"""Where conversations lie in a backup, wherever they lie in the data root."""


class IndexState(NamedTuple):
    """The newest generation of a project: its number, 0 for none, and its digest."""

    generation: int
    digest: str


def files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder but the list itself, sorted."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.is_file() and not path.is_symlink() and path.name != LIST_NAME:
            yield path


def journal_files(folder: Path) -> Iterator[Path]:
    """Yield the segments of a journal, oldest first, and what was quarantined."""
    yield from (segment.path for segment in closed_segments(folder))
    if (folder / CURRENT).exists():
        yield folder / CURRENT
    yield from torn_files(folder)


def verify_indexes(root: Path, states: Mapping[str, IndexState]) -> None:
    """Check the copies of indexes as the indexes themselves are checked.

    Raises:
        IntegrityError: One is not what was committed.
    """
    for name, state in states.items():
        findings = verify_structure(root / "index" / name) if state.generation else []
        if findings:
            raise IntegrityError(
                f"the copy of {name} is not sound: {findings[0].message}",
                hint=RunCommand("index check", f"{name} --read-data 1/1"),
            )


def verify_history(root: Path) -> None:
    """Check the catalog in a backup as the catalog itself is checked.

    Raises:
        IntegrityError: It is not what was committed.
    """
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


def replace_folder(staging: Path, target: Path) -> None:
    """Give a complete folder its name; what was there goes afterwards.

    Raises:
        OSError: Disk full, permission denied; the old folder stays.
    """
    if target.exists():
        exchange_dirs(staging, target)
        shutil.rmtree(staging, ignore_errors=True)
    else:
        publish_dir(staging, target)
    shutil.rmtree(aside_of(target), ignore_errors=True)
