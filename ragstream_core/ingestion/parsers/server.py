"""The process that keeps the engines imported and forks a limited child for each file.

``python -m …`` with one end of a socket as its standard input. A request is a line of JSON with two
open files, what to read and where to answer; its answer is a line with the exit code of the child,
null where it was stopped at its wall clock. The end of the socket ends this process and its child.

It has one thread, looks at no file itself, and a child shares nothing with the next one.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from ragstream_core.ingestion.parsers import child
from ragstream_core.ingestion.parsers.engines import Limits

LINE_BYTES = 65_536
_PR_SET_PDEATHSIG = 1
_GRACE_S = 5  # after its wall clock a child ends by its own alarm, should nobody be left to end it


class _Server:
    def __init__(self, asked: socket.socket) -> None:
        self._asked = asked
        self._loaded: set[str] = set()
        self._ended, told = os.pipe()
        os.set_blocking(self._ended, False)
        os.set_blocking(told, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(told)

    def run(self) -> None:
        while (request := self._request()) is not None:
            given, files = request
            limits = Limits(**given["limits"])
            self._load(given["kind"])
            pid = os.fork()
            if pid == 0:
                _child(given, files, limits)
            for file in files:
                os.close(file)
            code = self._wait(pid, limits.wall_s)
            self._asked.sendall(json.dumps({"code": code}).encode() + b"\n")

    def _request(self) -> tuple[dict[str, Any], list[int]] | None:
        line, files = b"", list[int]()
        while not line.endswith(b"\n"):
            part, opened, _, _ = socket.recv_fds(self._asked, LINE_BYTES, 2)
            if not part:
                return None
            line, files = line + part, files + opened
        return json.loads(line), files

    def _load(self, kind: str) -> None:
        if kind in self._loaded:
            return
        self._loaded.add(kind)
        child.load(kind)
        threads = threads_of_this_process()
        if threads > 1:
            raise SystemExit(f"the engines of {kind} started {threads - 1} threads")
        gc.collect()
        gc.freeze()  # a child does not copy these pages to count what refers to them

    def _wait(self, pid: int, wall_s: float) -> int | None:
        ends = time.monotonic() + wall_s
        try:
            while True:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    return os.waitstatus_to_exitcode(status)
                left = ends - time.monotonic()
                if left <= 0:
                    return None
                ready, _, _ = select.select([self._asked.fileno(), self._ended], [], [], left)
                if (
                    self._asked.fileno() in ready
                ):  # nobody asks before the answer: the other end is closed
                    raise SystemExit
                if ready:
                    os.read(self._ended, LINE_BYTES)
        finally:
            _end_group(pid)


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # it may not have a group yet
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _child(given: dict[str, Any], files: list[int], limits: Limits) -> NoReturn:
    try:
        os.setsid()
        _end_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.alarm(int(limits.wall_s) + _GRACE_S)
        for wanted, file in enumerate(files):
            os.dup2(file, wanted)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        child.run(given["kind"], given["type"], limits)
    finally:
        os._exit(1)


def _end_with_parent() -> None:
    """Have the system end this process with the one that forked it, where it can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def threads_of_this_process() -> int:
    """Return how many threads the system counts; 1 where it does not say."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return 1


def main() -> None:
    """Run as the server: see the module."""
    child.leave_out()
    _Server(socket.socket(fileno=0)).run()


if __name__ == "__main__":
    main()
