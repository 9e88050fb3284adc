"""Processes, ports and HTTP servers, for tests that start some: who lives, what is free."""

import contextlib
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def free_port() -> int:
    """Return a port of the loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(p) for p in task.read_text().split()]
    return found


def until(condition, seconds: float = 20.0) -> bool:
    """Wait until something is so; return whether it is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server in a thread of this process.

    Closing it ends the thread too: one that waits for a closed socket takes a core for itself.
    """

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        """Say nothing: a client that went away is part of the test."""

    def server_close(self):
        """Stop, then close; again does nothing."""
        self.shutdown()
        super().server_close()


def serving_threads() -> set[threading.Thread]:
    """Return the threads of this process that run the loop of a server of `socketserver`."""
    return {
        thread
        for thread in threading.enumerate()
        if getattr(getattr(thread, "_target", None), "__name__", "") == "serve_forever"
    }
