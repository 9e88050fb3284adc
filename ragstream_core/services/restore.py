"""`ragstream restore`: a backup verified file by file, then put in place.

An index is copied beside its place and renamed when it is complete.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ragstream_core.conversations.sessions import write_session_logs
from ragstream_core.errors import (
    AddOption,
    IntegrityError,
    RagstreamError,
    Refused,
    RunCommand,
    UsageError,
)
from ragstream_core.index.rows import latest_generation
from ragstream_core.index.schema import CATALOG_NAME, project_lock, read
from ragstream_core.platform import sidecar
from ragstream_core.platform.data_root import checked
from ragstream_core.platform.files import (
    aside_of,
    copy_durable,
    file_sha256,
    make_private_dir,
    put_in_place,
)
from ragstream_core.services.backup import (
    BACKUP_VERSION,
    HOME,
    LIST_NAME,
    LOGS,
    IndexState,
    Listed,
    journal_files,
    verify_catalogs,
)
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import journal

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace


# Names in the folder of the journal beside its own: what is made from it, and its lock.
_MADE_AGAIN = re.compile(r"session-.*\.log|\.sessions\.json|\.lock(-holder)?|\.(conv|sess).*\.tmp")


@dataclass(frozen=True, slots=True)
class Restored:
    """A backup that was brought back; as JSON its fields."""

    path: str
    files: int
    projects: dict[str, IndexState]


def restore(workspace: Workspace, source: Path, *, force: bool = False) -> Restored:
    """Bring a backup back into the data root.

    Everything is verified before the first byte is written. Prompts are added; one that is there
    already stays as it is.

    Args:
        workspace: The data root.
        source: The folder that `backup` made.
        force: Replace indexes, project texts, documents and conversations that are there.

    Raises:
        UsageError: No backup lies there.
        IntegrityError: A file is not what was backed up; nothing was written.
        Refused: Something is there and ``force`` is off; nothing was written.
        ProjectLocked: Another process writes a project.
    """
    listed, states = _verified(source)
    names = sorted(name for name, state in states.items() if not _is_there(workspace, name, state))
    if not force:
        for name in names:
            path = workspace.index_dir(name) / CATALOG_NAME
            if path.exists():
                replaces = RunCommand("restore", "… --force")
                raise Refused(f"{path} already exists", hint=(replaces, " replaces it"))
        _require_unwritten(workspace, source, listed)
        _require_free(workspace, source)
    for name in states.keys() - set(names):  # what a killed call left beside them
        index_dir = workspace.index_dir(name)
        for rest in (_staging(index_dir), aside_of(index_dir)):
            shutil.rmtree(rest, ignore_errors=True)
    for name in names:
        _restore_index(workspace, source, name, _below(listed, f"index/{name}/"))
    others = [f for f in listed if not f.startswith(("index/", "history/"))]
    written = _restore_history(workspace, source, _below(listed, f"{HOME}/"))
    for relative in others:
        target = workspace.data_dir / relative
        if not (relative.startswith("prompts/") and target.exists()):
            _sweep(target)
            copy_durable(source / relative, target)
            written += 1
    written += sum(f.startswith("index/") for f in listed)
    return Restored(str(source), written, states)


def _sweep(target: Path) -> None:
    """Unlink what a killed restore left half-copied beside a file."""
    for path in target.parent.glob(f".{glob.escape(target.name[:80])}.*.tmp"):
        path.unlink()


def _below(listed: Iterable[str], folder: str) -> list[str]:
    """Return the files of a backup that its list names below a folder: only those were checked."""
    return [name for name in listed if name.startswith(folder)]


def _is_there(workspace: Workspace, name: str, state: IndexState) -> bool:
    """Return whether a restore that was killed put an index in its place already."""
    index_dir = workspace.index_dir(name)
    if not (index_dir / CATALOG_NAME).exists():
        return False
    newest = read(index_dir, latest_generation)
    return newest is not None and (newest.n, newest.digest) == state


def _staging(target: Path) -> Path:
    """Return where a folder is put together; a killed restore leaves it, with the old one too."""
    return target.with_name(f".{target.name}.restored")


def _restore_index(workspace: Workspace, source: Path, name: str, listed: Iterable[str]) -> None:
    """Put one index in place of what is there; its folder is renamed when it is complete."""
    target = workspace.index_dir(name)
    staging = _staging(target)
    shutil.rmtree(staging, ignore_errors=True)
    for path in listed:
        copy_durable(source / path, staging / Path(path).relative_to("index", name))
    with project_lock(target):
        put_in_place(staging, target)


def _require_unwritten(workspace: Workspace, source: Path, files: Iterable[str]) -> None:
    for relative in files:
        target = workspace.data_dir / relative
        yours = relative.startswith(("projects/", "doc_raw/", "memory/")) and target.exists()
        if yours and file_sha256(target) != file_sha256(source / relative):
            force = AddOption("--force")
            raise Refused(f"{target} exists and is another file", hint=(force, " replaces it"))


def _verified(source: Path) -> tuple[list[str], dict[str, IndexState]]:
    """Return the files of a backup and the states of its indexes; all of them were checked."""
    listed = sidecar.read(source / LIST_NAME, Listed)
    if listed is None:
        raise UsageError(
            f"{source} is not a backup: it has no readable {LIST_NAME}",
            hint=(
                "name a folder that a backup was made in; one that did not end goes on with ",
                RunCommand("backup", str(source)),
            ),
        )
    if listed.version != BACKUP_VERSION:
        raise UsageError(
            f"{source} is a backup of version {listed.version}, this program reads "
            f"{BACKUP_VERSION}",
            hint="restore it with the version of RAGstream that made it, or a newer one",
        )
    for name in listed.projects:
        checked(name)
    for relative, digest in listed.files.items():
        pure = PurePosixPath(relative)
        path = source / relative
        inside = not pure.is_absolute() and ".." not in pure.parts and not path.is_symlink()
        if not inside or not path.is_file() or file_sha256(path) != digest:
            raise IntegrityError(f"{path} is not what was backed up", hint="use another backup")
    verify_catalogs(source, listed.projects)
    return list(listed.files), listed.projects


def _require_free(workspace: Workspace, source: Path) -> None:
    """Refuse to put other conversations in the place of those that are there."""
    there, given = (
        {path.name: file_sha256(path) for path in journal_files(folder)}
        for folder in (journal(workspace).folder, source / HOME / LOGS)
    )
    if given and there not in ({}, given):
        raise Refused(
            f"{journal(workspace).folder} holds other conversations",
            hint=(
                RunCommand("history export"),
                " keeps them; ",
                RunCommand("restore", "… --force"),
                " replaces them",
            ),
        )


def _restore_history(workspace: Workspace, source: Path, listed: Sequence[str]) -> int:
    """Put the conversations of a backup in place of those that are there; return how many files.

    What is derived is made again; what goes wrong there the next embedding makes good.
    """
    home, log = workspace.layout.history, journal(workspace)
    if not listed:
        return 0
    for name, place in (("index", home / "index"), (LOGS, log.folder)):
        staging = _staging(place)
        shutil.rmtree(staging, ignore_errors=True)
        for path in _below(listed, f"{HOME}/{name}/"):
            copy_durable(source / path, staging / Path(path).relative_to(HOME, name))
        if not staging.is_dir() and not place.is_dir():
            continue
        make_private_dir(staging)  # nothing was embedded: the turns of now must not be found there
        with log.locked() if name == LOGS else project_lock(place):
            if name == LOGS:
                _keep_others(staging, place)
            put_in_place(staging, place)
    for path in _below(listed, f"{HOME}/archive/"):
        copy_durable(source / path, home / "archive" / Path(path).name)
    _derive(workspace)
    return len(listed)


def _derive(workspace: Workspace) -> None:
    shutil.rmtree(workspace.layout.history_snapshot.parent, ignore_errors=True)
    log = journal(workspace)
    with contextlib.suppress(RagstreamError, OSError):  # the next embedding publishes again
        History(workspace).publish()
        write_session_logs(log, log.folder)


def _keep_others(staging: Path, place: Path) -> None:
    """Take what is not of the journal along into the folder that replaces the folder of logs.

    The debug logs lie there, and where `paths.logs` says so, files of others. They are linked, not
    moved: whatever a kill leaves, each is in the place that counts.
    """
    shutil.copymode(place, staging)
    journal = set(journal_files(place))
    for path in place.iterdir():
        if path in journal or _MADE_AGAIN.fullmatch(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, staging / path.name, symlinks=True, copy_function=_linked)
        else:
            _linked(path, staging / path.name)


def _linked(source: str | Path, to: str | Path) -> None:
    """Give a file a second name; where the file system has no such names, copy it."""
    try:
        os.link(source, to, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, to, follow_symlinks=False)
