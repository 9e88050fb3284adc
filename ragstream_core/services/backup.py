"""`ragstream backup`: a consistent copy, verified by digest, of what cannot be remade.

A backup mirrors the data root and carries ``backup.json``: the sha256 of every file and the digest
of every project's newest generation. It is written beside its destination and renamed when it is
complete. Of the conversations it holds the journal, the archive, and the catalog, which is
expensive to rebuild; the snapshot, the session logs and the Chroma collection are made again.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.conversations.journal.segments import CURRENT, closed_segments, torn_files
from ragstream_core.errors import IntegrityError, Refused, RunCommand, UnknownProject
from ragstream_core.index.catalog import open_catalog
from ragstream_core.index.check import verify_structure
from ragstream_core.index.history import current_mark, open_history_catalog
from ragstream_core.index.history_check import name_chunk
from ragstream_core.index.rows import latest_generation
from ragstream_core.index.schema import CATALOG_NAME, read
from ragstream_core.platform import sidecar
from ragstream_core.platform.data_root import Layout
from ragstream_core.platform.files import (
    aside_of,
    copy_durable,
    file_sha256,
    make_private_dir,
    move_aside,
    put_in_place,
    remove_path,
    replace_text,
)
from ragstream_core.prompts.store import raw_record
from ragstream_core.records.json_form import Json, json_of
from ragstream_core.wiring import projects
from ragstream_core.wiring.journal import journal
from ragstream_core.wiring.remembered_facts_files import copy_memory

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

LIST_NAME = "backup.json"
BACKUP_VERSION = 1

# Where conversations lie in a backup, wherever they lie in the data root.
HOME, LOGS = "history", "logs"


class IndexState(NamedTuple):
    """The newest generation of a project: its number, 0 for none, and its digest."""

    generation: int
    digest: str


class HistoryState(NamedTuple):
    """The conversations: newest number of the journal, and the generation of their index."""

    records: int
    generation: int
    digest: str


@dataclass(frozen=True, slots=True)
class Listed:
    """What ``backup.json`` says; also when it was made and where the conversations stood."""

    version: int
    projects: dict[str, IndexState]
    files: dict[str, str]  # path below the backup → sha256


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was made."""

    path: str
    files: int
    bytes: int
    projects: dict[str, IndexState]
    prompts: int
    history: HistoryState | None
    # folders outside the data root, whose documents are no part of it
    in_place: tuple[str, ...] = ()
    pulled: tuple[str, ...] = ()
    already: bool = False  # the same lay there whole, from a call that may have been killed

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream backup --json` prints."""
        row: dict[str, Json] = {name: getattr(self, name) for name in self.__slots__}
        return row | {"history": self.history or {}}


def files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder, sorted."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.is_file() and not path.is_symlink():
            yield path


def journal_files(folder: Path) -> Iterator[Path]:
    """Yield the segments of a journal, oldest first, and what was quarantined."""
    yield from (segment.path for segment in closed_segments(folder))
    if (folder / CURRENT).exists():
        yield folder / CURRENT
    yield from torn_files(folder)


def verify_catalogs(root: Path, states: Mapping[str, IndexState]) -> None:
    """Check the copies of the indexes and of the history as they are checked themselves.

    Raises:
        IntegrityError: A copy is not sound.
    """
    for name, state in states.items():
        findings = verify_structure(root / "index" / name) if state.generation else []
        if findings:
            raise IntegrityError(
                f"the copy of {name} is not sound: {findings[0].message}",
                hint=RunCommand("index check", f"{name} --read-data 1/1"),
            )
    index_dir = root / HOME / "index"
    has_history = (index_dir / CATALOG_NAME).exists()
    findings = verify_structure(index_dir, name_chunk=name_chunk) if has_history else []
    if findings:
        raise IntegrityError(
            f"the copy of the history is not sound: {findings[0].message}",
            hint=RunCommand("history check"),
        )


def _copy_history(workspace: Workspace, target: Path) -> HistoryState | None:
    """Copy the conversations, None without any; the catalog first, so that it is not ahead."""
    home, log = workspace.layout.history, journal(workspace)
    copy_memory(workspace, target)
    if not log.folder.is_dir():
        return None
    state = IndexState(0, "")
    if (home / "index" / CATALOG_NAME).exists():
        with open_history_catalog(home / "index") as catalog:
            catalog.copy_to(target / HOME / "index")
            mark = current_mark(catalog.db)
            state = IndexState(mark.generation, mark.digest)
    with log.locked():
        for path in journal_files(log.folder):
            copy_durable(path, target / HOME / LOGS / path.name)
        for path in files(home / "archive"):
            copy_durable(path, target / HOME / path.relative_to(home))
        return HistoryState(log.newest().seq, *state)


def backup(
    workspace: Workspace,
    destination: Path,
    projects: Iterable[str] = (),
    *,
    documents: bool = False,
    force: bool = False,
) -> Backup:
    """Copy indexes, project texts, prompts and conversations to a new folder.

    Args:
        workspace: The data root.
        destination: The folder to make.
        projects: Their names; none: all that have an index of their own, all prompts, all
            conversations.
        documents: Copy the documents too.
        force: Replace a folder that is there.

    Raises:
        UnknownProject: A project has no index.
        Refused: The destination is there, an index fails its checks, or one that is named is
            made elsewhere.
        ProjectLocked: Another process writes a project.
        IntegrityError: A copy is not what was committed.
    """
    chosen = sorted(set(projects))
    own, not_ingested, pulled = _all_projects(workspace)
    wanted = chosen or own
    for name in wanted:
        if not (workspace.index_dir(name) / CATALOG_NAME).exists():
            raise UnknownProject(f"project {name} has no index", hint=RunCommand("ingest", name))
    outside = tuple(_outside(workspace, wanted)) if documents else ()
    there = _require_free(destination)
    if there and not force and not _is_of_now(workspace, destination, wanted):
        raise _another_state(destination)  # before anything is copied
    staging = destination.with_name(f".{destination.name}.part")
    shutil.rmtree(staging, ignore_errors=True)
    make_private_dir(staging)
    # before the indexes: what a prompt pins is in a copy that is made later
    prompts = _copy_prompts(workspace, staging, set(chosen) or None)
    states = {}
    for name in wanted:
        with open_catalog(workspace.index_dir(name)) as catalog:
            catalog.copy_to(staging / "index" / name)
            newest = catalog.latest()
            states[name] = IndexState(newest.n, newest.digest) if newest else IndexState(0, "")
        _copy_texts(workspace, name, staging, documents=documents)
    for name in (*not_ingested, *pulled) if not chosen else ():
        _copy_texts(workspace, name, staging, documents=False)
    history = None if chosen else _copy_history(workspace, staging)
    digests = {p.relative_to(staging).as_posix(): file_sha256(p) for p in files(staging)}
    listed = {"version": BACKUP_VERSION, "made": dt.datetime.now(dt.UTC).isoformat("T", "seconds"),
              "projects": json_of(states), "history": json_of(history) or {},
              "files": digests}  # fmt: skip
    replace_text(staging / LIST_NAME, json.dumps(listed, indent=1))
    verify_catalogs(staging, states)
    size = sum((staging / name).stat().st_size for name in digests)
    already = there and _holds(destination, digests)
    if already or (there and not force):
        shutil.rmtree(staging, ignore_errors=True)
    else:
        put_in_place(staging, destination)
    if there and not already and not force:
        raise _another_state(destination)
    return Backup(str(destination), len(digests), size, states, prompts, history, outside,
                  () if chosen else tuple(pulled), already)  # fmt: skip


def _another_state(destination: Path) -> Refused:
    return Refused(
        f"{destination} already exists: a backup of another state",
        hint=(
            "name another folder, or ",
            RunCommand("backup", f"{destination} --force"),
            " replaces it",
        ),
    )


def _is_of_now(workspace: Workspace, destination: Path, wanted: Sequence[str]) -> bool:
    """Return whether a backup names these projects with their newest generations of now."""
    newest = {name: read(workspace.index_dir(name), latest_generation) for name in wanted}
    now = {name: generation.digest if generation else "" for name, generation in newest.items()}
    listed = sidecar.read(destination / LIST_NAME, Listed)
    return listed is not None and {n: s.digest for n, s in listed.projects.items()} == now


def _holds(destination: Path, digests: Mapping[str, str]) -> bool:
    """Return whether a backup has just these files, each whole."""
    listed = sidecar.read(destination / LIST_NAME, Listed)
    if listed is None or listed.files != digests:
        return False
    try:
        return all(file_sha256(destination / name) == sha for name, sha in digests.items())
    except OSError:
        return False


def _all_projects(workspace: Workspace) -> tuple[list[str], list[str], list[str]]:
    """Return those with an index of their own, those in place without one, and those pulled."""
    known, pulled = (f(workspace.layout) for f in (projects.indexed, projects.pulled))
    in_place = projects.in_place(workspace.layout)
    own = [name for name in known if name not in pulled]
    return own, [name for name in in_place if name not in known], list(pulled)


def _outside(workspace: Workspace, wanted: Iterable[str]) -> Iterator[str]:
    """Yield the folders in place of the projects of a backup."""
    for name in wanted:
        if projects.is_in_place(workspace.layout, name):
            yield from (root.shown for root in workspace.documents(name).roots)


def _require_free(path: Path) -> bool:
    """Return whether a backup lies there already."""
    aside = aside_of(path)
    if aside.exists() and not path.exists():  # a replacement was killed half-way
        move_aside(aside, path)
    remove_path(aside)
    there = path.exists() and (not path.is_dir() or any(path.iterdir()))
    if there and not (path / LIST_NAME).is_file():
        raise Refused(
            f"{path} already exists and is not a backup: it is never replaced",
            hint="name another folder",
        )
    return there


def _copy_texts(workspace: Workspace, name: str, target: Path, *, documents: bool) -> None:
    layout = workspace.layout
    sources = [layout.project(name)]
    copied = documents and name in workspace.projects() and not projects.is_in_place(layout, name)
    if copied and not projects.is_flat(layout, name):
        sources.append(layout.doc_raw / name)
    for folder in sources:
        for path in files(folder):
            copy_durable(path, target / path.relative_to(layout.root))
    if copied and projects.is_flat(layout, name):
        for path in layout.doc_raw.iterdir():
            if path.is_file() and not path.is_symlink():
                copy_durable(path, Layout.of(target).doc_raw / path.name)


def _copy_prompts(workspace: Workspace, target: Path, projects: set[str] | None) -> int:
    """Copy the records that read one of the projects, with what they keep; None: all."""
    store, count = workspace.store, 0
    known, blobs = store.keys(), set()
    for key in known:
        try:
            record = raw_record(store.root / key)
            inputs = record["inputs"]
            mine = {str(pin["project"]) for pin in inputs["pins"]}
            receipts = {*inputs["receipts"].values(), *inputs.get("query_vectors", {}).values()}
            receipts |= set(record.get("exchanges", ()))
        except (KeyError, TypeError, AttributeError):
            mine, receipts = set(), set()
        if projects is None or mine & projects:
            for path in files(store.root / key):
                copy_durable(path, Layout.of(target).prompts / key / path.name)
            blobs |= receipts
            count += 1
    for digest in sorted(blobs):
        if (store.root / "blobs" / digest).is_file():
            copy_durable(
                store.root / "blobs" / digest, Layout.of(target).prompts / "blobs" / digest
            )
    return count
