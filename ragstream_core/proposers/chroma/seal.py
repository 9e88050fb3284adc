"""Sealed collections: folders with a receipt of their bytes, and checked copies of them.

``CURRENT`` names one. Bytes are compared with the receipt while they are copied, so damage is
noticed before Chroma sees it. Plain chromadb may open the sealed folder itself: its counting of
writers in ``chroma.sqlite3`` is the one change that is allowed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ragstream_core.errors import IntegrityError
from ragstream_core.platform.files import file_sha256, make_private_dir, replace_text
from ragstream_core.platform.locks import serialized
from ragstream_core.records.identity import sha256_hex

CURRENT = "CURRENT"
RECEIPT = "collection.json"
DATABASE = "chroma.sqlite3"
HEADER = "header.bin"
_ELEMENTS_AT, _HEADER_BYTES = 20, 28
FORMAT = 1
SEALED = "gen-"

# Tables of Chroma that answers come from; `acquire_write` only counts who opened the file.
_ANSWERING = (
    "collections", "collection_metadata", "segments", "embeddings", "embedding_metadata",
    "embedding_metadata_array", "embeddings_queue", "max_seq_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was sealed, and from what."""

    project: str  # project name as the user wrote it
    collection: str
    generation: int
    digest: str
    embed_fp: str
    model: str
    dimension: int
    rows: int
    dead: int  # rows deleted since the collection was last built from nothing; Chroma keeps them
    chromadb: str
    manifest: str  # sha256 of ``file_manifest.json`` inside
    graph: str = "standard"  # how its graph was built: a name of `vector_store_chroma.GRAPHS`
    # share of a sample of rows that find themselves, 0…1; -1: never measured
    self_recall: float = -1.0
    answers: str = ""
    # relative path → sha256; empty for files that hold nothing yet
    files: dict[str, str] = field(default_factory=dict)


def current(chroma_dir: Path) -> Path | None:
    """Return the sealed folder that CURRENT names, or None if there is none."""
    try:
        name = (chroma_dir / CURRENT).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    if not name.startswith(SEALED) or "/" in name:
        return None
    folder = chroma_dir / name
    return folder if folder.is_dir() else None


def receipt_of(folder: Path) -> Receipt | None:
    """Return the receipt inside a sealed folder, or None if it cannot be read."""
    try:
        data: dict[str, Any] = json.loads((folder / RECEIPT).read_text(encoding="utf-8"))
        return Receipt(**data) if data.pop("format") == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def current_receipt(chroma_dir: Path) -> Receipt | None:
    """Return the receipt of the current collection, None if there is none that can be read."""
    folder = current(chroma_dir)
    return receipt_of(folder) if folder else None


def seal_digest(chroma_dir: Path) -> str:
    """Return the sha256 of the current receipt: another one is another graph; empty: none."""
    folder = current(chroma_dir)
    return digest_of_receipt(folder) if folder else ""


def digest_of_receipt(folder: Path) -> str:
    """Return the sha256 of the receipt of a sealed folder; empty if there is none."""
    try:
        return sha256_hex((folder / RECEIPT).read_bytes())
    except OSError:
        return ""


def write_receipt(folder: Path, receipt: Receipt) -> Receipt:
    """Write the receipt of a finished folder, and return it; files and rows are digested here."""
    whole = replace(
        receipt,
        answers=answers_digest(folder / DATABASE),
        files={name: _receipted(folder, name) for name in _names(folder)},
    )
    note_recall(folder, whole, receipt.self_recall)
    return whole


def note_recall(folder: Path, receipt: Receipt, self_recall: float) -> Receipt:
    """Write a whole receipt with what `verify` found, and return it."""
    whole = replace(receipt, self_recall=self_recall)
    replace_text(folder / RECEIPT, json.dumps({"format": FORMAT, **asdict(whole)}, indent=1))
    return whole


def point_to(chroma_dir: Path, folder: Path) -> None:
    """Make a sealed folder the current one: the one moment at which readers change over."""
    replace_text(chroma_dir / CURRENT, folder.name + "\n")


