"""`ParserServer`: one process that keeps the engines, for the time of an ingest.

It is started at the first file and started again should it end; what it was reading then is the
caller's to try another way.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict
from typing import IO

from ragstream_core.ingestion.parsers.port import Limits

SERVER = "ragstream_core.ingestion.parsers.server"
START_S = 60
"""Seconds the import of the engines may take, on top of the wall clock of the file."""
FAULTS = 3
"""After so many ends in a row no server is started any more."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
"""The environment of all who read files; threads cost address space and forbid a fork."""


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
        """Say whether this system can fork and hand open files to another process."""
        return hasattr(os, "fork") and hasattr(socket, "send_fds")

    @property
    def pid(self) -> int:
        """The process id of the server; 0 where none runs."""
        return self._process.pid if self._process else 0

    def run(
        self, kind: str, file_type: str, *, given: IO[bytes], answer: IO[bytes], limits: Limits
    ) -> int | None:
        """Have one file read.

        Args:
            kind: Kind of file: which engines.
            file_type: Its type.
            given: The file, open at its start.
            answer: An empty file that the child writes its answer to.
            limits: What it may cost.

        Returns:
            The exit code of the child, negative for a signal; None where its wall clock ended it.

        Raises:
            ServerLost: The server ended, did not answer, or could not be started.
        """
        if self._faults >= FAULTS:
            raise ServerLost
        request = {"kind": kind, "type": file_type, "limits": asdict(limits)}
        try:
            connection = self._connected()
            connection.settimeout(limits.wall_s + START_S)
            line = json.dumps(request).encode() + b"\n"
            socket.send_fds(connection, [line], [given.fileno(), answer.fileno()])
            code: int | None = json.loads(_line(connection))["code"]
        except (OSError, ValueError, KeyError) as error:
            self._faults += 1
            self.close()
            raise ServerLost from error
        except BaseException:  # an interrupt: what was asked would answer the next question
            self.close()
            raise
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
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-X", "utf8", "-m", SERVER],
                    stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    env=ONE_THREAD, cwd="/", start_new_session=True,
                )  # fmt: skip
            self.starts += 1
        return self._socket


def _line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(4096)
        if not part:
            raise ConnectionResetError
        line += part
    return line
