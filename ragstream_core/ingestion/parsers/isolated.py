"""`parse`: a file in a child process with limits on memory, CPU and time.

The child gets the bytes that were hashed. Whatever it does, the caller gets pages or one reason.
Inside `kept_engines` children are forked from one process that has the engines imported, started
at the first file and again should it end; elsewhere each file starts Python anew.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from typing import IO

from ragstream_core.ingestion.file_types import kind_of
from ragstream_core.ingestion.parsers import engines
from ragstream_core.ingestion.parsers.engines import SPLIT, Limits, Parsed, too_long
from ragstream_core.ingestion.parsers.scans import lacks_text, read_scans
from ragstream_core.platform.files import on_failure
from ragstream_core.platform.sandbox import run_child, start_child

CHILD = "ragstream_core.ingestion.parsers.child"

# Seconds the import of the engines may take, on top of the wall clock of the file.
START_S = 60
# After so many ends in a row no server is started any more.
FAULTS = 3


class ServerLost(Exception):
    """Raised when no server answers; the file may be as innocent as the server."""


class ParserServer:
    """Has files read by forked children of one process; for one thread.

    Attributes:
        starts: How often the process was started.
    """

    def __init__(self) -> None:
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._faults = 0

    @staticmethod
    def available() -> bool:
        """Return whether this system can fork and hand open files to another process."""
        return hasattr(os, "fork") and hasattr(socket, "send_fds")

    @property
    def pid(self) -> int:
        """The process id of the server; 0 if none runs."""
        return self._process.pid if self._process else 0

    def run(
        self, kind: str, file_type: str, *, given: IO[bytes], answer: IO[bytes], limits: Limits
    ) -> int | None:
        """Have one file read."""
        if self._faults >= FAULTS:
            raise ServerLost
        request = {"kind": kind, "type": file_type, "limits": asdict(limits)}
        with on_failure(self.close):  # an interrupt: the answer would be the next question's
            try:
                connection = self._connected()
                connection.settimeout(limits.wall_s + START_S)
                line = json.dumps(request).encode() + b"\n"
                socket.send_fds(connection, [line], [given.fileno(), answer.fileno()])
                with connection.makefile("rb") as answers:
                    code: int | None = json.loads(answers.readline())["code"]
            except (OSError, ValueError, KeyError) as error:
                self._faults += 1
                raise ServerLost from error
        self._faults = 0
        return code

    def close(self) -> None:
        """End the process; the next file would start another."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._socket = self._process = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            with theirs:
                self._process = start_child(["-m", CHILD, "serve"], stdin=theirs.fileno())
            self.starts += 1
        return self._socket


_KEPT: ContextVar[ParserServer | None] = ContextVar("kept_engines", default=None)


@contextlib.contextmanager
def kept_engines() -> Iterator[ParserServer | None]:
    """Within this block, in this thread, `parse` imports engines once for all files."""
    if not ParserServer.available():
        yield None
        return
    server = ParserServer()
    before = _KEPT.set(server)
    try:
        yield server
    finally:
        _KEPT.reset(before)
        server.close()


def parse(data: bytes, *, file_type: str, limits: Limits) -> Parsed:
    """Read a PDF or Office file, or a picture; never raises for what the file holds."""
    lacking = engines.missing(file_type)
    if lacking:
        return Parsed(None, lacking)
    kind, server = kind_of(file_type), _KEPT.get()
    if kind == "picture":
        return read_scans(data, file_type, Parsed(None, ""))
    try:
        if server is None:
            raise ServerLost
        asked = functools.partial(server.run, kind, file_type, limits=limits)
        answer, problem = _exchange(data, asked, limits)
    except ServerLost:  # whatever ended the server: this file is tried once more, alone
        answer, problem = ask_child(["-m", CHILD, kind, file_type], data, limits)
    parsed = Parsed(None, problem) if problem else _parsed(answer)
    is_scan = kind == "pdf" and lacks_text(parsed)
    return read_scans(data, file_type, parsed) if is_scan else parsed


def ask_child(words: Sequence[str], data: bytes, limits: Limits) -> tuple[bytes, str]:
    """Give a file to a child process that limits itself; return its answer, or what is wrong."""
    numbers = (limits.memory_bytes, limits.cpu_s, limits.pages, limits.text_bytes)

    def run(*, given: IO[bytes], answer: IO[bytes]) -> int | None:
        return run_child(
            [*words, *map(str, numbers)], given, answer=answer, wall_s=limits.wall_s
        ).code

    return _exchange(data, run, limits)


def _exchange(data: bytes, run: Callable[..., int | None], limits: Limits) -> tuple[bytes, str]:
    """Give bytes to a child as a file; return what it wrote to another, or what is wrong."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as answer:
        given.write(data)
        given.seek(0)
        code = run(given=given, answer=answer)
        if code is None:
            return b"", f"stopped after {limits.wall_s} s"
        answer.seek(0)
        return (b"", _death(code, limits)) if code else (answer.read(), "")


def _parsed(answer: bytes) -> Parsed:
    try:
        return Parsed.of(answer)
    except (ValueError, TypeError, KeyError):
        return Parsed(None, "its parser gave no usable answer")


def _death(code: int, limits: Limits) -> str:
    if code == -signal.SIGXCPU:
        return f"took more than {limits.cpu_s} s of CPU; {SPLIT}"
    if code == -signal.SIGKILL:
        return "was killed by the system: this machine was short of memory, or somebody ended it"
    if code == -signal.SIGXFSZ:
        return str(too_long(limits.text_bytes))
    if code < 0:
        return f"crashed its parser (signal {-code}); memory is limited to {limits.memory_bytes}"
    return f"ended its parser (exit code {code})"
