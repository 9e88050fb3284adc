"""`Collection`: a Chroma collection derived from an index, brought up to it under a lock."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import GenerationGone, IntegrityError, RagstreamError, StoreFailed
from ragstream_core.index import catalog_read
from ragstream_core.index.generations import is_as_it_was, read
from ragstream_core.index.lock import check_hint, label, project_lock, update_hint
from ragstream_core.platform.disk import on_disk
from ragstream_core.platform.files import make_private_dir, remove_path
from ragstream_core.proposers.chroma import publisher, seal
from ragstream_core.proposers.chroma.publisher import (
    CollectionPublisher,
    CollectionReport,
    FailedAttempt,
    chromadb_version,
    why,
)
from ragstream_core.proposers.chroma.seal import sweep
from ragstream_core.proposers.chroma.vector_store_chroma import GRAPHS
from ragstream_core.records.identity import digest_of

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation


@dataclass(frozen=True, slots=True)
class Collection:
    """One collection and the index it is derived from.

    Attributes:
        chroma_dir: ``data/chroma_db/<project>``, or ``data/history/vectors/history_main``.
        index_dir: ``data/index/<project>``, or ``data/history/index``.
        project: Project name, or `HISTORY`.
        model: Name of the embedding model, for people.
    """

    chroma_dir: Path
    index_dir: Path
    project: str
    model: str = ""

    def sync(self, *, rebuild: bool = False, verify_all: bool = False) -> CollectionReport:
        """Bring the collection up to the newest generation; a failure is noted.

        Args:
            rebuild: Build it from the catalog even if it could be updated.
            verify_all: Compare every vector even if nothing is to be done.

        Raises:
            ProjectLocked: Another process is at it.
            GenerationGone: Nothing is ingested.
            IntegrityError: The index is damaged, or what Chroma made of it is wrong twice.
            StoreFailed: The child died or Chroma refused.
            OperationFailed: Disk full; the old collection stays.
        """
        began = time.perf_counter()
        with project_lock(make_private_dir(self.chroma_dir)):
            newest = self._newest()
            with self._noting(newest), on_disk(self.chroma_dir):
                report = CollectionPublisher(self, newest).run(
                    rebuild=rebuild, verify_all=verify_all
                )
                sweep(self.chroma_dir, report.folder)
                self._require_unerased(newest, report)
        return replace(report, seconds=time.perf_counter() - began)

    def _require_unerased(self, newest: Generation, report: CollectionReport) -> None:
        """Remove a collection that was made of what was erased meanwhile.

        Raises:
            GenerationGone: It was.
        """
        if is_as_it_was(self.index_dir, newest):
            return
        (self.chroma_dir / seal.CURRENT).unlink(missing_ok=True)
        remove_path(report.folder)
        raise GenerationGone(
            f"{label(self.index_dir)}: generation {newest.n} was changed meanwhile",
            hint=check_hint(self.index_dir),
        )

    def keep_up(self, *, verify_all: bool = False) -> CollectionReport:
        """As `sync`, but what failed once is not tried again before anything changed.

        Args:
            verify_all: Compare every vector even if nothing is to be done.

        Raises:
            StoreFailed: It failed for this generation with these settings; or as `sync`.
            RagstreamError: As `sync`.
        """
        failed = self.failed(self._newest())
        if failed is not None:
            raise failed.error
        return self.sync(verify_all=verify_all)

    def failed(self, newest: Generation) -> FailedAttempt | None:
        """Return the attempt for a generation that failed under the settings of now, if any."""
        found = publisher.noted(self.chroma_dir)
        return found if found is not None and found.key == self._key(newest) else None

    @contextlib.contextmanager
    def _noting(self, newest: Generation) -> Iterator[None]:
        try:
            yield
        except GenerationGone:  # a newer one came meanwhile
            raise
        except RagstreamError as error:
            again = check_hint(self.index_dir)
            error.advice = (*error.advice, "; then ", again) if error.advice else (again,)
            with contextlib.suppress(OSError):
                publisher.note(self.chroma_dir, self._key(newest), newest.n, error=error)
            raise
        with contextlib.suppress(OSError):
            publisher.forget(self.chroma_dir)

    def _key(self, newest: Generation) -> str:
        """Return the digest of all that an attempt depends on."""
        return digest_of([newest.n, newest.digest, self.model, chromadb_version(), GRAPHS])

    def behind(self) -> str:
        """Return why the collection is not that of the newest generation; empty if it is.

        Reads the receipt only; damage is found when it is copied.

        Raises:
            GenerationGone: Nothing is ingested.
            IntegrityError: The index is damaged.
        """
        return why(self, self._newest())[1]

    def faults(self, *, vectors: bool = False) -> list[str]:
        """Return what tells the sealed collection from the newest generation, for people.

        A collection is sealed after every row was compared; if its generation and its bytes are
        the same, it still is that of the index.

        Args:
            vectors: Ask it for every vector all the same.

        Returns:
            Nothing if they are equal.

        Raises:
            GenerationGone: Nothing is ingested.
            IntegrityError: The index is damaged.
            OSError: Disk full.
        """
        newest, folder = self._newest(), seal.current(self.chroma_dir)
        behind = why(self, newest)[1]
        if behind or folder is None:
            failed = self.failed(newest)
            return [f"{behind or 'there is none'}{f': {failed.message}' if failed else ''}"]
        try:
            CollectionPublisher(self, newest).look(folder, vectors=vectors)
        except (IntegrityError, StoreFailed) as error:
            return [error.message]
        return []

    def _newest(self) -> Generation:
        newest = read(self.index_dir, catalog_read.latest)
        if newest is None:
            raise GenerationGone(
                f"{label(self.index_dir)} has no generation yet", hint=update_hint(self.index_dir)
            )
        return newest
