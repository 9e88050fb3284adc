"""Where copies of a text may lie below a data root, and how each kind of place loses them.

Finding copies of a text in any file: whatever its format, escapes, line breaks or case.

Bytes are reduced to their letters and digits, so JSON, Markdown, bars at line starts and line
breaks make no difference. A copy of `RUN` characters is found wherever it begins; shorter texts
are found as a whole.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ragstream_core.errors import OperationFailed
from ragstream_core.index.schema import CATALOG_NAME
from ragstream_core.prompts.recorded import SUFFIX, text_of
from ragstream_core.prompts.store import exchange_files
from ragstream_core.records.identity import sha256_hex

WINDOW = 16
STEP = 8
NEEDED = 3
RUN = WINDOW + STEP * NEEDED
"""Every common run of so many letters and digits is found (40)."""
LEAST = 20
_GRAM = LEAST - STEP
_BLOCK = 1 << 24
_LOWER = bytes(range(256)).lower()
_DROPPED = bytes(c for c in range(128) if not chr(c).isalnum())
_BREAK = re.compile(rb"\\+[nrt]")
_UNICODE = re.compile(rb"(?:\\+u[0-9a-fA-F]{4})+")
_CODE = re.compile(rb"u([0-9a-fA-F]{4})")


def reduce(data: bytes) -> bytes:
    """Return letters and digits only, lower case, JSON escapes resolved; other scripts as UTF-8."""
    if b"\\" in data:
        data = _UNICODE.sub(_decoded, _BREAK.sub(b" ", data))
    return data.translate(_LOWER, _DROPPED)


def _decoded(match: re.Match[bytes]) -> bytes:
    units = b"".join(int(code, 16).to_bytes(2, "big") for code in _CODE.findall(match[0]))
    return units.decode("utf-16-be", "replace").encode()


class TextFingerprints:
    """What to look for.

    Args:
        texts: The texts whose copies are sought.
        chunk_ids: Chunks whose citations (``chunk: <id>``) show that their text was used.
    """

    def __init__(self, texts: Iterable[str], chunk_ids: Iterable[str] = ()) -> None:
        reduced = [reduce(text.encode("utf-8", "replace")) for text in texts]
        self._windows = {
            text[i : i + WINDOW] for text in reduced for i in range(len(text) - WINDOW + 1)
        }
        self._grams: dict[bytes, list[tuple[int, bytes]]] = {}
        for text in {text for text in reduced if LEAST <= len(text) < RUN}:
            for i in range(len(text) - _GRAM + 1):
                self._grams.setdefault(text[i : i + _GRAM], []).append((i, text))
        short = [sha256_hex(chunk_id)[:8].encode() for chunk_id in chunk_ids]
        self._cited = {b"chunk" + name for name in short} | {b"id" + name for name in short}

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._windows or self._grams)

    def found_in(self, data: bytes, *, citations: bool = False) -> set[bytes]:
        """Return the copied runs in some bytes, reduced; empty where there is no copy.

        Args:
            data: Any bytes.
            citations: Also look for citations of the chunks.
        """
        text = reduce(data)
        found = self._short_in(text) if self._grams else set()
        if citations:
            found |= {literal for literal in self._cited if literal in text}
        windows, in_a_row = self._windows, 0
        for at in range(0, len(text) - WINDOW + 1, STEP):
            if text[at : at + WINDOW] in windows:
                in_a_row += 1
                if in_a_row >= NEEDED:
                    found.add(text[at - STEP * (NEEDED - 1) : at + WINDOW])
            else:
                in_a_row = 0
        return found

    def _short_in(self, text: bytes) -> set[bytes]:
        """Return the short texts in some bytes: each has a gram at an eighth byte."""
        found: set[bytes] = set()
        for at in range(0, len(text) - _GRAM + 1, STEP):
            for offset, literal in self._grams.get(text[at : at + _GRAM], ()):
                if at >= offset and text.startswith(literal, at - offset):
                    found.add(literal)
        return found

    def found_in_file(self, path: Path, *, citations: bool = False) -> set[bytes]:
        """Do the same for a file, block by block; one that is gone holds nothing.

        Raises:
            OSError: It cannot be read.
        """
        found: set[bytes] = set()
        tail = b""
        try:
            with path.open("rb") as handle:
                while block := handle.read(_BLOCK):
                    found |= self.found_in(tail + block, citations=citations)
                    tail = block[-16 * RUN :]
        except FileNotFoundError:
            return set()
        return found


def common(runs: set[bytes], others: Iterable[str]) -> set[bytes]:
    """Return those runs that stand in other texts too, which are nobody's secret."""
    lengths = {len(run) for run in runs}
    shared: set[bytes] = set()
    for other in others:
        text = reduce(other.encode("utf-8", "replace"))
        for length in lengths:
            shared |= {
                text[i : i + length]
                for i in range(len(text) - length + 1)
                if text[i : i + length] in runs
            }
    return shared


