"""What a mirror knows of its files: one line a file, appended as they come, replaced as a whole.

A line that says nothing of a file means that it is the mirror's own and may hold anything. Those
lines are on the disk before the first byte changes, so that a mirror that was killed knows which
files it may have touched. A torn last line, or one that cannot be read, only means that a file is
fetched again.
"""

from __future__ import annotations

import contextlib
import json
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ragstream_core.platform.files import append_text, replace_text

FORMAT = 1

# In the folder of a mirror: its documents, what is known of them, what is being fetched.
FILES, STATE, PARTS = "files", "state.jsonl", "parts"


class Row(NamedTuple):
    """A file as it was mirrored: version there; bytes and time of the file here."""

    version: str
    size: int
    mtime_ns: int


@dataclass(slots=True)
class MirrorState:
    """The files of one mirror."""

    path: Path
    url: str
    revision: str = ""  # of the whole place, with the rules of choosing; "": unknown
    # None: the mirror's own, content unknown
    rows: dict[str, Row | None] = field(default_factory=dict)

    def begin(self, unknown: Iterable[str]) -> None:
        """Put on the disk which files are about to change."""
        self.rows.update(dict.fromkeys(unknown))
        self.revision = ""
        self.write()

    def fetched(self, rows: Mapping[str, Row]) -> None:
        """Note files that are in their places; one whose line a crash takes is fetched again."""
        self.rows.update(rows)
        text = "".join(_line(path, row) for path, row in rows.items())
        append_text(self.path, text, create=False)

    def write(self) -> None:
        """Replace the file by what is known, durably."""
        head = json.dumps({"format": FORMAT, "url": self.url, "revision": self.revision})
        lines = (_line(path, row) for path, row in sorted(self.rows.items()))
        for left in self.path.parent.glob(f".{self.path.name}.*.tmp"):
            left.unlink(missing_ok=True)  # of a write that was killed; the folder is locked
        replace_text(self.path, f"{head}\n{''.join(lines)}")

    def holds(self, folder: Path, path: str, version: str) -> bool:
        """Return whether a version of a file lies in the mirror as it was put there."""
        row = self.rows.get(path)
        return bool(row and version and row.version == version and _is_there(folder / path, row))

    def is_whole(self, folder: Path) -> bool:
        """Return whether all files that are known lie there as they were put there."""
        return all(row and _is_there(folder / path, row) for path, row in self.rows.items())


def load_state(path: Path, url: str) -> MirrorState:
    """Return what is known of a mirror; nothing if it is of another address.

    Files of another address stay known as the mirror's own, so that they can go.
    """
    state = MirrorState(path, url)
    if not path.is_file():
        return state
    head, *lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    try:
        header = json.loads(head)
        same = header["format"] == FORMAT and header["url"] == url
        state.revision = str(header["revision"]) if same else ""
    except (ValueError, KeyError, TypeError):
        return state
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):
            name, row = json.loads(line)
            state.rows[str(name)] = Row(*row) if row and same else None
    return state


def _line(path: str, row: Row | None) -> str:
    return json.dumps([path, row], ensure_ascii=True) + "\n"


def _is_there(path: Path, row: Row) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    now = (found.st_size, found.st_mtime_ns)
    return stat.S_ISREG(found.st_mode) and now == (row.size, row.mtime_ns)
