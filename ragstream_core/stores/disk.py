"""Room on the disk, asked for before a write begins, and errors of the disk as ours."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from ragstream_core.disk import disk_failure, existing
from ragstream_core.errors import OperationFailed

__all__ = ["RESERVE", "disk_failure", "on_disk", "require_space"]

RESERVE = 64 * 1024 * 1024
"""Bytes that stay free: the catalog's journal, lexical arrays and the manifest need room too."""
_HINT = "free disk space and run the command again; what was embedded so far is kept"


def require_space(folder: Path, needed: int) -> None:
    """Refuse to begin a write that would leave the disk nearly full.

    Args:
        folder: Where it will be written.
        needed: Bytes; twice as many plus a reserve must be free.

    Raises:
        OperationFailed: There is less.
    """
    free = shutil.disk_usage(existing(folder)).free
    if free < 2 * needed + RESERVE:
        raise OperationFailed(
            f"{folder}: {needed} bytes to write, {free} free; twice as many plus {RESERVE} in "
            "reserve are needed before anything is written",
            hint=_HINT,
        )


@contextlib.contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Turn the system's errors about one file or folder into ours.

    Raises:
        OperationFailed: Disk full, I/O error, permission denied.
    """
    try:
        yield
    except OSError as error:
        raise disk_failure(path, error) from error
