"""The writer lock of a project's index or of the history's, and what messages call each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ragstream_core.errors import RunCommand
from ragstream_core.index.pulled import is_pulled
from ragstream_core.platform.disk import disk_failure
from ragstream_core.platform.locks import LOCK_NAME, FolderLock


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