DEBUG = "debug_"
"""How the names of debug logs begin, whose folder they share with the journal."""
LOG_NAMES = ("conversation", "session-", DEBUG)
"""How the names of our files begin in a folder of logs that may hold others."""
_YOURS = ("doc_raw", "projects", "models", "history", "memory")
_SQLITE = b"SQLite format 3\0"
_PARQUET = b"PAR1"
_BUSY_S = 10.0


class DataScanner:
    """Walks the files below a data root and looks into them.

    Attributes:
        searched: How many files the last walk over everything saw.

    Args:
        data_dir: The data root.
        index_root: Folder of all indexes; may lie elsewhere.
        logs: Folder of the journal and the debug logs; may lie elsewhere.
        project: The project whose file is erased.
    """

    def __init__(self, data_dir: Path, index_root: Path, logs: Path, *, project: str = "") -> None:
        self.data_dir = data_dir
        self.index_root = index_root
        self.logs = logs
        self.project = project
        self.searched = 0

    def name_of(self, path: Path) -> str:
        """Return a path relative to the data root where it lies below it."""
        try:
            return path.relative_to(self.data_dir).as_posix()
        except ValueError:
            return str(path)

    def area_of(self, path: Path) -> str:
        """Return the first folder below the data root.

        ``index`` wherever the indexes lie, ``history`` wherever the journal does, and ``logs`` for
        the debug logs beside it.
        """
        if path.is_relative_to(self.index_root):
            return "index"
        if path.parent == self.logs:
            return "logs" if path.name.startswith(DEBUG) else "history"
        return self.name_of(path).split("/", maxsplit=1)[0]

    def is_ours(self, path: Path) -> bool:
        """Say whether a file was made from documents, and may be removed with them.

        Your own files, and what belongs to other projects' documents, are reported instead.
        """
        area = self.area_of(path)
        if area == "index":
            return path.is_relative_to(self.index_root / self.project)
        return area not in _YOURS

    def everything(self) -> Iterator[Path]:
        """Yield every regular file, the documents too."""
        self.searched = 0
        roots = [self.data_dir]
        if not self._is_inside(self.index_root):
            roots.append(self.index_root)
        for root in roots:
            for folder, _, names in os.walk(root):
                yield from self._regular(Path(folder, name) for name in sorted(names))
        if not self._is_inside(self.logs) and self.logs.is_dir():  # whose other files are not ours
            found = sorted(self.logs.iterdir())
            yield from self._regular(path for path in found if path.name.startswith(LOG_NAMES))

    def _is_inside(self, folder: Path) -> bool:
        return folder.resolve().is_relative_to(self.data_dir.resolve())

    def _regular(self, paths: Iterable[Path]) -> Iterator[Path]:
        for path in paths:
            if path.is_file() and not path.is_symlink():
                self.searched += 1
                yield path

    def ours(self) -> Iterator[Path]:
        """Yield the files that may be removed; not the catalog, which loses its rows itself."""
        own = self.index_root / self.project
        for path in self.everything():
            live = path.parent == own and (
                path.name.startswith((f"{CATALOG_NAME}-", "vectors-", ".lock"))
                or path.name == CATALOG_NAME
            )
            if self.is_ours(path) and not live:
                yield path

    def hits(
        self, traces: TextFingerprints, files: Iterable[Path], others: Callable[[], Iterable[str]]
    ) -> list[Path]:
        """Return the files with a copy of what stands nowhere else.

        Args:
            traces: What to look for.
            files: Where.
            others: Texts whose words are nobody's secret; asked where something was found.

        Raises:
            OSError: A file cannot be read.
        """
        runs: dict[Path, set[bytes]] = {}
        for file in files if traces else ():
            found = self.look(file, traces)
            if found:
                runs[file] = found
        shared = common(set().union(*runs.values()), others()) if runs else set()
        return [file for file, found in runs.items() if found - shared]

    def look(self, path: Path, traces: TextFingerprints) -> set[bytes]:
        """Return the copied runs in a file."""
        citations = self.area_of(path) == "prompts"
        if path.suffix == ".parquet":
            return traces.found_in(_parquet_text(path), citations=citations)
        if path.name.endswith(SUFFIX):
            with contextlib.suppress(OSError):  # a damaged one is searched as it is
                return traces.found_in(text_of(path), citations=citations)
        return traces.found_in_file(path, citations=citations)


