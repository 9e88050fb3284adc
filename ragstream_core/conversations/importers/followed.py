"""What is remembered of logs that are followed, so that a look reads only those that changed.

One JSON file. If it is lost it is made again from the journal and the logs; turns that had been
cleared then come back when their log changes next.
"""

from __future__ import annotations

import datetime as dt
import json
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragstream_core.conversations.importers.reader import is_export
from ragstream_core.platform import sidecar
from ragstream_core.platform.files import replace_text
from ragstream_core.records.identity import sha256_hex

VERSION = 1

# An answer that its log does not call finished is taken once nothing was added for so long.
SETTLED = dt.timedelta(days=1)
# Bytes, mtime in ns, and whether nothing was added for `SETTLED`.
LogState = tuple[int, int, bool]


@dataclass(frozen=True, slots=True)
class _Written:
    v: int
    seq: int
    ids: frozenset[str]
    files: dict[str, LogState]


@dataclass(frozen=True, slots=True)
class FollowedLogs:
    """What was imported of the logs up to now."""

    seq: int  # number of the journal's record up to which `ids` is complete
    # digests (`id_digest`) of all turns that were imported, cleared ones among them: of those the
    # ids themselves are erased
    ids: frozenset[str]
    files: Mapping[str, LogState]  # path → state when it was read

    @classmethod
    def load(cls, path: Path) -> FollowedLogs:
        """Return what a file remembers; nothing if it is lost, damaged or of another version."""
        written = sidecar.read(path, _Written)
        if written is None or written.v != VERSION:
            return cls(0, frozenset(), {})
        return cls(written.seq, written.ids, written.files)

    def save(self, path: Path) -> None:
        """Remember it durably; a log that is gone is forgotten, its turns are not."""
        ids, files = sorted(self.ids), dict(self.files)
        replace_text(path, json.dumps({"v": VERSION, "seq": self.seq, "ids": ids, "files": files}))

    def changed(self, states: Mapping[str, LogState]) -> list[Path]:
        """Return the logs that are new or have changed, in their order."""
        return [Path(path) for path, state in states.items() if self.files.get(path) != state]


def id_digest(id_: str) -> str:
    """Return what stands for a turn's id, 24 hex digits."""
    return sha256_hex(id_)[:24]


def log_states(folders: Iterable[Path], now: dt.datetime) -> dict[str, LogState]:
    """Return the state of each log below folders: a change of any part is a reason to read it."""
    found: dict[str, LogState] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.jsonl")) if folder.is_dir() else ():
            try:
                state = path.lstat()
            except OSError:
                continue  # it has just gone
            if stat.S_ISREG(state.st_mode) and is_export(path.name):
                settled = now.timestamp() - state.st_mtime >= SETTLED.total_seconds()
                found[str(path)] = (state.st_size, state.st_mtime_ns, settled)
    return found
