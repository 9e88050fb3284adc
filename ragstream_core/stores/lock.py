"""The project's writer lock: an flock, free at once when its owner dies; the holder is named."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ragstream_core.atomic import make_private_dir, sync_dir
from ragstream_core.errors import ProjectLocked
from ragstream_core.stores.disk import disk_failure

LOCK_NAME = ".lock"
HOLDER_NAME = ".lock-holder"
"""Beside the lock, not in it: whoever tries for the lock empties that file."""
_LOOKS = 100
_PAUSE_S = 0.002


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
        OperationFailed: The lock file cannot be made: disk full, permission denied.
    """
    from filelock import Timeout, UnixFileLock

    path = index_dir / LOCK_NAME
    lock = UnixFileLock(path, timeout=0, mode=0o600, is_singleton=False)
    try:
        _make_durable_dir(index_dir)
        lock.acquire()
    except Timeout:
        raise ProjectLocked(
            f"project {index_dir.name} is being written by {_holder(index_dir / HOLDER_NAME)}",
            hint="wait for it to finish, then run the command again",
        ) from None
    except OSError as error:
        raise disk_failure(path, error) from error
    try:
        holder = {
            "pid": os.getpid(),
            "start": process_start(os.getpid()),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only nobody is named
            (index_dir / HOLDER_NAME).write_text(json.dumps(holder), encoding="utf-8")
        yield
    finally:
        lock.release()


def _make_durable_dir(index_dir: Path) -> None:
    """Make the folder so that a power cut after the first commit cannot take it away."""
    if not index_dir.is_dir():
        make_private_dir(index_dir)
        sync_dir(index_dir.parent)
        sync_dir(index_dir.parent.parent)


def _holder(path: Path) -> str:
    """Name who holds a lock; the holder writes its name a moment after it has got it."""
    for _ in range(_LOOKS):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            row = json.loads(path.read_text(encoding="utf-8"))
            here = row["host"] == socket.gethostname()
            if not here or process_start(int(row["pid"])) == row["start"]:
                return f"process {row['pid']} on {row['host']} since {row['since']}"
        time.sleep(_PAUSE_S)
    return "another process"
