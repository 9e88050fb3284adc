"""Copies of sealed collections: the only way in which anything of ours opens one.

Bytes are compared with the receipt while they are copied, so a torn or damaged collection is
noticed before Chroma sees it. A folder in use is held by an flock, which ends with its process
whatever happens to it; `sweep` removes what nobody holds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ragstream_core.atomic import make_private_dir
from ragstream_core.errors import IntegrityError
from ragstream_core.stores.chroma_seal import (
    DATABASE,
    RECEIPT,
    SEALED,
    Receipt,
    answers_digest,
    receipt_of,
)

COPY, STAGING = "open-", "staging-"
_BLOCK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def copy_of(folder: Path) -> Iterator[Path]:
    """Copy a sealed folder beside it for one process.

    The copy is removed afterwards, or at the next `sweep` where the process is killed.

    Raises:
        IntegrityError: The folder is not what was sealed.
        OSError: Disk full: no sign of damage.
    """
    target = Path(tempfile.mkdtemp(prefix=COPY, dir=make_private_dir(folder.parent)))
    with _held(target, fcntl.LOCK_SH):
        try:
            with _held(folder, fcntl.LOCK_SH):
                copy_checked(folder, target)
            yield target
        finally:
            shutil.rmtree(target, ignore_errors=True)


def copy_checked(folder: Path, target: Path) -> Receipt:
    """Copy the files of a sealed folder and compare each with the receipt.

    Raises:
        IntegrityError: The folder is not what was sealed.
        OSError: Disk full: no sign of damage.
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
        if copied != digest and name == DATABASE:
            copied = digest if _same_answers(folder, target, receipt) else copied
        if digest and copied != digest:
            raise IntegrityError(f"{folder / name} is not what was sealed")
    return receipt


def sweep(chroma_dir: Path, keep: Path | None) -> list[str]:
    """Remove what nobody reads any more: copies and stagings of the dead, old sealed folders.

    Args:
        chroma_dir: The project's folder.
        keep: The current sealed folder.

    Returns:
        Names of the folders that were removed.
    """
    for path in chroma_dir.glob(".*.tmp"):  # what a killed writer left of a pointer
        path.unlink(missing_ok=True)
    removed = []
    for folder in sorted(chroma_dir.iterdir()):
        ours = folder.name.startswith((COPY, STAGING, SEALED)) and folder.is_dir()
        if not ours or folder == keep:
            continue
        with contextlib.suppress(OSError), _held(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(folder)
            removed.append(folder.name)
    return removed


@contextlib.contextmanager
def _held(folder: Path, mode: int) -> Iterator[None]:
    # An flock on the folder itself: gone with its process, whatever happens to it.
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, mode)
        yield
    finally:
        os.close(fd)


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
