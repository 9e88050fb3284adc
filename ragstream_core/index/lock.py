"""The writer lock of a store, its name and commands in messages, and the model that built it.

A store is a project's index or that of the conversations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragstream_core.errors import ModelMismatch
from ragstream_core.platform.disk import disk_failure
from ragstream_core.platform.locks import HOLDER_NAME, LOCK_NAME, FolderLock, process_start


def is_history(index_dir: Path) -> bool:
    """Return whether a store is that of the conversations, ``<data>/history/index``."""
    return index_dir.parts[-2:] == ("history", "index")


def label(index_dir: Path) -> str:
    """Return what a store is called."""
    return "the history" if is_history(index_dir) else f"project {index_dir.name}"


def update_hint(index_dir: Path) -> str:
    """Return the command that brings a store up to date."""
    if is_history(index_dir):
        return "ragstream history embed"
    return f"ragstream ingest {index_dir.name}"


def rebuild_hint(index_dir: Path) -> str:
    """Return the command that makes a store anew."""
    if is_history(index_dir):
        return "ragstream history backfill --rebuild"
    return f"{update_hint(index_dir)} --rebuild"


def check_hint(index_dir: Path) -> str:
    """Return the command that checks a store and makes again what is derived from it."""
    return "ragstream index check" + ("" if is_history(index_dir) else f" {index_dir.name}")


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


@dataclass(frozen=True, slots=True)
class Stamp:
    """A vector space.

    Attributes:
        embed_fp: Fingerprint of the model; empty if unknown.
        model: Its name, for people.
        dimension: Length of a vector; 0 if unknown.
    """

    embed_fp: str = ""
    model: str = ""
    dimension: int = 0

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Stamp:
        """Return the stamp inside a JSON object."""
        return cls(
            str(data.get("embed_fp", "")),
            str(data.get("model", "")),
            int(data.get("dimension", 0)),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what is written into a store: nothing empty, which Chroma would not take."""
        return {key: value for key, value in asdict(self).items() if value}

    def require(self, stored: Stamp, *, what: str, project: str = "") -> None:
        """Refuse a store that another model built.

        Args:
            stored: What the store says.
            what: The store, for people.
            project: Whose documents it holds, for the command that rebuilds it.

        Raises:
            ModelMismatch: Another fingerprint or another dimension.
        """
        if stored.embed_fp == self.embed_fp and stored.dimension in (0, self.dimension):
            return
        raise ModelMismatch(
            f"{what} was built by {stored._described()}, this session uses {self._described()}",
            hint=f"ragstream ingest {project or 'PROJECT'} --rebuild",
        )

    def _described(self) -> str:
        size = f", {self.dimension} dimensions" if self.dimension else ""
        return f"{self.model or 'an unnamed model'} ({self.embed_fp[:12] or 'unknown'}{size})"
