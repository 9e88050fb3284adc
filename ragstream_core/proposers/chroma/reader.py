"""`CollectionReader`: asks a sealed collection through a child process, on a checked copy.

What is asked is what was sealed, or nothing: a damaged one is no longer named, so that the next
ingest makes it again, and the caller scores every row.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import IntegrityError, StoreFailed
from ragstream_core.proposers.chroma import seal
from ragstream_core.proposers.chroma.process import ChromaProcess
from ragstream_core.proposers.chroma.seal import copy_of
from ragstream_core.proposers.derived_store import replaced

if TYPE_CHECKING:
    from ragstream_core.ports import F32

# Of a seal, as a prompt names it: 64 bits tell it from others, and keys hold them for good.
SEAL_CHARS = 16
LOG = logging.getLogger(__name__)

# Rows asked for, as a multiple of those wanted: a graph finds near rows, not all of them.
TIMES = 6


@dataclass(slots=True)
class _Open:
    """A copy of a sealed collection that a child has open."""

    seal: str
    digest: str
    child: ChromaProcess
    leave: contextlib.ExitStack


@dataclass(slots=True)
class CollectionReader:
    """Answers from the sealed collection of one project."""

    chroma_dir: Path
    project: str
    _open: _Open | None = None
    _guard: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def seal(self, wanted: str = "") -> str:
        """Return the seal of what is asked: the wanted one if it is open, else the current one."""
        with self._guard:
            return self._opened(wanted).seal

    def near(
        self, digest: str, queries: F32, n: int, *, wanted: str = ""
    ) -> list[list[str]] | None:
        """Return about the ``n`` nearest chunk ids of each query; None: it is of other rows."""
        with self._guard:
            try:
                return self._near(digest, queries, n, wanted)
            except StoreFailed as error:  # its process may have been killed: once more on a copy
                LOG.warning("the Chroma collection of %s: %s", self.project, error.message)
                self.close()
                return self._near(digest, queries, n, wanted)

    def _near(self, digest: str, queries: F32, n: int, wanted: str) -> list[list[str]] | None:
        opened = self._opened(wanted)
        if not opened.seal.startswith(wanted):
            raise replaced("the Chroma collection", self.project, wanted, opened.seal[:SEAL_CHARS])
        if opened.digest != digest:
            return None
        ids: list[list[str]] = opened.child.ask("nearest", n * TIMES, rows=queries)
        return ids

    def close(self) -> None:
        """End the child and remove its copy."""
        with self._guard:
            if self._open is not None:
                self._open.leave.close()
                self._open = None

    def _opened(self, wanted: str) -> _Open:
        folder, opened = seal.current(self.chroma_dir), self._open
        if opened is not None and opened.child.alive:
            now = seal.digest_of_receipt(folder) if folder else ""
            if opened.seal == now or (wanted and opened.seal.startswith(wanted)):
                return opened
        self.close()
        if folder is None:
            raise StoreFailed(f"the Chroma collection of {self.project} is not there")
        try:
            self._open = self._copied(folder)
        except IntegrityError as error:
            LOG.warning(
                "the Chroma collection of %s is made again by the next ingest: %s",
                self.project,
                error,
            )
            seal.disown(self.chroma_dir, folder)
            raise
        return self._open

    def _copied(self, folder: Path) -> _Open:
        digest = seal.digest_of_receipt(folder)
        with contextlib.ExitStack() as stack:
            copy = stack.enter_context(copy_of(folder))
            receipt = seal.receipt_of(folder)
            if receipt is None:
                raise IntegrityError(f"{folder}: {seal.RECEIPT} is missing or damaged")
            child = stack.enter_context(contextlib.closing(ChromaProcess()))
            child.ask("open", str(copy), receipt.collection)
            return _Open(digest, receipt.digest, child, stack.pop_all())


_readers: dict[Path, CollectionReader] = {}
_readers_guard = threading.Lock()


def reader_of(chroma_dir: Path, project: str) -> CollectionReader:
    """Return this process's reader of a collection; made at the first call."""
    with _readers_guard:
        key = chroma_dir.absolute()
        if key not in _readers:
            _readers[key] = CollectionReader(key, project)
        return _readers[key]


@atexit.register
def close_readers() -> None:
    """End the children of all readers of this process."""
    with _readers_guard:
        for reader in _readers.values():
            reader.close()
        _readers.clear()
