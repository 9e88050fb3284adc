"""The lock of a folder's writers: an flock, free at once when its owner dies; the holder is named.

By hand, on a descriptor that stays open: taking it costs microseconds, so that a durable append
costs little more than its sync (`docs/decisions/026-journal-format.md`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from ragstream_core.errors import ProjectLocked, TryAgain
from ragstream_core.platform.files import PRIVATE_FILE, make_durable_dir

LOCK_NAME = ".lock"

# Beside the lock, not in it: the lock is a file that nobody ever writes.
HOLDER_NAME = ".lock-holder"
_LOOKS = 100
_PAUSE_S = 0.002
_BETWEEN_S = 0.05
Got = TypeVar("Got")


def process_start(pid: int) -> str:
    """Return the kernel's start time of a process in clock ticks, or "" where it is unknown.

    Pid and start time together name a process for good; a pid alone is used again.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def pid_namespace() -> str:
    """Return the number of this process's pid namespace, or "" where it is unknown.

    Containers that share the name of a host count their processes apart. The number of one that
    lives belongs to no other.
    """
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


class FolderLock:
    """Excludes all other writers of a folder, be they threads of this process or other processes.

    The folder is made when the lock is first taken; `what` is locked, for the message.
    """

    def __init__(self, folder: Path, what: str) -> None:
        self._folder = folder
        self._path = folder / LOCK_NAME
        self._holder = folder / HOLDER_NAME
        self._what = what
        self._fd = -1
        self._inode = 0
        self._threads = threading.Lock()
        self._pid = 0
        self._signed = (0, 0)

    @contextlib.contextmanager
    def held(self, *, wait_s: float = 0.0) -> Iterator[None]:
        """Hold the lock."""
        until = time.monotonic() + wait_s
        if not self._threads.acquire(timeout=wait_s):
            raise self._locked()
        try:
            while not self._take():
                if time.monotonic() >= until:
                    raise self._locked()
                time.sleep(_PAUSE_S)
            try:
                self._sign()
                yield
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def close(self) -> None:
        """Close the descriptor; the lock can be taken again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    def _take(self) -> bool:
        """Try once; a lock file that was replaced, or a descriptor from before a fork, is none."""
        if self._pid != os.getpid():
            self.close()
            self._pid, self._signed = os.getpid(), (0, 0)
        if self._fd < 0:
            make_durable_dir(self._folder)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
            self._inode = os.fstat(self._fd).st_ino
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # The folder may have been replaced by another one while we waited: then we locked a
        # file that nobody finds any more, and whoever comes next locks the new one.
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:
                return True
        self.close()
        return False

    def _sign(self) -> None:
        """Name this process as the holder, unless it was the last one already."""
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only nobody is named
            if self._signed != (0, 0) and self._signed == _identity(self._holder):
                return
            row = {
                "pid": os.getpid(),
                "start": process_start(os.getpid()),
                "host": socket.gethostname(),
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            self._holder.write_text(json.dumps(row), encoding="utf-8")
            self._signed = _identity(self._holder)

    def _locked(self) -> ProjectLocked:
        return ProjectLocked(
            f"{self._what} is being written by {holder_name(self._folder)}",
            hint=("wait for it to finish, then ", TryAgain()),
        )


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def holder_name(folder: Path) -> str:
    """Name who holds a folder's lock; the holder writes its name a moment after it has got it."""
    for _ in range(_LOOKS):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            row = json.loads((folder / HOLDER_NAME).read_text(encoding="utf-8"))
            here = row["host"] == socket.gethostname()
            if not here or process_start(int(row["pid"])) == row["start"]:
                return f"process {row['pid']} on {row['host']} since {row['since']}"
        time.sleep(_PAUSE_S)
    return "another process"


@contextlib.contextmanager
def serialized(folder: Path, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Let threads and processes work in an existing folder one after the other; needs no file.

    With `shared`, all who say so may work at once. Without `wait`, a folder that somebody works
    in is a `BlockingIOError`.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(fd, mode if wait else mode | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def one_thread_at_a_time(key: Hashable) -> Iterator[None]:
    """Let the threads of this process make one thing once: who waited finds what was made."""
    with _turns_guard:
        turn = _turns.setdefault(key, _Turn())
        turn.users += 1
    try:
        with turn.lock:
            yield
    finally:
        with _turns_guard:
            turn.users -= 1
            if not turn.users:
                del _turns[key]


@dataclass(slots=True)
class _Turn:
    """The lock of one key, and how many threads hold it or wait for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


_turns: dict[Hashable, _Turn] = {}
_turns_guard = threading.Lock()


def retry_while_locked(step: Callable[[], Got], *, wait_s: float) -> Got:
    """Do what never waits for a lock when whoever holds it is done."""
    until = time.monotonic() + wait_s
    while True:
        try:
            return step()
        except ProjectLocked:
            if time.monotonic() >= until:
                raise
            time.sleep(_BETWEEN_S)
