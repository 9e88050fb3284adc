"""`ragstream index pull`: read an index that another machine publishes; only news travels."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.config import is_confirmed, state_dir
from ragstream_core.errors import (
    AddOption,
    IntegrityError,
    OperationFailed,
    Refused,
    RunCommand,
    UsageError,
    quoted,
)
from ragstream_core.index import derived
from ragstream_core.index.rows import latest_generation
from ragstream_core.index.schema import (
    CATALOG_NAME,
    PULLED_NAME,
    PulledMark,
    is_pulled,
    project_lock,
    read_mark,
    reading,
    write_mark,
)
from ragstream_core.platform import confirmed_files
from ragstream_core.platform.data_root import checked
from ragstream_core.platform.files import make_private_dir, put_in_place, remove_path
from ragstream_core.platform.locks import HOLDER_NAME, LOCK_NAME, FolderLock
from ragstream_core.proposers import kept
from ragstream_core.remote import publication
from ragstream_core.remote.depot import open_depot
from ragstream_core.remote.publication import PublishedFile
from ragstream_core.wiring import projects

if TYPE_CHECKING:
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.remote.depot import Depot
    from ragstream_core.wiring.workspace import Workspace

_PARALLEL, _WINDOW = 8, 512

# So often a publication is read anew if its blocks are removed while they are fetched.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Pulled:
    """What was pulled."""

    project: str
    url: str
    generation: int
    created: str
    fetched: int
    fetched_bytes: int  # uncompressed
    bytes: int
    changed: bool


def pull(
    workspace: Workspace,
    place: str,
    *,
    name: str = "",
    verify: bool = False,
    progress: PhaseProgress | None = None,
) -> Pulled:
    """Make the index of a project equal to what is published.

    Prompts read the old index or the new one; killed at any moment it leaves the old one.

    Args:
        workspace: The data root.
        place: A folder or the address of a bucket; or the name of a project that was pulled.
        name: What the project is called here; "": as where it is made.
        verify: Read all that is here again, and fetch what is damaged.
        progress: Called with (phase, blocks done, blocks in all).

    Raises:
        UsageError: Nothing is published there, or no such kind of place.
        InvalidName: Not a project name.
        Refused: A project of that name has documents or an index of its own here; or it came with
            the data root, and so did the address.
        ProjectLocked: Another process writes the index.
        IntegrityError: What is published there is damaged.
        OperationFailed: The place does not answer.
        OSError: Disk full; the old index is untouched.
    """
    if not name and place in projects.pulled(workspace.layout):
        name, place = place, _own_url(workspace, place)
    depot = open_depot(place)
    seen = ""
    for _ in range(_TRIES):
        digest = publication.newest(depot)
        if not digest:
            raise UsageError(
                f"nothing is published at {depot.url}",
                hint=("where it is made: ", RunCommand("index publish", "PROJECT PLACE")),
            )
        try:
            done = _pull(workspace, depot, digest, name, progress, verify=verify)
        except _Gone:
            if digest == seen or publication.newest(depot) == digest:
                raise
            seen = digest
            continue
        _remember(workspace, done)
        asked = kept.asked_stores(workspace)  # prompts name what goes wrong
        kept.bring_up_to_date(workspace, done.project, stores=asked)
        return done
    raise OperationFailed(f"{depot.url} changes all the time", hint="pull again later")


def _own_url(workspace: Workspace, name: str) -> str:
    """Return where a project was pulled from by this person."""
    index_dir = workspace.index_dir(name)
    url = read_mark(index_dir).url
    if not is_confirmed(index_dir / PULLED_NAME, (index_dir / PULLED_NAME).read_bytes()):
        raise Refused(
            f"{name} is pulled from {url}, and that address came with the data root: you have not "
            "pulled from it here yet",
            hint=("if you know it: ", RunCommand("index pull", quoted(url, "--name", name))),
        )
    return url


def _remember(workspace: Workspace, done: Pulled) -> None:
    """Remember that a person named the address: the name alone is enough from now on."""
    path = workspace.index_dir(done.project) / PULLED_NAME
    with contextlib.suppress(OSError):  # the index is there; next time the address is asked for
        data = path.read_bytes()
        if not is_confirmed(path, data) and read_mark(path.parent).url == done.url:
            confirmed_files.confirm(state_dir(), path, data)


class _Gone(IntegrityError):
    """A manifest or a block is missing or damaged, at its place or because it was removed."""

    def __init__(self, depot: Depot, what: str, option: str) -> None:
        super().__init__(
            f"{depot.url}: {what} is missing or damaged",
            hint=("where it is made: ", RunCommand("index publish", f"PROJECT PLACE {option}")),
        )


def _require_free(workspace: Workspace, name: str, url: str) -> None:
    """Refuse to replace a project that is someone's own, or that comes from elsewhere."""
    index_dir = workspace.index_dir(name)
    if is_pulled(index_dir):
        if (known := _known_url(index_dir)) and known != url:
            raise Refused(
                f"{name} is pulled from {known}",
                hint=(RunCommand("project remove", name), " first, or ", AddOption("--name NAME")),
            )
        return
    own = name in projects.names(workspace.layout)
    if own or (index_dir / CATALOG_NAME).exists():
        raise Refused(
            f"{name} is a project of this data root",
            hint=(AddOption("--name NAME"), " gives the pulled one another name"),
        )


def _known_url(index_dir: Path) -> str:
    try:
        return read_mark(index_dir).url
    except IntegrityError:  # pulling again writes it anew
        return ""


