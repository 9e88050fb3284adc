"""The Dagster instance of a data root: its settings file, its folder, one object a process."""

import contextlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.config import set_dagster_home
from ragstream_core.platform.files import make_private_dir, replace_text
from ragstream_core.platform.locks import FolderLock
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from dagster import DagsterInstance

OPENING_S = 60.0
"""How long to wait for another process that opens the storage."""
STAMP = "# written by ragstream, replaced when ragstream changes, kept when you edit it: "


def dagster_home(data_dir: Path) -> Path:
    """Make ``<data>/dagster_home`` ready, point ``DAGSTER_HOME`` to it and return it.

    A ``dagster.yaml`` that somebody has edited or written is left alone.

    Raises:
        OSError: Disk full, permission denied.
    """
    home = make_private_dir(set_dagster_home(data_dir))
    text = (Path(__file__).parent / "dagster.yaml").read_text(encoding="utf-8")
    stamped = f"{STAMP}{sha256_hex(text)}\n{text}"
    path = home / "dagster.yaml"
    current = path.read_text(encoding="utf-8") if path.exists() else None
    if current != stamped and (current is None or _ours(current)):
        replace_text(path, stamped)
    return home


def instance_of(data_dir: Path) -> "DagsterInstance":
    """Return this process's instance of a data root, opening it at the first call.

    Raises:
        OSError: The folder cannot be written.
        ProjectLocked: Another process has been opening it for a minute.
        Exception: Whatever Dagster raises when its storage is damaged.
    """
    return _open(dagster_home(data_dir))


def drop_instances() -> None:
    """Forget all open instances, so that the next call opens its storage again."""
    _open.cache_clear()


@lru_cache(maxsize=1)
def _open(home: Path) -> "DagsterInstance":
    from dagster import DagsterInstance

    # two processes that make its tables at a time get in each other's way
    with FolderLock(home, "Dagster's storage").held(wait_s=OPENING_S):
        return DagsterInstance.from_config(str(home))


def _ours(text: str) -> bool:
    """Whether a settings file is as we wrote it, in whatever version."""
    head, _, body = text.partition("\n")
    with contextlib.suppress(UnicodeError):
        return head.startswith(STAMP) and head.removeprefix(STAMP) == sha256_hex(body)
    return False
