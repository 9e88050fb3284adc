"""Conversations in a backup: the journal, the archive, and the catalog, which is dear to remake.

The snapshot, the session logs and the Chroma collection are derived and made again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.atomic import copy_durable
from ragstream_core.build.history.turns import history_dir, journal, snapshot_path
from ragstream_core.build.memory.facts_files import copy_memory
from ragstream_core.errors import IntegrityError, RagstreamError, Refused
from ragstream_core.history.segments import CURRENT, closed_segments, torn_files
from ragstream_core.stores.schema import CATALOG_NAME

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace

HOME, LOGS = "history", "logs"
"""Where conversations lie in a backup, wherever they lie in the data root."""


def copy_history(workspace: Workspace, target: Path) -> dict[str, Any]:
    """Copy the conversations below the root of a backup; the catalog first, so it is not ahead.

    Returns:
        ``records`` (newest number of the journal), ``generation, digest``; empty without any.

    Raises:
        ProjectLocked: Another process writes.
        IntegrityError: The catalog is damaged.
        OSError: Disk full, permission denied.
    """
    from ragstream_core.build.upkeep.backup import copy_store, files
    from ragstream_core.stores.history_catalog import open_history_catalog

    home, log = history_dir(workspace), journal(workspace)
    copy_memory(workspace, target)
    if not log.folder.is_dir():
        return {}
    state: dict[str, Any] = {"generation": 0, "digest": ""}
    if (home / "index" / CATALOG_NAME).exists():
        with open_history_catalog(home / "index") as catalog:
            copy_store(catalog.db, catalog.index_dir, target / HOME / "index")
            mark = catalog.mark()
            state = {"generation": mark.generation, "digest": mark.digest}
    with log.locked():
        for path in _journal_files(log.folder):
            copy_durable(path, target / HOME / LOGS / path.name)
        for path in files(home / "archive"):
            copy_durable(path, target / HOME / path.relative_to(home))
        return {"records": log.newest().seq, **state}


def verify_history(root: Path) -> None:
    """Check the catalog in a backup as the catalog itself is checked.

    Raises:
        IntegrityError: It is not what was committed.
    """
    from ragstream_core.build.history.check import name_chunk
    from ragstream_core.stores.health import check

    index_dir = root / HOME / "index"
    if not (index_dir / CATALOG_NAME).exists():
        return
    findings = check(index_dir, name_chunk=name_chunk)
    if findings:
        raise IntegrityError(
            f"the copy of the history is not sound: {findings[0].message}",
            hint="ragstream history check",
        )


def require_free(workspace: Workspace, source: Path) -> None:
    """Refuse to put other conversations in the place of those that are there.

    Raises:
        Refused: The journal is there and says something else.
    """
    from ragstream_core.build.upkeep.backup import sha256_file

    there, given = (
        {path.name: sha256_file(path) for path in _journal_files(folder)}
        for folder in (journal(workspace).folder, source / HOME / LOGS)
    )
    if given and there not in ({}, given):
        raise Refused(
            f"{journal(workspace).folder} holds other conversations",
            hint="ragstream history export keeps them; restore … --force replaces them",
        )


def restore_history(workspace: Workspace, source: Path) -> int:
    """Put the conversations of a backup in place of those that are there; return how many files.

    What is derived is made again; what goes wrong there the next embedding makes good.

    Raises:
        ProjectLocked: Another process writes.
        OSError: Disk full, permission denied; journal and catalog are the old ones or the new.
    """
    from ragstream_core.build.upkeep.backup import files, replace_folder
    from ragstream_core.stores.lock import project_lock

    home, log, given = history_dir(workspace), journal(workspace), source / HOME
    if not given.is_dir():
        return 0
    for name, place in (("index", home / "index"), (LOGS, log.folder)):
        staging = place.parent / f".{name}.restored"
        shutil.rmtree(staging, ignore_errors=True)
        for path in files(given / name):
            copy_durable(path, staging / path.relative_to(given / name))
        if not staging.is_dir():
            continue
        with log.locked() if name == LOGS else project_lock(place):
            for path in place.glob("debug_*") if name == LOGS else ():
                copy_durable(path, staging / path.name)  # they lie beside the journal
            replace_folder(staging, place)
    for path in files(given / "archive"):
        copy_durable(path, home / "archive" / path.name)
    _derive(workspace)
    return sum(1 for _ in files(given))


def _derive(workspace: Workspace) -> None:
    from ragstream_core.build.history.publishing import publish
    from ragstream_core.history.sessions import write_session_logs

    shutil.rmtree(snapshot_path(workspace).parent, ignore_errors=True)
    log = journal(workspace)
    try:
        publish(workspace)
        write_session_logs(log, log.folder)
    except (RagstreamError, OSError):  # the next embedding publishes again
        return


def _journal_files(folder: Path) -> Iterator[Path]:
    """Yield the segments of a journal, oldest first, and what was quarantined."""
    yield from (segment.path for segment in closed_segments(folder))
    if (folder / CURRENT).exists():
        yield folder / CURRENT
    yield from torn_files(folder)
