"""The project's writer lock: an flock, free at once when its owner dies; the holder is named."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ragstream_core.atomic import make_private_dir
from ragstream_core.errors import ProjectLocked

LOCK_NAME = ".lock"


def process_start(pid: int) -> str:
    """Return the kernel's start time of a process in clock ticks, or "" where it is unknown.

    Pid and start time together name a process for good; a pid alone is used again.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@contextlib.contextmanager
def project_lock(index_dir: Path) -> Iterator[None]:
    """Hold the writer lock of one project; never waits.

    Raises:
        ProjectLocked: Another process holds it; the message says which one since when.
    """
    from filelock import Timeout, UnixFileLock

    path = make_private_dir(index_dir) / LOCK_NAME
    lock = UnixFileLock(path, timeout=0, mode=0o600, is_singleton=False)
    try:
        lock.acquire()
    except Timeout:
        raise ProjectLocked(
            f"project {index_dir.name} is being written by {_holder(path)}",
            hint="wait for it to finish, then run the command again",
        ) from None
    try:
        holder = {
            "pid": os.getpid(),
            "start": process_start(os.getpid()),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        path.write_text(json.dumps(holder), encoding="utf-8")
        yield
    finally:
        lock.release()


def _holder(path: Path) -> str:
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        return f"process {row['pid']} on {row['host']} since {row['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
