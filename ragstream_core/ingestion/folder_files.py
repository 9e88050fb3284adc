"""Single files of a project's folder: how one is opened, and what stands for a state of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.index.rows import Signature

if TYPE_CHECKING:
    from ragstream_core.ingestion.packed import PackedStat

IGNORE_NAMES = frozenset({".gitignore", ".ragignore"})
_INODE_MASK = (1 << 63) - 1  # SQLite integers are signed
_LAST_NS = (1 << 63) - 1  # in 2262; a clock that was wrong may have left a later time


def signature_of(st: os.stat_result | PackedStat) -> Signature:
    """Return the signature of a stat result, as `scan` records it."""
    changed = st.st_mtime_ns if st.st_mtime_ns < _LAST_NS else _LAST_NS
    return st.st_size, changed, st.st_ctime_ns, st.st_ino & _INODE_MASK


def open_beneath(root: Path, path: str) -> int:
    """Open a regular file below ``root`` for reading; no component below it may be a link."""
    *folders, name = path.split("/")
    if "" in folders or ".." in (*folders, name) or not name:
        raise OSError(f"not a path below the project: {path!r}")
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        # O_NONBLOCK: a pipe put in the file's place must not block the ingest
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)
