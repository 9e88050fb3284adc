"""`Catalog`: one index, open for writing under its lock.

Metric: cosine over unit vectors.
Durability: a generation is committed by one SQLite transaction; texts and vectors are recorded
batch by batch before it, content-addressed, so a killed ingest loses at most one batch.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.index import commit, derived, remove, repair, vectors
from ragstream_core.index.rows import (
    Change,
    ChunkRow,
    Generation,
    ScanStamp,
    TextRow,
    latest_generation,
    place_terms,
)
from ragstream_core.index.schema import (
    CATALOG_NAME,
    connect_writer,
    guard,
    project_lock,
    require_own,
    transaction,
)
from ragstream_core.index.vectors import VectorFile, broken_vectors, sound_texts
from ragstream_core.platform.files import copy_durable

if TYPE_CHECKING:
    from ragstream_core.ports import F32


@contextlib.contextmanager
def open_catalog(
    index_dir: Path,
    *,
    rebuild: bool = False,
    pinned: Callable[[], Collection[int]] = frozenset,
) -> Iterator[Catalog]:
    """Lock a project's index and open it for writing, creating it when missing.

    ``rebuild`` first puts a catalog that fails its checks aside; ``pinned``, asked when retention
    is due, names the generations that it must not drop.
    """
    with project_lock(index_dir):
        require_own(index_dir)
        aside = repair.put_damaged_aside(index_dir) if rebuild else None
        db = connect_writer(index_dir)
        try:
            with guard(index_dir / CATALOG_NAME):
                if aside is not None:
                    repair.take_over_texts(db, index_dir, aside)
                notes = vectors.replace_suspect_files(db, index_dir, lost_end=rebuild)
                remove.mark_unfinished(db, index_dir / CATALOG_NAME)
                derived.refresh_terms(db, index_dir / CATALOG_NAME)
                yield Catalog(index_dir, db, pinned=pinned, notes=notes)
        finally:
            db.close()


class Catalog:
    """Writes one project's index; made by `open_catalog`, which holds the lock.

    Attributes:
        db: The connection, for what else is done under the same lock.
        path: The catalog's file.
        notes: What opening it had to repair, and what went wrong after a commit.
    """

    def __init__(
        self,
        index_dir: Path,
        db: sqlite3.Connection,
        *,
        pinned: Callable[[], Collection[int]] = frozenset,
        notes: Sequence[str] = (),
    ) -> None:
        self.index_dir = index_dir
        self.path = index_dir / CATALOG_NAME
        self.notes = list(notes)
        self.db = db
        self._pinned = pinned
        self._damaged: set[str] = set()
        self._name_last: Callable[[sqlite3.Connection], None] | None = None

    def latest(self) -> Generation | None:
        """Return the newest committed generation."""
        return latest_generation(self.db)

    def known(
        self, text_hashes: Sequence[str], embed_fp: str, *, checked: bool = False
    ) -> set[str]:
        """Return those texts that have a vector under a model and were not found damaged.

        ``checked`` reads each text and its vector; without it `broken_texts` checks those of the
        staged chunks before the commit.
        """
        if checked:
            return sound_texts(self.db, self.index_dir, text_hashes, embed_fp)
        query = "SELECT 1 FROM vectors WHERE embed_fp = ? AND text_hash = ?"
        sound = (h for h in text_hashes if h not in self._damaged)
        return {h for h in sound if self.db.execute(query, (embed_fp, h)).fetchone()}

    def record_texts(
        self, rows: Sequence[TextRow], vectors: F32, *, embed_fp: str, last: bool = False
    ) -> None:
        """Write vectors, sync them, then commit their row numbers and texts in one transaction.

        The ``last`` ones before a commit are named by it, in one transaction instead of two.
        """
        self._record_last()  # no commit came: their place must not be taken
        self._name_last = commit.write_vectors(
            self.db, self.index_dir, rows, vectors=vectors, embed_fp=embed_fp
        )
        if not last:
            self._record_last()
        self._damaged.difference_update(row.text_hash for row in rows)

    def _record_last(self) -> None:
        name, self._name_last = self._name_last, None
        if name is not None:
            with transaction(self.db, self.path):
                name(self.db)

    def stage(self, rows: Iterable[ChunkRow]) -> None:
        """Put chunk rows aside in a temporary table."""
        self.db.execute("BEGIN")
        self.db.executemany(
            "INSERT INTO staged VALUES(?,?,?,?,?,?,?,?,?,pack_terms(?),?)",
            ((*row, *_place_terms(row.heading)) for row in rows),
        )
        self.db.execute("COMMIT")

    def staged_count(self) -> int:
        """Return the number of staged chunk rows."""
        return int(self.db.execute("SELECT count(*) FROM staged").fetchone()[0])

    def broken_texts(self, embed_fp: str, *, everything: bool) -> list[tuple[str, str]]:
        """Return (text_hash, text) whose vector fails its checks, and forget those vectors."""
        broken = broken_vectors(self.db, self.index_dir, embed_fp, everything=everything)
        with transaction(self.db, self.path):
            self.db.executemany(
                "DELETE FROM vectors WHERE embed_fp = ? AND text_hash = ?",
                ((embed_fp, text_hash) for text_hash in broken),
            )
        query = "SELECT text_hash, text FROM texts WHERE text_hash = ?"
        found = (self.db.execute(query, (text_hash,)).fetchone() for text_hash in broken)
        return [(row[0], row[1]) for row in found if row is not None]

    def damaged_texts(self) -> Collection[str]:
        """Hash every stored text; return the live files with one that is damaged or missing."""
        found = repair.damaged_texts(self.db)
        self._damaged = set(found.hashes)
        return found.paths

    def commit(
        self,
        generation: Generation,
        change: Change,
        *,
        stamp: ScanStamp,
        also: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Commit the staged chunks and the change as a generation; all or nothing."""

        def write(db: sqlite3.Connection) -> None:
            name, self._name_last = self._name_last, None
            for step in (name, also):
                if step is not None:
                    step(db)

        commit.commit(self.db, self.path, generation, change, stamp=stamp, also=write)

    def retain(self, generations: int) -> None:
        """Drop what only older generations hold, and compact the vectors when it is worth it.

        Generations that are pinned stay, however old.
        """
        if remove.drop_old(self.db, self.path, generations, self._pinned()):
            vectors.compact(self.db, self.index_dir)
        remove.sweep(self.db, self.index_dir)

    def copy_to(self, folder: Path) -> None:
        """Copy the catalog and the vector files that it names; the lock keeps them as they are."""
        files = VectorFile.every(self.db, self.index_dir)
        for path in (self.path, *(file.path for file in files if file.count)):
            copy_durable(path, folder / path.name)

    def publish(self, refused: Sequence[tuple[str, str]], *, rewrite_manifest: bool) -> None:
        """Bring lexical arrays and ``file_manifest.json`` up to the newest generation."""
        newest = self.latest()
        if newest is not None:
            at = self.db, self.index_dir, newest
            derived.publish(*at, refused=refused, rewrite_manifest=rewrite_manifest)


def _place_terms(place: str) -> tuple[bytes, int]:
    terms = place_terms(place)
    return terms, zlib.crc32(terms)
