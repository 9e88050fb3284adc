"""`CollectionReader`: asks a sealed collection through a child process, on a checked copy.

One that was dropped, damaged or left behind is made right from the catalog before the next answer;
if that is not possible, the caller scores every row.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import InputUnavailable, RagstreamError, StoreFailed, TryAgain
from ragstream_core.proposers.chroma import seal
from ragstream_core.proposers.chroma.collection import Collection
from ragstream_core.proposers.chroma.seal import Receipt, copy_of
from ragstream_core.proposers.chroma.store import ChromaStore

if TYPE_CHECKING:
    from ragstream_core.ports import F32

LOG = logging.getLogger(__name__)
SEAL_CHARS = 16
"""Of a seal, as a prompt names it."""
TIMES = 6
"""Rows asked for, as a multiple of those wanted: a graph finds near rows, not all of them."""
Marks = tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class _Open:
    """A collection that a child has open."""

    folder: Path
    receipt: Receipt
    seal: str
    marks: Marks
    store: ChromaStore
    leave: contextlib.ExitStack

    def close(self) -> None:
        self.store.close()
        self.leave.close()


@dataclass(slots=True)
class CollectionReader:
    """Answers from the newest sealed collection of one project.

    Attributes:
        collection: The collection and its index.
    """

    collection: Collection
    _open: _Open | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def near(
        self, digest: str, queries: F32, n: int, *, pinned_seal: str = ""
    ) -> list[list[str]] | None:
        """Return about the ``n`` nearest chunk ids of each query.

        Args:
            digest: Digest of the generation that is asked about.
            queries: Unit vectors, shape (queries, dimension).
            n: How many for each.
            pinned_seal: Beginning of the seal that a prompt names; empty: whichever there is.

        Returns:
            None if the collection is not that of the generation, or cannot be had now.

        Raises:
            InputUnavailable: The collection that a prompt names is another one now, or cannot be
                had: what is made right here belongs to the next prompt.
        """
        with self._guard:
            try:
                found = self._near(digest, queries, n)
                if self._open is None or self._open.seal.startswith(pinned_seal):
                    return found
                raise replaced(self.collection.project, pinned_seal, self._open.seal)
            except InputUnavailable:
                raise
            except (RagstreamError, OSError) as error:
                if pinned_seal:
                    self._close()
                    raise InputUnavailable(
                        f"the Chroma collection of {self.collection.project} that this prompt "
                        f"names cannot be asked: {error}",
                        hint=TryAgain(),
                    ) from error
                LOG.warning(
                    "the Chroma collection of %s cannot be used, every row is scored: %s",
                    self.collection.project,
                    error,
                )
                self._close()
                return None

    def close(self) -> None:
        """End the child and remove its copy."""
        with self._guard:
            self._close()

    def _near(self, digest: str, queries: F32, n: int) -> list[list[str]] | None:
        opened = self._current(digest)
        if opened is None:
            return None
        try:
            return opened.store.nearest(queries, n * TIMES)
        except StoreFailed as error:
            self._tell_repaired(f"its process ended: {error.message}")
            opened = self._reopened()
            return opened.store.nearest(queries, n * TIMES)

    def _current(self, digest: str) -> _Open | None:
        opened = self._open
        if opened is not None and self._untouched(opened):
            if opened.receipt.digest == digest:
                return opened
            if not self.collection.behind():
                return None  # an older generation is asked about
        opened = self._reopened()
        return opened if opened.receipt.digest == digest else None

    def _untouched(self, opened: _Open) -> bool:
        folder = seal.current(self.collection.chroma_dir)
        return (
            opened.store.alive
            and folder == opened.folder
            and _marks(folder, opened.receipt) == opened.marks
        )

    def _reopened(self) -> _Open:
        """Open the current collection, made right first if it is not.

        Raises:
            RagstreamError: It cannot be made right.
            OSError: Disk full.
        """
        self._close()
        report = self.collection.keep_up()
        if report.made != "unchanged":
            self._tell_repaired(f"{report.made}: {report.reason or 'the index is newer'}")
        with contextlib.ExitStack() as opened:
            copy = opened.enter_context(copy_of(report.folder))
            store = ChromaStore(
                copy,
                report.receipt.dimension,
                name=report.receipt.collection,
                embed_fp=report.receipt.embed_fp,
                model=report.receipt.model,
            )
            leave = opened.pop_all()
        marks = _marks(report.folder, report.receipt)
        digest = seal.digest_of_receipt(report.folder)
        self._open = _Open(report.folder, report.receipt, digest, marks, store, leave)
        return self._open

    def _tell_repaired(self, what: str) -> None:
        LOG.warning("repaired the Chroma collection of %s: %s", self.collection.project, what)

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def replaced(project: str, pinned_seal: str, now: str) -> InputUnavailable:
    """Return the error of a prompt whose collection is another one now.

    Args:
        project: Whose collection.
        pinned_seal: Beginning of the seal that the prompt names.
        now: The seal of now; empty if there is none.
    """
    return InputUnavailable(
        f"the Chroma collection of {project} that proposed the candidates was replaced "
        f"(seal {pinned_seal}, now {now[:SEAL_CHARS] or 'none'})",
        hint="prompts of retrieval.store=catalog do not depend on a collection",
    )


def _marks(folder: Path, receipt: Receipt) -> Marks:
    """Return size and time of every sealed file: they tell whether one was written."""
    found = []
    for name in sorted(receipt.files):
        try:
            seen = (folder / name).stat()
            found.append((name, seen.st_size, seen.st_mtime_ns))
        except OSError:
            found.append((name, -1, -1))
    return tuple(found)


_readers: dict[Path, CollectionReader] = {}
_readers_guard = threading.Lock()


def reader_of(collection: Collection) -> CollectionReader:
    """Return this process's reader of a collection; made at the first call."""
    with _readers_guard:
        key = collection.chroma_dir.absolute()
        if key not in _readers or _readers[key].collection != collection:
            _readers[key] = CollectionReader(collection)
        return _readers[key]


@atexit.register
def close_readers() -> None:
    """End the children of all readers of this process."""
    with _readers_guard:
        for reader in _readers.values():
            reader.close()
        _readers.clear()
