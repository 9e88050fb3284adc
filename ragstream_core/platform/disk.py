"""Room on the disk, required before a write begins, and the errors of the disk as ours."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ragstream_core.errors import FreeSpace, Hint, OperationFailed, TryAgain

_FAILING = (
    "check the disk (its log, its cables), then ",
    TryAgain(),
    "; what was committed is kept, and a file that the disk failed to keep is not written again",
)
_HINT = (FreeSpace(), " and ", TryAgain(), "; what was embedded so far is kept")


def disk_failure(
    path: Path, error: OSError, *, needed: int = 0, hint: Hint = _HINT
) -> OperationFailed:
    """Return the error for a system call on a file or folder that failed."""
    if error.errno == errno.EIO:
        return OperationFailed(f"{path}: the disk failed: {error.strerror}", hint=_FAILING)
    free = ""
    with contextlib.suppress(OSError):
        free = f"; {shutil.disk_usage(existing(path)).free} bytes free"
    wanted = f"; {needed} bytes to write" if needed else ""
    return OperationFailed(f"{path}: {error.strerror or error}{wanted}{free}", hint=hint)


def existing(path: Path) -> Path:
    """Return the nearest folder above that exists; it lies on the same disk."""
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path


# Bytes that stay free: the catalog's journal, lexical arrays and the manifest need room too.
RESERVE = 64 * 1024 * 1024


def require_space(folder: Path, needed: int) -> None:
    """Refuse to begin a write that would leave the disk nearly full."""
    free = shutil.disk_usage(existing(folder)).free
    if free < 2 * needed + RESERVE:
        raise OperationFailed(
            f"{folder}: {needed} bytes to write, {free} free; twice as many plus {RESERVE} in "
            "reserve are needed before anything is written",
            hint=_HINT,
        )


@contextlib.contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Turn the system's errors about one file or folder into ours."""
    try:
        yield
    except OSError as error:
        raise disk_failure(path, error) from error


def size_of(path: Path) -> int:
    """Return the bytes a file or folder really takes; sparse files count what is allocated."""
    if path.is_symlink() or not path.is_dir():
        with contextlib.suppress(OSError):
            found = path.lstat()
            return min(found.st_size, found.st_blocks * 512)
        return 0
    total = 0
    for folder, _, names in os.walk(path):
        total += sum(size_of(Path(folder, name)) for name in names)
    return total
