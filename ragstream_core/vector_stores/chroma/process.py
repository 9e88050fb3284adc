"""`ChromaProcess`: the parent's end of the child that opens Chroma.

A question that is not answered in time, or a child that dies, is a `StoreFailed`; this process
lives on. The child ends when its stdin does, so it never outlives its parent.

What parent and child say to each other: a line of JSON, then rows of float32.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

import ragstream_core
from ragstream_core import errors

if TYPE_CHECKING:
    from ragstream_core.ports import F32


FLOAT_BYTES = 4


def write_frame(pipe: IO[bytes], header: dict[str, Any], rows: F32 | None = None) -> None:
    """Write one frame and flush it.

    Args:
        pipe: Where to.
        header: JSON values only; ``shape`` is added for the rows.
        rows: Shape (n, dimension), float32.

    Raises:
        OSError: The other side is gone.
    """
    if rows is not None:
        header = {**header, "shape": list(rows.shape)}
    pipe.write(json.dumps(header).encode("ascii") + b"\n")
    if rows is not None:
        pipe.write(rows.astype("<f4", copy=False).tobytes())
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> tuple[dict[str, Any], F32 | None] | None:
    """Return the next frame, or None where the other side has ended."""
    line = pipe.readline()
    if not line.endswith(b"\n"):
        return None
    header: dict[str, Any] = json.loads(line)
    if "shape" not in header:
        return header, None
    import numpy as np

    n, dimension = header.pop("shape")
    data = pipe.read(n * dimension * FLOAT_BYTES)
    if len(data) < n * dimension * FLOAT_BYTES:
        return None
    return header, np.frombuffer(data, dtype="<f4").reshape(n, dimension).astype(np.float32)


MODULE = "ragstream_core.vector_stores.chroma.child"
ANSWER_S = 60.0
TAIL_CHARS = 300


class ChromaProcess:
    """One child; usable from several threads, one question at a time."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._child = subprocess.Popen(
            [sys.executable, "-c", f"from {MODULE} import main; raise SystemExit(main())"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=Path(ragstream_core.__file__).parent.parent,
        )
        self._guard = threading.Lock()
        self._end = weakref.finalize(self, _end, self._child)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether the child has not ended."""
        return self._child.poll() is None

    def ask(
        self, verb: str, header: dict[str, Any], *, rows: F32 | None = None, within_s: float = 0.0
    ) -> dict[str, Any]:
        """Put a question and wait for its answer.

        Args:
            verb: What to do.
            header: Its values.
            rows: Its vectors.
            within_s: After so many seconds the child is killed; 0: `ANSWER_S`.

        Raises:
            StoreFailed: The engine refused, or the child died or took too long.
            RagstreamError: What the child raised.
        """
        with self._guard:
            timer = threading.Timer(within_s or ANSWER_S, self._child.kill)
            timer.daemon = True
            timer.start()
            try:
                write_frame(_pipe(self._child.stdin), {**header, "verb": verb}, rows)
                frame = read_frame(_pipe(self._child.stdout))
            except (OSError, ValueError):
                frame = None
            finally:
                timer.cancel()
        if frame is None:
            raise errors.StoreFailed(f"the process that reads Chroma ended: {self._last_words()}")
        answer = frame[0]
        if "error" in answer:
            raise getattr(errors, answer["error"])(answer["message"])
        return answer

    def close(self) -> None:
        """End the child."""
        self._end()
        self._log.close()

    def __enter__(self) -> ChromaProcess:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the child."""
        self.close()

    def _last_words(self) -> str:
        code = self._child.wait()
        self._log.seek(0)
        said = self._log.read().decode("utf-8", "replace").strip()[-TAIL_CHARS:]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}; {said.splitlines()[-1]}" if said else how


def _pipe(pipe: Any) -> Any:
    if pipe is None:
        raise OSError("the pipe is closed")
    return pipe


def _end(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        child.wait(timeout=5)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
