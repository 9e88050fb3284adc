"""`Catalog`: one index, open for writing under its lock.

Metric: cosine over unit vectors.
Durability: a generation is committed by one SQLite transaction; texts and vectors are recorded
batch by batch before it, content-addressed, so a killed ingest loses at most one batch.

A catalog that fails its checks is set aside and made again from the documents. Only embeddings are
taken over from it: each text that has its hash and whose vector, read from the file, has the crc
over hash and bytes. Terms and derived files are always made from what was checked.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ragstream_core.errors import RagstreamError
from ragstream_core.index import check, commit, derived, remove, vectors
from ragstream_core.index.rows import (
    Change,
    ChunkRow,
    Generation,
    ScanStamp,
    TextRow,
    last_scan,
    latest_generation,
    place_terms,
    recorded_signatures,
)
from ragstream_core.index.schema import (
    CATALOG_NAME,
    INSERT_TEXT,
    JOURNAL_NAME,
    connect_writer,
    guard,
    project_lock,
    require_own,
    transaction,
)
from ragstream_core.index.vectors import VectorFile, broken_vectors, sound_texts
from ragstream_core.platform.files import copy_durable, move_aside
from ragstream_core.records.identity import sha256_hex
from ragstream_core.text.terms import term_blob

if TYPE_CHECKING:
    from ragstream_core.ports import F32

Damage = Callable[[sqlite3.Connection], Collection[str]]


@contextlib.contextmanager
def open_catalog(
    index_dir: Path,
    *,
    rebuild: bool = False,
    pinned: Callable[[], Collection[int]] = frozenset,
    damage: Damage = lambda db: (),
) -> Iterator[Catalog]:
    """Lock a project's index and open it for writing, creating it when missing.

    ``rebuild`` first puts a catalog that fails its checks aside, or has the ``damage`` that its
    owner finds; ``pinned``, asked when retention is due, names the generations that must stay.
    """
    with project_lock(index_dir):
        require_own(index_dir)
        aside = _put_damaged_aside(index_dir, damage) if rebuild else None
        db = connect_writer(index_dir)
        try:
            with guard(index_dir / CATALOG_NAME):
                if aside is not None:
                    _take_over_texts(db, index_dir, aside)
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
        self._damaged, paths = check.damaged_texts(self.db)
        return paths

    def commit(
        self,
        generation: Generation,
        change: Change,
        *,
        stamp: ScanStamp,
        in_transaction: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Commit the staged chunks and the change as a generation; all or nothing."""

        def write(db: sqlite3.Connection) -> None:
            name, self._name_last = self._name_last, None
            for step in (name, in_transaction):
                if step is not None:
                    step(db)

        commit.commit(self.db, self.path, generation, change, stamp=stamp, in_transaction=write)

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


_EMBEDDED_NAMES = "SELECT text_hash FROM vectors WHERE embed_fp = ? ORDER BY text_hash"
_EMBEDDED = (
    "SELECT v.text_hash, v.epoch, v.row, v.crc32, t.tokens, t.text "
    "FROM vectors v JOIN texts t ON t.text_hash = v.text_hash "
    "WHERE v.embed_fp = ? AND v.text_hash = ?"
)
_KINDS = (str, int, int, int, int, str)
EmbeddedRow = tuple[str, int, int, int, int, str]  # as `_EMBEDDED`
_BLOCK = 1024


def _put_damaged_aside(index_dir: Path, damage: Damage) -> Path | None:
    """Rename a catalog that fails its checks to ``catalog.sqlite.damaged-n``; the lock is held."""
    path = index_dir / CATALOG_NAME
    if not path.exists() or _is_sound(index_dir, damage):
        return None
    taken = {p.name for p in index_dir.glob(f"{CATALOG_NAME}.damaged-*")}
    n = next(i for i in range(1, len(taken) + 2) if f"{CATALOG_NAME}.damaged-{i}" not in taken)
    aside = path.with_name(f"{CATALOG_NAME}.damaged-{n}")
    journal = index_dir / JOURNAL_NAME
    if journal.exists():
        move_aside(journal, aside.with_name(f"{aside.name}-journal"))
    move_aside(path, aside)
    return aside


def _is_sound(index_dir: Path, damage: Damage) -> bool:
    """Return whether the rows are as committed; missing texts and vectors are made in place."""
    try:
        with contextlib.closing(connect_writer(index_dir)) as db, guard(index_dir / CATALOG_NAME):
            if db.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
                return False
            recorded_signatures(db), last_scan(db)  # raise if a table is missing
            return not any(check.row_findings(db)) and not damage(db)
    except (RagstreamError, TypeError, ValueError, AttributeError):  # the latter: other types
        return False


def _take_over_texts(db: sqlite3.Connection, index_dir: Path, aside: Path) -> None:
    """Take over into a new catalog the embedded texts that are sound in a damaged one."""
    address = f"file:{quote(str(aside.absolute()))}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as old:
        for file in _vector_files(old, index_dir):
            _take_over(db, old, file)


def _vector_files(old: sqlite3.Connection, index_dir: Path) -> list[VectorFile]:
    """Return what is left of the vector files that a damaged catalog names."""
    rows = _readable(old, "SELECT embed_fp, epoch, rows, dimension FROM vector_files", ())
    kinds = (str, int, int, int)
    sound = [r for r in rows if all(map(isinstance, r, kinds)) and min(r[1:]) > 0]
    return [VectorFile.named(index_dir, *row).cut() for row in sound]


def _take_over(db: sqlite3.Connection, old: sqlite3.Connection, file: VectorFile) -> None:
    taken, catalog = False, file.path.with_name(CATALOG_NAME)
    for block in _blocks(old, file.embed_fp) if file.count else ():
        whole = [row for row in block if sha256_hex(row[-1]) == row[0]]
        bad = set(file.damaged([row[:4] for row in whole]))
        sound = [row for row in whole if row[0] not in bad]
        with transaction(db, catalog):
            db.executemany(INSERT_TEXT, map(_text_row, sound))
            db.executemany(
                "INSERT OR IGNORE INTO vectors VALUES(?,?,?,?,?)",
                ((file.embed_fp, *row[:4]) for row in sound),
            )
        taken = taken or bool(sound)
    if taken:
        with transaction(db, catalog):
            remove.mark_recording(db)  # texts of files that are gone have no chunk to come
            shape = file.embed_fp, file.epoch, file.count, file.dimension
            db.execute("INSERT INTO vector_files VALUES(?,?,?,?)", shape)


def _text_row(row: EmbeddedRow) -> tuple[str, int, bytes, int, str]:
    text_hash, *_, tokens, text = row
    terms = term_blob(text)
    return text_hash, tokens, terms, zlib.crc32(terms), text


def _readable(old: sqlite3.Connection, query: str, values: tuple[str, ...]) -> Iterator[Any]:
    """Yield rows until the damage."""
    try:
        yield from old.execute(query, values)
    except (sqlite3.Error, UnicodeDecodeError):
        return


def _blocks(old: sqlite3.Connection, embed_fp: str) -> Iterator[list[EmbeddedRow]]:
    """Yield the rows that can be read, from both ends up to the damage, each text once."""
    names = {
        name: None
        for query in (_EMBEDDED_NAMES, f"{_EMBEDDED_NAMES} DESC")
        for (name,) in _readable(old, query, (embed_fp,))
        if isinstance(name, str)
    }
    rows = (row for name in names for row in _readable(old, _EMBEDDED, (embed_fp, name)))
    whole = (row for row in rows if all(map(isinstance, row, _KINDS)))
    while block := list(itertools.islice(whole, _BLOCK)):
        yield block
