"""`ChromaProcess`: the parent's end of the child process that opens Chroma.

The two speak JSON and raw float32 over a `multiprocessing` connection: nothing is unpickled, and no
script of the parent runs again in the child, as both would with an executor.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import ragstream_core
from ragstream_core import errors
from ragstream_core.platform import extras
from ragstream_core.platform.import_path import python

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ragstream_core.ports import F32

MODULE = "ragstream_core.proposers.chroma.child"
ANSWER_S = 60.0
END_S = 5.0
TAIL_CHARS = 300


class Job(TypedDict):
    """A collection to build or to verify, and the generation that it is of."""

    folder: str
    name: str
    metadata: dict[str, str]
    graph: str
    index_dir: str
    project: str
    generation: int


class Built(TypedDict):
    """What the child built: how many rows there are, were added and deleted."""

    rows: int
    added: int
    deleted: int
    chromadb: str
    dimension: int


class Verified(TypedDict):
    """What the child found; see `child.verify`."""

    faults: list[str]
    vectors: int
    self_recall: float


def send(connection: Connection, message: dict[str, Any], rows: F32 | None = None) -> None:
    """Send JSON values, and vectors if there are any."""
    if rows is not None:
        message = {**message, "shape": list(rows.shape)}
    connection.send_bytes(json.dumps(message).encode("ascii"))
    if rows is not None:
        connection.send_bytes(rows.astype("<f4", copy=False).tobytes())


def receive(connection: Connection) -> tuple[dict[str, Any], F32 | None]:
    """Return the next message and its vectors."""
    message: dict[str, Any] = json.loads(connection.recv_bytes())
    if "shape" not in message:
        return message, None
    import numpy as np

    rows = np.frombuffer(connection.recv_bytes(), dtype="<f4")
    return message, rows.reshape(message.pop("shape")).astype(np.float32)


class ChromaProcess:
    """One child; usable from several threads, one question at a time.

    A child that dies or does not answer in time is a `StoreFailed`, and this process lives on. The
    child ends when the connection does, so it never outlives its parent.
    """

    def __init__(self) -> None:
        from multiprocessing import Pipe

        extras.require("the vector store chroma", "chroma")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._connection, theirs = Pipe()
        with theirs:
            self._child = subprocess.Popen(
                python("-E", "-c", f"from {MODULE} import main; main()"),
                stdin=theirs.fileno(),
                stdout=self._log,
                stderr=self._log,
                cwd=Path(ragstream_core.__file__).parent.parent,
            )
        self._guard = threading.Lock()
        self._end = weakref.finalize(self, _end, self._child, self._connection)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether the child has not ended."""
        return self._child.poll() is None

    def ask(
        self, verb: str, *given: object, rows: F32 | None = None, within_s: float = ANSWER_S
    ) -> Any:
        """Have the child do something and return its answer."""
        with self._guard:
            timer = threading.Timer(within_s, self._child.kill)
            timer.daemon = True
            timer.start()
            try:
                send(self._connection, {"verb": verb, "given": given}, rows)
                message, _ = receive(self._connection)
            except (OSError, EOFError) as error:
                raise errors.StoreFailed(
                    f"the process that reads Chroma ended: {self._last_words()}"
                ) from error
            finally:
                timer.cancel()
        if "error" in message:
            raise getattr(errors, message["error"])(message["message"])
        return message["answer"]

    def close(self) -> None:
        """End the child."""
        self._end()
        self._log.close()

    def _last_words(self) -> str:
        code = self._child.wait()
        self._log.seek(0)
        said = self._log.read().decode("utf-8", "replace").strip()[-TAIL_CHARS:]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}; {said.splitlines()[-1]}" if said else how


def _end(child: subprocess.Popen[bytes], connection: Connection) -> None:
    connection.close()
    try:
        child.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