def _pull(
    workspace: Workspace,
    depot: Depot,
    digest: str,
    wanted: str,
    progress: PhaseProgress | None,
    *,
    verify: bool,
) -> Pulled:
    manifest = publication.read_manifest(depot, digest)
    if manifest is None:
        raise _Gone(depot, f"manifest {digest[:12]}", "--force")
    name = checked(wanted or manifest.project)
    _require_free(workspace, name, depot.url)
    index_dir = workspace.index_dir(name)
    size = sum(file.size for file in manifest.files)
    before = _local(index_dir)
    said = manifest.data().decode()
    there = bool(before) and read_mark(index_dir).manifest == said
    if there and not verify and _are_there(index_dir, manifest.files):
        return Pulled(name, depot.url, manifest.generation, manifest.created, 0, 0, size, False)
    staging = index_dir.with_name(f".{name}.pulling")
    make_private_dir(staging)
    with _locked(staging, name):
        fetch = _Fetch(depot, index_dir, before)
        total = sum(len(file.blocks) for file in manifest.files)
        done = 0
        for file in manifest.files:
            for _ in fetch.write(file, staging):
                done += 1
                if progress is not None:
                    progress("blocks", done, total)
        now = dt.datetime.now(dt.UTC).isoformat("T", "seconds")
        _derive(staging, None if verify else index_dir)
        write_mark(staging, PulledMark(depot.url, now, said))
        _require_free(workspace, name, depot.url)  # an ingest may have begun meanwhile
        _take_place(staging, index_dir)
    return Pulled(
        name, depot.url, manifest.generation, manifest.created,
        fetch.count, fetch.bytes, size, True,
    )  # fmt: skip


def _are_there(index_dir: Path, files: Sequence[PublishedFile]) -> bool:
    try:
        return all((index_dir / file.name).stat().st_size == file.size for file in files)
    except OSError:
        return False


@contextlib.contextmanager
def _locked(staging: Path, name: str) -> Iterator[None]:
    """Hold the lock of a folder that becomes the index; empty it of what a killed pull left.

    What failed leaves nothing either: the disk may be full of it.
    """
    lock = FolderLock(staging, f"project {name}")
    with contextlib.closing(lock), lock.held():
        _empty(staging)
        try:
            yield
        except BaseException:
            _empty(staging)
            raise


def _empty(staging: Path) -> None:
    for path in staging.iterdir() if staging.is_dir() else ():
        if path.name not in (LOCK_NAME, HOLDER_NAME):
            remove_path(path)


def _local(index_dir: Path) -> Mapping[str, tuple[str, int]]:
    """Return digest → (file, offset) of the blocks that an earlier pull left here."""
    if not is_pulled(index_dir):
        return {}
    try:
        mark = read_mark(index_dir)
        manifest = publication.parsed(mark.manifest.encode(), str(index_dir / PULLED_NAME))
    except (IntegrityError, UsageError):  # all of it is fetched again
        return {}
    return {digest: (name, offset) for digest, name, offset, _ in manifest.blocks()}


class _Fetch:
    """Writes files of blocks, from the old files where they have them, else from the depot."""

    def __init__(self, depot: Depot, old: Path, known: Mapping[str, tuple[str, int]]) -> None:
        self.count = self.bytes = 0
        self._depot, self._old, self._known = depot, old, known

    def write(self, file: PublishedFile, folder: Path) -> Iterator[None]:
        """Write one file; yield after each of its blocks."""
        with (
            (folder / file.name).open("wb") as handle,
            ThreadPoolExecutor(_PARALLEL) as pool,
        ):
            for start in range(0, len(file.blocks), _WINDOW):
                window = range(start, min(start + _WINDOW, len(file.blocks)))
                for block, fetched in pool.map(lambda n: self._block(file, n), window):
                    handle.write(block)
                    self.count += fetched
                    self.bytes += len(block) if fetched else 0
                    yield

    def _block(self, file: PublishedFile, n: int) -> tuple[bytes, bool]:
        digest, length = file.blocks[n], file.length(n)
        if (block := self._from_old(digest, length)) is not None:
            return block, False
        block = publication.read_block(self._depot, digest, length)
        if block is None:
            raise _Gone(self._depot, f"block {digest[:12]}", "--verify")
        return block, True

    def _from_old(self, digest: str, length: int) -> bytes | None:
        if digest not in self._known:
            return None
        name, offset = self._known[digest]
        try:
            with (self._old / name).open("rb") as handle:
                handle.seek(offset)
                block = handle.read(length)
        except OSError:
            return None
        return block if publication.digest_of(block) == digest else None


def _derive(staging: Path, before: Path | None) -> None:
    """Write the term arrays and the manifest of documents, as an ingest does after its commit."""
    with reading(staging) as db:
        if (newest := latest_generation(db)) is not None:
            if before is not None:
                derived.hardlink_into(db, before, staging)
            derived.publish(db, staging, newest, refused=(), rewrite_manifest=True)


def _take_place(staging: Path, index_dir: Path) -> None:
    """Give the complete files the place of the old ones; what is derived and still holds stays."""
    if not index_dir.is_dir():
        put_in_place(staging, index_dir)
        return
    with project_lock(index_dir):  # another pull must not begin in the folder that goes
        put_in_place(staging, index_dir, keep=_keep_derived)


def _keep_derived(old: Path, new: Path) -> None:
    for tokens in old.glob("tokens-*"):  # named by the texts they belong to
        tokens.rename(new / tokens.name)
    kept.keep_training(old, new)
