"""The files of the memory: derived from the journal, written after a turn and only then (C-21).

They lie in ``history/index/memory``: ``<index_name>.vectors`` (no text in it) and
``<index_name>_summary.json`` with ``.md`` beside it. One that is missing, damaged or of a journal
that is not the one of now is as good as none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.platform.locks import FolderLock

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.journal import Journal
    from ragstream_core.conversations.journal.records import Entry
    from ragstream_core.wiring.workspace import Workspace

WAIT_S = 2.0
DROP_WAIT_S = 60.0


@contextlib.contextmanager
def writing(workspace: Workspace, *, wait_s: float = WAIT_S) -> Iterator[Path]:
    """Make the folder and keep other writers out of it."""
    folder = workspace.layout.memory
    lock = FolderLock(folder, "the memory")
    with contextlib.closing(lock), lock.held(wait_s=wait_s):
        yield folder


def newer_than(log: Journal, seq: int, chain: str) -> list[Entry] | None:
    """Return the records behind one, ascending; None where the journal has another one there."""
    newer: list[Entry] = []
    for entry in log.backwards() if log.folder.is_dir() else ():
        if entry.seq <= seq:
            return newer[::-1] if (entry.seq, entry.chain) == (seq, chain) else None
        newer.append(entry)
    return None if seq else newer[::-1]


def drop(workspace: Workspace) -> list[str]:
    """Remove the memory's files; they are made again after the next turn."""
    folder = workspace.layout.memory
    if not folder.is_dir():
        return []
    with writing(workspace, wait_s=DROP_WAIT_S):
        gone = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
        for path in gone:
            path.unlink()
    return [path.relative_to(workspace.data_dir).as_posix() for path in gone]
