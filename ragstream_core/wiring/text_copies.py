"""Where copies of a text may lie below a data root, and how each kind of place loses them."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import OperationFailed, RunCommand, StoreFailed, TryAgain
from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.platform.debug_log import is_log
from ragstream_core.platform.files import remove_path
from ragstream_core.prompts.recorded import SUFFIX, text_of
from ragstream_core.prompts.store import exchange_files
from ragstream_core.text.fingerprints import RUN, TextFingerprints, common

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.platform.postgres import Connection
    from ragstream_core.wiring.workspace import Workspace

_JOURNAL = re.compile(r"conversation(?:-\d+)?\.log(?:\.torn-\d+)?")
_SESSION = re.compile(r"session-[A-Za-z0-9._-]+\.log|\.session-.*\.tmp")

# Areas whose files are the user's, or were made from other texts: reported, never touched.
YOURS = ("index", "doc_raw", "mirrors", "projects", "models", "memory")
_LIVE = (CATALOG_NAME, "vectors-", ".lock")
_BLOCK = 1 << 24
_SQLITE = b"SQLite format 3\0"
_SIDES = ("-wal", "-shm", "-journal")
_BUSY_S = 10.0

Texts = Callable[[], Iterable[str]]


class CopyEraser:
    """Finds the copies of texts in the files below a data root, and removes those that are ours.

    Attributes:
        searched: How many files the last walk over everything saw.
        removed: Names of what was removed, in order.
    """

    def __init__(
        self,
        workspace: Workspace,
        store: Path,
        *,
        yours: Collection[str] = (),
        made: Iterable[Path] = (),
        unsearched: Path | None = None,
    ) -> None:
        self.searched = 0
        self.removed: list[str] = []
        self._config = workspace.config
        self._data_dir = workspace.data_dir
        self._index_root = workspace.layout.indexes
        self._logs = workspace.layout.logs
        self._store = store
        self._made = (store, *made)
        self._yours = {*YOURS, *yours}
        self._unsearched = unsearched

    def remove(self, path: Path) -> None:
        """Remove a file or a folder and note its name; one that is gone is passed over."""
        if path.exists() or path.is_symlink():
            remove_path(path)
            self.note(path)

    def note(self, path: Path) -> None:
        """Note that a file or a folder was removed."""
        self.removed.append(self._name_of(path))

    def purge(self, sought: TextFingerprints, staying: Texts) -> bool:
        """Remove every copy that is ours once; return whether there was none.

        Not the journal and the live index, which lose their rows themselves.
        """
        files = (path for path in self._files() if self._is_ours(path) and not self._is_live(path))
        hits = self._hits(sought, files, staying)
        for path in hits:
            self._purge_file(path, sought)
        records = _records(self._config, sought, staying, purge=True)
        if records:
            self.removed.append(f"{SETTING} ({len(records)} rows)")
        return not hits and not records

    def left(self, sought: TextFingerprints, staying: Texts) -> tuple[list[str], list[str]]:
        """Search everything; return the names of our files with a copy, and of the user's."""
        records = _records(self._config, sought, staying)
        ours = sorted({f"{SETTING}: {record.table}" for record in records})
        yours: list[str] = []
        for path in self._hits(sought, self._files(), staying):
            (ours if self._is_ours(path) else yours).append(self._name_of(path))
        return ours, yours

    def _name_of(self, path: Path) -> str:
        """Return a path relative to the data root if it lies below it."""
        inside = path.is_relative_to(self._data_dir)
        return path.relative_to(self._data_dir).as_posix() if inside else str(path)

    def _area_of(self, path: Path) -> str:
        """Return the first folder below the data root.

        ``index`` wherever the indexes lie, ``history`` wherever the journal does, and ``logs`` for
        the debug logs beside it.
        """
        if path.is_relative_to(self._index_root):
            return "index"
        if path.parent == self._logs:
            return "logs" if is_log(path.name) else "history"
        return self._name_of(path).split("/", maxsplit=1)[0]

    def _is_ours(self, path: Path) -> bool:
        """Return whether a file was made from the texts, and must not hold a copy at the end."""
        made = any(path.is_relative_to(folder) for folder in self._made)
        return made or self._area_of(path) not in self._yours

    def _is_live(self, path: Path) -> bool:
        """Return whether a file is of the journal or of the index that held the texts."""
        if path.parent == self._logs:
            return _JOURNAL.fullmatch(path.name) is not None
        return path.parent == self._store and path.name.startswith(_LIVE)

    def _files(self) -> Iterator[Path]:
        """Yield every regular file, the documents too, and count them."""
        self.searched = 0
        for path in self._walk():
            skipped = self._unsearched is not None and path.is_relative_to(self._unsearched)
            if path.is_file() and not path.is_symlink():
                self.searched += 1
                if not skipped:
                    yield path

    def _walk(self) -> Iterator[Path]:
        for root in (self._data_dir, self._index_root):
            if root is self._data_dir or not self._is_inside(root):
                for folder, _, names in os.walk(root):
                    yield from (Path(folder, name) for name in sorted(names))
        if not self._is_inside(self._logs) and self._logs.is_dir():  # it may hold files of others
            found = sorted(self._logs.iterdir())
            yield from (path for path in found if _is_of_logs(path.name))

    def _is_inside(self, folder: Path) -> bool:
        return folder.resolve().is_relative_to(self._data_dir.resolve())

    def _hits(self, sought: TextFingerprints, files: Iterable[Path], staying: Texts) -> list[Path]:
        """Return the files with a copy of what does not stand in a text that stays."""
        runs: dict[Path, set[bytes]] = {}
        for path in files if sought else ():
            found = self._found_in(path, sought)
            if found:
                runs[path] = found
        shared = common(set().union(*runs.values()), staying()) if runs else set()
        return [path for path, found in runs.items() if found - shared]

    def _found_in(self, path: Path, sought: TextFingerprints) -> set[bytes]:
        """Return what is found in a file; a ledger names every candidate and shows none."""
        citations = self._area_of(path) == "prompts"
        if path.suffix == ".parquet":
            found = sought.found_in(_parquet_text(path), citations=citations)
            return found - sought.names
        if path.name.endswith(SUFFIX):
            with contextlib.suppress(OSError):  # a damaged one is searched as it is
                return sought.found_in(text_of(path), citations=citations)
        found = set()
        for block in _blocks(path):
            found |= sought.found_in(block, citations=citations)
        return found

    def _purge_file(self, path: Path, sought: TextFingerprints) -> None:
        """Remove the copies in one file of ours.

        A kept prompt and a recorded run go as a whole: what is left of one could not be replayed.
        What a language model said while it was made goes with it.
        """
        prompts = self._data_dir / "prompts"
        if self._area_of(path) == "prompts":
            inside = path.relative_to(prompts).parts
            if len(inside) > 1 and inside[0] not in ("inbox", "blobs"):
                depth = 2 if inside[0] == "runs" else 1
                path = prompts.joinpath(*inside[: min(depth, len(inside))])
                for exchange in exchange_files(path):
                    remove_path(exchange)
        elif _is_sqlite(path):
            count = _purge_rows(path, sought)
            self.removed.append(f"{self._name_of(path)} ({count} rows)")
            return
        remove_path(path)
        self.note(path)


