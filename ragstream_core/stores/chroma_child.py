"""The child process that opens Chroma: builds a collection, verifies one, or answers queries.

``python -m ragstream_core.stores.chroma_child``. Frames come on stdin and go to stdout: one line of
JSON, then as many bytes of float32 as its ``shape`` says. A store torn by a kill can end this
process with a signal; the parent then sees a closed pipe and nothing worse.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ragstream_core.errors import RagstreamError
from ragstream_core.stores import chroma_jobs
from ragstream_core.stores.chroma_frames import read_frame, write_frame
from ragstream_core.stores.vector_store_chroma import VectorStoreChroma

FILE_LIMIT_BYTES = 64 << 30
"""No file of a store grows beyond it: a torn index has been seen to claim a terabyte."""


def main() -> int:
    """Answer frames until stdin ends."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, FILE_LIMIT_BYTES))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever an engine prints must not end up between two frames
    return _Server(sys.stdin.buffer, answers).run()


class _Server:
    def __init__(self, questions: IO[bytes], answers: IO[bytes]) -> None:
        self.questions = questions
        self.answers = answers
        self.store: VectorStoreChroma | None = None
        self.verbs: dict[str, Callable[[dict[str, Any], Any], dict[str, Any]]] = {
            "open": self._open,
            "add": self._add,
            "delete": self._delete,
            "ids": self._ids,
            "nearest": self._nearest,
            "search": self._search,
            "build": lambda header, _: chroma_jobs.build(header),
            "verify": lambda header, _: chroma_jobs.verify(header),
        }

    def run(self) -> int:
        while (frame := read_frame(self.questions)) is not None:
            header, rows = frame
            try:
                answer = self.verbs[header["verb"]](header, rows)
            except RagstreamError as error:
                answer = {"error": type(error).__name__, "message": error.message}
            except Exception as error:  # the engine's own errors are of any type
                answer = {"error": "StoreFailed", "message": f"{type(error).__name__}: {error}"}
            write_frame(self.answers, answer)
        return 0

    @property
    def _opened(self) -> VectorStoreChroma:
        if self.store is None:
            raise AssertionError("the first frame opens a store")
        return self.store

    def _open(self, header: dict[str, Any], rows: Any) -> dict[str, Any]:
        self.store = VectorStoreChroma(
            Path(header["folder"]), header["name"], metadata=header["metadata"]
        )
        return {"chromadb": self.store.version, "metadata": self.store.metadata}

    def _add(self, header: dict[str, Any], rows: Any) -> dict[str, Any]:
        ids = header["ids"]
        self._opened.add(ids, rows, [{"id": i} for i in ids])
        return {}

    def _delete(self, header: dict[str, Any], rows: Any) -> dict[str, Any]:
        self._opened.delete(header["ids"])
        return {}

    def _ids(self, header: dict[str, Any], rows: Any) -> dict[str, Any]:
        return {"ids": list(self._opened.snapshot())}

    def _nearest(self, header: dict[str, Any], rows: Any) -> dict[str, Any]:
        return {"ids": self._opened.nearest(rows, header["n"])}

    def _search(self, header: dict[str, Any], rows: Any) -> dict[str, Any]:
        return {"found": self._opened.search(rows[0], header["k"])}


if __name__ == "__main__":
    raise SystemExit(main())