def disown(chroma_dir: Path, folder: Path) -> None:
    """Let CURRENT name nothing if it names a folder that is damaged: the next ingest makes it."""
    with contextlib.suppress(OSError):
        if current(chroma_dir) == folder:
            (chroma_dir / CURRENT).unlink()


def answers_digest(database: Path) -> str:
    """Return the sha256 over the rows that answers come from."""
    digest = hashlib.sha256()
    uri = f"{database.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as db:
        for table in _ANSWERING:
            digest.update(table.encode())
            for row in db.execute(f"SELECT * FROM {table} ORDER BY rowid"):
                digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _names(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def _receipted(folder: Path, name: str) -> str:
    # An index that was never flushed has no element: its vectors are rows of the database, and its
    # files are memory that Chroma fills with something else whenever it opens them.
    header = (folder / name).parent / HEADER
    if header.is_file() and (folder / name) != header and not _elements(header):
        return ""
    return file_sha256(folder / name)


def _elements(header: Path) -> int:
    data = header.read_bytes()
    return int(struct.unpack_from("<Q", data, _ELEMENTS_AT)[0]) if len(data) >= _HEADER_BYTES else 0


COPY, STAGING = "open-", "staging-"
_BLOCK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def copy_of(folder: Path) -> Iterator[Path]:
    """Copy a sealed folder beside it for one process.

    The copy is removed afterwards, or at the next `sweep` if the process is killed.
    """
    target = Path(tempfile.mkdtemp(prefix=COPY, dir=make_private_dir(folder.parent)))
    with serialized(target, shared=True):
        try:
            with serialized(folder, shared=True):
                copy_checked(folder, target)
            yield target
        finally:
            shutil.rmtree(target, ignore_errors=True)


def copy_checked(folder: Path, target: Path) -> Receipt:
    """Copy the files of a sealed folder and compare each with the receipt.

    What cannot be read is damage, what cannot be written is a full disk and no damage.
    """
    receipt = receipt_of(folder)
    if receipt is None:
        raise IntegrityError(f"{folder}: {RECEIPT} is missing or damaged")
    for name, digest in receipt.files.items():
        make_private_dir((target / name).parent)
        try:
            copied = _copy(folder / name, target / name)
        except OSError as error:
            if error.errno in _FULL:
                raise
            raise IntegrityError(f"{folder / name} cannot be read: {error}") from error
        same = not digest or copied == digest
        if not (same or (name == DATABASE and _same_answers(folder, target, receipt))):
            raise IntegrityError(f"{folder / name} is not what was sealed")
    return receipt


def sweep(chroma_dir: Path, keep: Path | None) -> list[str]:
    """Remove what no process reads any more but the folder to keep; return the names."""
    for path in chroma_dir.glob(".*.tmp"):  # what a killed writer left of a pointer
        path.unlink(missing_ok=True)
    removed = []
    for folder in sorted(chroma_dir.iterdir()):
        ours = folder.name.startswith((COPY, STAGING, SEALED)) and folder.is_dir()
        if not ours or folder == keep:
            continue
        with contextlib.suppress(OSError), serialized(folder, wait=False):
            shutil.rmtree(folder)
            removed.append(folder.name)
    return removed


def _copy(source: Path, target: Path) -> str:
    # Read once: what was compared is what is opened.
    digest = hashlib.sha256()
    with source.open("rb") as old, target.open("wb") as new:
        while block := old.read(_BLOCK):
            digest.update(block)
            new.write(block)
    return digest.hexdigest()


def _same_answers(folder: Path, target: Path, receipt: Receipt) -> bool:
    # Chroma may have it open: SQLite's own backup waits for a writer and copies one state.
    try:
        uri = f"{(folder / DATABASE).absolute().as_uri()}?mode=ro"
        (target / DATABASE).unlink()
        with (
            contextlib.closing(sqlite3.connect(uri, uri=True)) as old,
            contextlib.closing(sqlite3.connect(target / DATABASE)) as new,
        ):
            old.backup(new)
        return answers_digest(target / DATABASE) == receipt.answers
    except (sqlite3.Error, UnicodeDecodeError, OSError):
        return False
