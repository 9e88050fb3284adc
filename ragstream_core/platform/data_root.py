"""Finds the data root that `ragstream init` made beside a project, as git finds its repository."""

from __future__ import annotations

import os
import stat
from pathlib import Path

FOLDER = ".ragstream"
_DATA = ("doc_raw", "projects")


def find(start: Path) -> Path | None:
    """Return the nearest ``.ragstream`` in a folder or above it, None without one.

    One that belongs to another user is passed over: what it says would be read and written under
    our name. A ``data`` folder beside the command stays the data root that it always was.
    """
    for folder in (start, *start.parents):
        candidate = folder / FOLDER
        if _is_ours(candidate):
            return candidate
        if folder == start and any((folder / "data" / name).is_dir() for name in _DATA):
            return None
    return None


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.stat()
        complete = (folder / "projects").is_dir()
    except OSError:
        return False
    return complete and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
