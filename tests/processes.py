"""Processes, ports and HTTP servers, for tests that start some: who lives, what is free."""

import base64
import contextlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PATIENCE_S = 60.0
_PORTS = itertools.count(os.getpid() * 37)


def free_port() -> int:
    """Return a port of the loopback address that nothing listens on, another one each time.

    The system gives none of these out by itself, so it stays free until a server takes it; each
    worker begins elsewhere.
    """
    for number in _PORTS:
        port = 20_000 + number % 12_000
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("unreachable: the count has no end")


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    with contextlib.suppress(OSError):  # it may end at any moment
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(p) for p in task.read_text().split()]
    return found


def command_of(pid: int) -> str:
    """Return the words that a process was started with; nothing if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def memory_mb(pid: int) -> int:
    """Return the resident memory of a process, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) >> 10


def until(condition: Callable[[], object], seconds: float = PATIENCE_S) -> bool:
    """Wait until something is so; return whether it is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def read_head(stream: socket.socket) -> bytes:
    """Return the head of an HTTP answer, in whatever pieces it comes."""
    said = b""
    while b"\r\n\r\n" not in said and (more := stream.recv(4096)):
        said += more
    return said


def opens_web_socket(port: int, path: str, headers: dict[str, str]) -> bool:
    """Whether a server on loopback opens a WebSocket for a browser that sends these headers."""
    sent = {
        "Host": f"127.0.0.1:{port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Version": "13",
        **headers,
    }
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {text}" for name, text in sent.items())]
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as stream:
        stream.sendall("\r\n".join([*lines, "", ""]).encode())
        return read_head(stream).startswith(b"HTTP/1.1 101")


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

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that went away is part of the test."""

    def server_close(self) -> None:
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
