"""The only home of fsync and rename: a file is either the old one or the new one.

``replace_bytes`` is durable: file synced, renamed over the name, directory synced. ``pwrite_rows``
writes at an offset and syncs the file; committing what was written is the caller's business.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

PRIVATE_DIR = 0o700
PRIVATE_FILE = 0o600


def make_private_dir(path: Path) -> Path:
    """Create a directory (and parents) that only its owner may enter; return it."""
    path.mkdir(parents=True, exist_ok=True, mode=PRIVATE_DIR)
    return path


def sync_dir(path: Path) -> None:
    """Make the names inside a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Put ``data`` under ``path`` so that a reader sees the old bytes or the new ones.

    Args:
        path: Destination; its directory is created when missing.
        data: The whole content.
        durable: Sync file and directory. Switch off only for caches that may be lost.

    Raises:
        OSError: Disk full, permission denied; the old file is untouched.
    """
    make_private_dir(path.parent)
    fd, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as handle:
            handle.write(data)
            handle.flush()
            if durable:
                os.fsync(handle.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    if durable:
        sync_dir(path.parent)


def replace_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Put UTF-8 ``text`` under ``path``, as `replace_bytes`.

    Raises:
        OSError: Disk full, permission denied; the old file is untouched.
    """
    replace_bytes(path, text.encode("utf-8"), durable=durable)


def move_aside(path: Path, to: Path) -> None:
    """Rename within one directory, durably; a file already at ``to`` is replaced.

    Raises:
        OSError: ``path`` is missing or permission is denied.
    """
    os.replace(path, to)
    sync_dir(to.parent)


def pwrite_durable(path: Path, data: bytes, *, offset: int) -> None:
    """Write ``data`` at ``offset`` of ``path`` (created when missing) and sync it.

    Never truncates and never appends: bytes after a committed count are overwritten by the next
    writer, bytes before it are never touched.

    Raises:
        OSError: Disk full or I/O error; nothing before ``offset`` changed.
    """
    make_private_dir(path.parent)
    created = not path.exists()
    fd = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    try:
        view, at = memoryview(data), offset
        while view:
            written = os.pwrite(fd, view, at)
            view, at = view[written:], at + written
        os.fsync(fd)
    finally:
        os.close(fd)
    if created:
        sync_dir(path.parent)


def publish_dir(folder: Path, to: Path) -> None:
    """Sync every file and directory below ``folder``, then give it its name, durably.

    Args:
        folder: A finished directory beside ``to``; nobody writes it any more.
        to: Its name from now on; must not exist.

    Raises:
        OSError: Disk full, I/O error, or ``to`` exists and is not empty.
    """
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            fd = os.open(Path(parent, name), os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        sync_dir(Path(parent))
    os.rename(folder, to)
    sync_dir(to.parent)


def copy_durable(source: Path, to: Path) -> None:
    """Copy a file so that ``to`` is the old file or the whole copy.

    Raises:
        OSError: Disk full, permission denied, or ``source`` is missing; ``to`` is untouched.
    """
    make_private_dir(to.parent)
    fd, name = tempfile.mkstemp(prefix=f".{to.name[:80]}.", suffix=".tmp", dir=to.parent)
    try:
        with source.open("rb") as reader, os.fdopen(fd, "wb") as writer:
            shutil.copyfileobj(reader, writer, 1 << 20)
            writer.flush()
            os.fsync(writer.fileno())
        os.replace(name, to)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    sync_dir(to.parent)