def _is_of_logs(name: str) -> bool:
    """Return whether a file is one of ours in a folder of logs that may hold others."""
    return is_log(name) or any(form.fullmatch(name) for form in (_JOURNAL, _SESSION))


def token_vectors(folders: Iterable[Path], text_hashes: Iterable[str]) -> Iterator[Path]:
    """Yield the cached token vectors of some texts, those half written too."""
    hashes = set(text_hashes)
    for folder in folders:
        for path in folder.glob("tokens-*/*/*"):
            if path.name.lstrip(".").partition(".")[0] in hashes:
                yield path


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield a file in blocks that overlap; one that is gone holds nothing."""
    tail = b""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as handle:
        while block := handle.read(_BLOCK):
            yield tail + block
            # a run that the end of a block cuts is whole in the next: of RUN letters, each of which
            # takes up to 16 bytes where escapes and marks stand between them
            tail = block[-16 * RUN :]


def _parquet_text(path: Path) -> bytes:
    """Return the texts of a compressed table; its raw bytes if it is none."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, ValueError):  # pyarrow's errors are of these kinds
        return path.read_bytes() if path.exists() else b""
    return "\n".join(str(row) for row in table.to_pylist()).encode("utf-8", "replace")


def _database_of(path: Path) -> Path:
    """Return the database that a file beside it belongs to; itself if it is none of those."""
    return path.with_name(path.name.rpartition("-")[0]) if path.name.endswith(_SIDES) else path