def _parquet_text(path: Path) -> bytes:
    """Return the texts of a compressed table; its raw bytes where it is none."""
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, ValueError):  # pyarrow's errors are of these kinds
        return path.read_bytes() if path.exists() else b""
    return "\n".join(str(row) for row in table.to_pylist()).encode("utf-8", "replace")


def purge(path: Path, traces: TextFingerprints, *, finder: DataScanner) -> list[str]:
    """Remove the copies in one file of ours; return the names of what went.

    A kept prompt and a recorded run go as a whole: what is left of one could not be replayed. What
    a language model said while it was made goes with it.

    Raises:
        OperationFailed: A database is in use by another process.
        OSError: It cannot be removed.
    """
    area = finder.area_of(path)
    if area == "prompts":
        inside = path.relative_to(finder.data_dir / "prompts").parts
        if len(inside) > 1 and inside[0] not in ("inbox", "blobs"):
            depth = 2 if inside[0] == "runs" else 1
            path = (finder.data_dir / "prompts").joinpath(*inside[: min(depth, len(inside))])
            for exchange in exchange_files(path):
                remove(exchange)
    elif _is_sqlite(path):
        count = _purge_rows(path, traces)
        return [f"{finder.name_of(path)} ({count} values)"]
    remove(path)
    return [finder.name_of(path)]


def remove(path: Path) -> None:
    """Remove a file or a folder; one that is gone is no error.

    Raises:
        OSError: It cannot be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_sqlite(path: Path) -> bool:
    if path.name.endswith(("-wal", "-shm", "-journal")):
        path = path.with_name(path.name.rpartition("-")[0])
    try:
        with path.open("rb") as handle:
            return handle.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _purge_rows(path: Path, traces: TextFingerprints) -> int:
    """Empty the values of a database that hold a copy, or drop their rows, and vacuum it."""
    if path.name.endswith(("-wal", "-shm", "-journal")):
        path = path.with_name(path.name.rpartition("-")[0])
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)) as db:
            db.execute("PRAGMA secure_delete=ON")
            db.execute("BEGIN IMMEDIATE")
            tables = db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            count = sum(_purge_table(db, str(name), traces) for (name,) in tables)
            db.execute("COMMIT")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise OperationFailed(
            f"{path}: {error}", hint="end `ragstream up`, then run the command again"
        ) from error
    return count


def _purge_table(db: sqlite3.Connection, table: str, traces: TextFingerprints) -> int:
    quoted = '"' + table.replace('"', '""') + '"'
    names = [str(row[1]) for row in db.execute(f"PRAGMA table_info({quoted})")]
    hits: list[tuple[int, str]] = []
    for rowid, *values in db.execute(f"SELECT rowid, * FROM {quoted}"):
        hits += [
            (rowid, name)
            for name, value in zip(names, values, strict=True)
            if traces.found_in(_bytes(value))
        ]
    for rowid, name in hits:
        column = '"' + name.replace('"', '""') + '"'
        try:
            db.execute(f"UPDATE {quoted} SET {column} = NULL WHERE rowid = ?", (rowid,))
        except sqlite3.IntegrityError:  # it must not be empty: the row goes
            db.execute(f"DELETE FROM {quoted} WHERE rowid = ?", (rowid,))
    return len(hits)


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else b""
