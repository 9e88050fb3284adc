"""Children that open Chroma, forked from one process that has imported it.

Importing Chroma takes a child of its own a second of CPU, which is most of what a test of a
collection takes. What is forked is a process like any other: it has a pid, can be killed, and ends
with its connection. `tests/unit/proposers/test_chroma_process.py` starts them as the product
does.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

ROOT = Path(__file__).parents[1]
LENGTH = 1 << 20
_guard = threading.Lock()
_servers: list[socket.socket] = []


class Forked:
    """What `ChromaProcess` needs of `subprocess.Popen`; the words are always the same."""

    def __init__(
        self, _words: list[str], *, stdin: int, stdout: IO[bytes], stderr: IO[bytes], cwd: Path
    ) -> None:
        given = json.dumps({"cwd": str(cwd), "environment": dict(os.environ)}).encode()
        ours, theirs = os.pipe()
        fds = [stdin, stdout.fileno(), stderr.fileno(), theirs]
        with _guard:
            server = _server()
            socket.send_fds(server, [given], fds)
            self.pid = int(server.recv(LENGTH))
        os.close(theirs)
        self._status = open(ours, "rb", buffering=0)  # noqa: SIM115 - closed when it is read
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it ended, None as long as it has not."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended and return how."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("child", timeout or 0.0)
            with self._status:
                self.returncode = int(self._status.read() or b"-9")
        return self.returncode

    def kill(self) -> None:
        """Kill it if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


INSTEAD = SimpleNamespace(Popen=Forked, TimeoutExpired=subprocess.TimeoutExpired)
"""Stands for `subprocess` in `ragstream_core.proposers.chroma.process`."""


def _server() -> socket.socket:
    """Return the connection to this process's server, which ends with it."""
    if not _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-c", "from tests.chroma_children import serve; serve()"]
            subprocess.Popen(words, stdin=theirs.fileno(), cwd=ROOT)
        _servers.append(ours)
    return _servers[0]


def serve() -> NoReturn:
    """Fork a child for each message on standard input, until the other side is gone."""
    import chromadb  # noqa: F401 - what the children need not import

    from ragstream_core.proposers.chroma import child

    for name in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(name, signal.SIG_IGN)
    asked = socket.socket(fileno=os.dup(0))
    while True:
        given, fds, _, _ = socket.recv_fds(asked, LENGTH, 4)
        if not given:
            os._exit(0)
        if not os.fork():
            for name in (signal.SIGINT, signal.SIGCHLD):
                signal.signal(name, signal.SIG_DFL)
            _keep(asked, json.loads(given), fds, child.main)
        for fd in fds:
            os.close(fd)


def _keep(
    asked: socket.socket, given: dict[str, Any], fds: list[int], main: Callable[[], None]
) -> NoReturn:
    """Fork the child, tell its pid, wait for it, and say how it ended."""
    *streams, status = fds
    pid = os.fork()
    if not pid:
        for target, fd in enumerate(streams):
            os.dup2(fd, target)
        asked.close()
        for fd in fds:
            os.close(fd)
        os.environ.clear()
        os.environ.update(given["environment"])
        os.chdir(given["cwd"])
        try:
            main()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    for fd in streams:  # the other side sees the end of the child's connection
        os.close(fd)
    asked.send(str(pid).encode())
    asked.close()
    _, ended = os.waitpid(pid, 0)
    os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
    os._exit(0)
