"""The project's writer lock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ragstream_core.locks import HOLDER_NAME, LOCK_NAME, FolderLock, process_start
from ragstream_core.stores.disk import disk_failure
from ragstream_core.stores.naming import label

__all__ = ["HOLDER_NAME", "LOCK_NAME", "process_start", "project_lock"]


@contextlib.contextmanager
def project_lock(index_dir: Path) -> Iterator[None]:
    """Hold the writer lock of one project; never waits.

    Raises:
        ProjectLocked: Another process holds it; the message says which one since when.
        OperationFailed: The lock file cannot be made: disk full, permission denied.
    """
    lock = FolderLock(index_dir, label(index_dir))
    with contextlib.ExitStack() as stack:
        stack.callback(lock.close)
        try:
            stack.enter_context(lock.held())
        except OSError as error:
            raise disk_failure(index_dir / LOCK_NAME, error) from error
        yield