def _is_sqlite(path: Path) -> bool:
    try:
        with _database_of(path).open("rb") as handle:
            return handle.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _purge_rows(path: Path, sought: TextFingerprints) -> int:
    """Delete the rows of a database that hold a copy, or empty them, and vacuum it."""
    path = _database_of(path)
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)) as db:
            db.execute("PRAGMA secure_delete=ON")
            db.execute("BEGIN IMMEDIATE")
            tables = db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            count = sum(_purge_table(db, str(name), sought) for (name,) in tables)
            db.execute("COMMIT")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise OperationFailed(
            f"{path}: {error}", hint=("end ", RunCommand("up"), ", then ", TryAgain())
        ) from error
    return count


def _purge_table(db: sqlite3.Connection, table: str, sought: TextFingerprints) -> int:
    quoted = _quoted(table)
    names = [str(row[1]) for row in db.execute(f"PRAGMA table_info({quoted})")]
    hits: dict[int, list[str]] = {}
    for rowid, *values in db.execute(f"SELECT rowid, * FROM {quoted}"):
        for name, value in zip(names, values, strict=True):
            if sought.found_in(_bytes(value)):
                hits.setdefault(rowid, []).append(name)
    for rowid, columns in hits.items():
        db.execute(f"{_removal(table, columns)} WHERE rowid = ?", (rowid,))
    return len(hits)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _removal(table: str, columns: Iterable[str]) -> str:
    """Return the statement that takes a row away, or empties it where Dagster needs the row."""
    if table == ASSETS:
        return f"UPDATE {_quoted(table)} SET {', '.join(f'{_quoted(c)} = NULL' for c in columns)}"
    return f"DELETE FROM {_quoted(table)}"


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else b""


SETTING = "dagster.storage"

# Dagster's table whose rows stay, without the last event.
ASSETS = "asset_keys"
_PLACES = (
    ("runs", "run_body"),  # of today's runs a question typed into the Launchpad, until one begins
    # events of versions before, and Dagster's two copies of the last ones
    ("event_logs", "event"),
    ("asset_check_executions", "evaluation_event"),
    (ASSETS, "last_materialization"),
)
_AT_ONCE = 200  # rows of a run's events are a few kB each


class _Place(NamedTuple):
    table: str
    column: str
    id: object


def _records(
    config: AppConfig, sought: TextFingerprints, staying: Texts, *, purge: bool = False
) -> list[_Place]:
    """Return where Dagster's database holds a copy, if there is one; all is one transaction."""
    url = config.settings.dagster.storage.get_secret_value()
    if not url or not sought:
        return []
    from ragstream_core.platform.postgres import database_at  # loads the driver

    database = database_at(url, setting=SETTING)
    try:
        with database.connect() as db, database.errors(), db.transaction():
            places = _places(db, sought, staying)
            for place in places if purge else ():
                change = f"{_removal(place.table, [place.column])} WHERE id = %s"
                db.execute(change.encode(), (place.id,))
            return places
    except OperationFailed as error:
        raise StoreFailed(
            f"Dagster's records of these texts may still be there: {error.message}",
            hint=(*error.advice, ", or take ", SETTING, " away if that database is gone"),
        ) from error


def _places(db: Connection, sought: TextFingerprints, staying: Texts) -> list[_Place]:
    """Return where a copy stands of what is in no text that stays."""
    hits: dict[_Place, set[bytes]] = {}
    for table, column in _PLACES:
        if db.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
            continue  # Dagster makes its tables when it first needs them
        with db.cursor(name="ragstream_erasing") as cursor:
            cursor.itersize = _AT_ONCE
            cursor.execute(f"SELECT id, {column} FROM {table}".encode())
            for number, text in cursor:
                if runs := sought.found_in(str(text or "").encode("utf-8", "replace")):
                    hits[_Place(table, column, number)] = runs
    shared = common(set().union(*hits.values()), staying()) if hits else set()
    return [place for place, runs in hits.items() if runs - shared]
