"""Tables, pragmas and connections of ``catalog.sqlite``; foreign errors stop here.

Durability: rollback journal, synchronous=EXTRA, no cache spill, deleted text overwritten. Only the
holder of the project lock opens a writer; all others read with ``mode=ro``.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from ragstream_core.errors import (
    FreeSpace,
    GenerationGone,
    IntegrityError,
    OperationFailed,
    ProjectLocked,
    Refused,
    RunCommand,
)
from ragstream_core.platform import sidecar
from ragstream_core.platform.disk import disk_failure, on_disk
from ragstream_core.platform.files import make_private_dir, on_failure, replace_text
from ragstream_core.platform.locks import LOCK_NAME, FolderLock
from ragstream_core.text.terms import packed_terms, unpacked_terms

PULLED_NAME = "pulled.json"
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class PulledMark:
    """Where an index comes from."""

    url: str  # the folder or bucket where it is published
    pulled: str  # when it was pulled, ISO 8601
    manifest: str  # what was pulled, the bytes of its manifest as text


def publishing_copy(index_dir: Path) -> Path:
    """Return where a copy of an index lies while it is published, and after a kill."""
    return index_dir.with_name(f".{index_dir.name}.publishing")


def is_pulled(index_dir: Path) -> bool:
    """Return whether an index is made elsewhere."""
    return (index_dir / PULLED_NAME).is_file()


def read_mark(index_dir: Path) -> PulledMark:
    """Return the mark of an index that is pulled."""
    path = index_dir / PULLED_NAME
    mark = sidecar.read(path, PulledMark)
    if mark is None:
        raise IntegrityError(
            f"{path} is damaged", hint=RunCommand("index pull", f"PLACE --name {index_dir.name}")
        )
    return mark


def write_mark(index_dir: Path, mark: PulledMark) -> None:
    """Mark an index as made elsewhere."""
    replace_text(index_dir / PULLED_NAME, json.dumps(asdict(mark)))


def require_own(index_dir: Path) -> None:
    """Refuse to write an index that is made elsewhere."""
    if is_pulled(index_dir):
        raise Refused(
            f"the index of {index_dir.name} is made elsewhere and only read here",
            hint=(RunCommand("index pull", index_dir.name), " brings it up to date"),
        )


def is_history(index_dir: Path) -> bool:
    """Return whether a store is that of the conversations, ``<data>/history/index``."""
    return index_dir.parts[-2:] == ("history", "index")


def label(index_dir: Path) -> str:
    """Return what a store is called."""
    return "the history" if is_history(index_dir) else f"project {index_dir.name}"


def update_hint(index_dir: Path) -> RunCommand:
    """Return the command that brings a store up to date."""
    if is_history(index_dir):
        return RunCommand("history embed")
    if is_pulled(index_dir):
        return RunCommand("index pull", index_dir.name)
    return RunCommand("ingest", index_dir.name)


def no_generation(index_dir: Path) -> GenerationGone:
    """Return the error for a store in which nothing was committed yet."""
    return GenerationGone(f"{label(index_dir)} has no generation yet", hint=update_hint(index_dir))


def rebuild_hint(index_dir: Path) -> RunCommand:
    """Return the command that makes a store anew."""
    if is_history(index_dir):
        return RunCommand("history backfill", "--rebuild")
    if is_pulled(index_dir):
        return RunCommand("index pull", f"{index_dir.name} --verify")
    return RunCommand("ingest", f"{index_dir.name} --rebuild")


def check_hint(index_dir: Path) -> RunCommand:
    """Return the command that checks a store and makes again what is derived from it."""
    return RunCommand("index check", "" if is_history(index_dir) else index_dir.name)


@contextlib.contextmanager
def project_lock(index_dir: Path) -> Iterator[None]:
    """Hold the writer lock of one project; never waits."""
    lock = FolderLock(index_dir, label(index_dir))
    with contextlib.ExitStack() as stack:
        stack.callback(lock.close)
        try:
            stack.enter_context(lock.held())
        except OSError as error:
            raise disk_failure(index_dir / LOCK_NAME, error) from error
        yield


CATALOG_NAME = "catalog.sqlite"
JOURNAL_NAME = f"{CATALOG_NAME}-journal"
SCHEMA_VERSION = 2

# Key of ``meta``: the rules that the stored terms were derived by; another value: by none.
LEXICAL_KEY = "lexical_version"
PAGE_BYTES = 8_192  # a text with its terms lies in one page; larger ones cost more a journal
_READ_CACHE_KIB = -65_536  # rows by hash lie at random: SQLite's own 2 MB would be read again
_WRITE_CACHE_KIB = -8_192  # more makes a first ingest no faster, only larger
BUSY_TIMEOUT_S = 10.0

DDL = """
CREATE TABLE generations(
    n INTEGER PRIMARY KEY, digest TEXT NOT NULL, row_sum TEXT NOT NULL, parent INTEGER NOT NULL,
    created TEXT NOT NULL, index_fp TEXT NOT NULL, embed_fp TEXT NOT NULL,
    counts TEXT NOT NULL, provenance TEXT NOT NULL);
CREATE TABLE files(
    path TEXT NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    type TEXT NOT NULL, decision TEXT NOT NULL, reason TEXT NOT NULL, crc INTEGER NOT NULL,
    from_gen INTEGER NOT NULL, to_gen INTEGER, PRIMARY KEY(path, from_gen)) WITHOUT ROWID;
CREATE INDEX files_dead ON files(to_gen) WHERE to_gen IS NOT NULL;
CREATE TABLE chunks(
    chunk_id TEXT NOT NULL, path TEXT NOT NULL, sha256 TEXT NOT NULL, chunk_idx INTEGER NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, page INTEGER NOT NULL, heading TEXT NOT NULL,
    text_hash TEXT NOT NULL, heading_terms BLOB NOT NULL, heading_crc INTEGER NOT NULL,
    from_gen INTEGER NOT NULL, to_gen INTEGER);
CREATE UNIQUE INDEX chunks_id ON chunks(chunk_id, from_gen);
CREATE INDEX chunks_path ON chunks(path) WHERE to_gen IS NULL;
CREATE INDEX chunks_text ON chunks(text_hash);
CREATE INDEX chunks_dead ON chunks(to_gen) WHERE to_gen IS NOT NULL;
-- rows lie as they were recorded: full pages, and neighbours in a file are neighbours here
CREATE TABLE texts(
    text_hash TEXT NOT NULL, tokens INTEGER NOT NULL, terms BLOB NOT NULL,
    terms_crc INTEGER NOT NULL, text TEXT NOT NULL);
CREATE UNIQUE INDEX texts_hash ON texts(text_hash);
CREATE TABLE vectors(
    embed_fp TEXT NOT NULL, text_hash TEXT NOT NULL, epoch INTEGER NOT NULL, row INTEGER NOT NULL,
    crc32 INTEGER NOT NULL, PRIMARY KEY(embed_fp, text_hash)) WITHOUT ROWID;
CREATE TABLE vector_files(
    embed_fp TEXT NOT NULL, epoch INTEGER NOT NULL, rows INTEGER NOT NULL,
    dimension INTEGER NOT NULL, PRIMARY KEY(embed_fp, epoch)) WITHOUT ROWID;
CREATE TABLE signatures(
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

TEMP_DDL = """
CREATE TEMP TABLE staged(
    chunk_id TEXT PRIMARY KEY, path TEXT, sha256 TEXT, chunk_idx INTEGER, start INTEGER,
    end INTEGER, page INTEGER, heading TEXT, text_hash TEXT, heading_terms BLOB,
    heading_crc INTEGER) WITHOUT ROWID;
CREATE TEMP TABLE opening(
    path TEXT PRIMARY KEY, sha256 TEXT, size INTEGER, mtime_ns INTEGER, type TEXT,
    decision TEXT, reason TEXT, crc INTEGER) WITHOUT ROWID;
CREATE TEMP TABLE closing(path TEXT PRIMARY KEY) WITHOUT ROWID;
"""

# SQL text of a chunk row ``c`` as it enters the digest: all columns but the generations.
CHUNK_CANON = (
    "'c'||length(c.chunk_id)||':'||c.chunk_id||length(c.path)||':'||c.path||'|'||c.sha256||'|'"
    "||c.chunk_idx||'|'||c.start||'|'||c.end||'|'||c.page||'|'||c.text_hash||'|'||c.heading"
)

# SQL text of a file row ``f`` as it enters the digest: no mtime, so machines agree.
FILE_CANON = "'f'||length(f.path)||':'||f.path||'|'||f.sha256||'|'||f.decision"

# SQL statement that records a text with its terms, as `terms.term_blob` gives them, and a crc.
INSERT_TEXT = "INSERT OR REPLACE INTO texts VALUES(?,?,pack_terms(?),?,?)"

_SIGNS_OF_DAMAGE = ("malformed", "no such", "decode", "not a database", "corrupt", "no column")

# SQL condition of a row that is live in generation ``:n``.
LIVE = "from_gen <= :n AND (to_gen IS NULL OR to_gen > :n)"


@contextlib.contextmanager
def guard(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, naming the file and the command."""
    try:
        yield
    except UnicodeDecodeError as error:  # from the driver: names or messages that were flipped
        raise _damaged(path, str(error)) from error
    except sqlite3.OperationalError as error:
        text = str(error)
        if any(sign in text.lower() for sign in _SIGNS_OF_DAMAGE):
            raise _damaged(path, text) from error
        raise OperationFailed(
            f"{path}: {text}", hint=(FreeSpace(), " or end the other process, then try again")
        ) from error
    except sqlite3.DatabaseError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, detail: str) -> IntegrityError:
    return IntegrityError(f"{path} is damaged: {detail}", hint=rebuild_hint(path.parent))


def connect_writer(index_dir: Path) -> sqlite3.Connection:
    """Open the catalog for writing, creating it when missing; the lock must be held."""
    path = index_dir / CATALOG_NAME
    with on_disk(index_dir):
        make_private_dir(index_dir)
    if path.exists() and path.stat().st_size == 0 and any(index_dir.glob("vectors-*.f32")):
        raise _damaged(path, "it is empty, but there are vectors")
    with guard(path):
        db = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        with on_failure(db.close):
            with on_disk(path):
                path.chmod(0o600)
            # DELETE and not WAL: readers with mode=ro see whole commits, and nothing lies beside
            # the file that must be copied or erased with it. EXTRA: the folder is synced too when
            # journal is gone. No spill: no page of a commit that is under way reaches the file, so
            # memory grows with a commit.
            for pragma in (
                "journal_mode=DELETE", "synchronous=EXTRA", "secure_delete=ON",
                "cache_spill=OFF", "temp_store=FILE", f"cache_size={_WRITE_CACHE_KIB}",
                "trusted_schema=OFF", "cell_size_check=ON",
            ):  # fmt: skip
                db.execute(f"PRAGMA {pragma}")
            if db.execute("PRAGMA user_version").fetchone()[0] == 0 and _is_empty(db):
                _initialise(db)
            _settle_format(db, path)
            db.executescript(TEMP_DDL)
    return db


def connect_reader(index_dir: Path) -> sqlite3.Connection:
    """Open the catalog read-only; never creates, recovers or changes anything."""
    path = index_dir / CATALOG_NAME
    with guard(path):
        uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        db = sqlite3.connect(
            uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        with on_failure(db.close):
            db.execute("PRAGMA query_only=ON")
            db.execute(f"PRAGMA cache_size={_READ_CACHE_KIB}")
            if _is_empty(db) and not any(index_dir.glob("vectors-*.f32")):
                raise no_generation(index_dir)  # a first ingest was killed before its tables
            _settle_format(db, path)
    return db


@contextlib.contextmanager
def reading(index_dir: Path) -> Iterator[sqlite3.Connection]:
    """Open the catalog for the queries of a block, in one read transaction; as `connect_reader`."""
    with guard(index_dir / CATALOG_NAME), contextlib.closing(connect_reader(index_dir)) as db:
        db.execute("BEGIN")
        yield db


def recover(index_dir: Path) -> bool:
    """Roll back what a killed writer left; readers cannot, since they open read-only."""
    if not (index_dir / JOURNAL_NAME).exists():
        return False
    try:
        with project_lock(index_dir):
            connect_writer(index_dir).close()
    except ProjectLocked:
        return False
    return True


def read(index_dir: Path, query: Callable[[sqlite3.Connection], Found]) -> Found:
    """Run a query in one read transaction, after rolling back what a killed writer left."""
    if not (index_dir / CATALOG_NAME).exists():
        raise no_generation(index_dir)
    recover(index_dir)
    with reading(index_dir) as db:
        return query(db)


def _is_empty(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master").fetchone() is None


def _initialise(db: sqlite3.Connection) -> None:
    """Make the tables of an empty catalog."""
    db.execute(f"PRAGMA page_size={PAGE_BYTES}")
    db.executescript(f"BEGIN IMMEDIATE;{DDL}PRAGMA user_version={SCHEMA_VERSION};COMMIT")


def _settle_format(db: sqlite3.Connection, path: Path) -> None:
    """Refuse other formats; give queries ``pack_terms`` and ``unpack_terms``.

    They stand between the terms of `terms.term_blob` and what a row holds; the crc beside a row's
    terms is that of the former.
    """
    version = db.execute("PRAGMA user_version").fetchone()[0]
    again = rebuild_hint(path.parent)
    if 0 < version < SCHEMA_VERSION:
        raise IntegrityError(
            f"{path} is of format {version}, which an earlier version of RAGstream wrote; this "
            f"program reads format {SCHEMA_VERSION}",
            hint=("once it is published anew, ", again)
            if is_pulled(path.parent)
            else (again, " makes it anew"),
        )
    if version != SCHEMA_VERSION:
        what = "newer" if version > SCHEMA_VERSION else "not a catalog or"
        raise IntegrityError(
            f"{path} is {what} of format {version}, this program reads format {SCHEMA_VERSION}",
            hint=("use the newer program, or ", again),
        )
    db.create_function("pack_terms", 1, packed_terms, deterministic=True)
    db.create_function("unpack_terms", 1, _unpacked, deterministic=True)


def _unpacked(stored: bytes | None) -> bytes | None:
    """Unpack terms; what cannot be is left as it is, and fails its crc."""
    return unpacked_terms(stored) if isinstance(stored, bytes) else stored


@contextlib.contextmanager
def transaction(db: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Run a block in one write transaction: all of it is durable afterwards, or nothing."""
    with guard(path):
        db.execute("BEGIN IMMEDIATE")
        with on_failure(lambda: db.in_transaction and db.execute("ROLLBACK")):
            yield
            db.execute("COMMIT")
