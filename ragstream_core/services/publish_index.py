"""`ragstream index publish`: put an index where other machines can read it; only news travels."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import AddOption, IntegrityError, OperationFailed, Refused, RunCommand
from ragstream_core.index.catalog import open_catalog
from ragstream_core.index.look import kept_generations
from ragstream_core.index.rows import all_generations
from ragstream_core.index.schema import publishing_copy, require_own
from ragstream_core.platform.files import make_private_dir, remove_path
from ragstream_core.platform.locks import serialized
from ragstream_core.records.identity import Json
from ragstream_core.remote import publication
from ragstream_core.remote.depot import FolderDepot, open_depot
from ragstream_core.remote.publication import Manifest

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.ingestion.document_tree import Root
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.remote.depot import Depot
    from ragstream_core.wiring.workspace import Workspace

_PARALLEL = 8
_REMOVED_AT_ONCE = 50

# What no publication needs stays so long: another machine may have just sent it, or count on it.
#
# That one looks for its blocks again when it has exchanged the pointer, which nobody does in the
# middle of a batch of removals (but on S3, which has no lock). Only the place's clock is asked.
GRACE_S = 3600.0


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """How an index is to be published."""

    keep: int | None = None  # older publications that stay readable; None: all
    verify: bool = False  # read every block that is there, and mend what is damaged
    force: bool = False  # replace what another index published there


@dataclass(frozen=True, slots=True)
class Published:
    """What was published."""

    project: str
    url: str
    manifest: str
    generation: int
    sent: int
    sent_bytes: int  # uncompressed
    bytes: int
    removed: int  # objects of older publications that went
    waiting: int = 0  # objects of older publications that are too young to go

    def to_json(self) -> dict[str, Json]:
        """Return what `ragstream index publish --json` prints."""
        return {name: value for name, value in asdict(self).items() if name != "waiting"}


def publish(
    workspace: Workspace,
    project: str,
    place: str,
    request: PublishRequest | None = None,
    *,
    progress: PhaseProgress | None = None,
) -> Published:
    """Publish the index of a project as it is now, with all its generations.

    Killed at any moment it leaves what was published before; the next call goes on.

    Args:
        workspace: The data root.
        project: Its name.
        place: A folder, or the address of a bucket.
        request: How.
        progress: Called with (phase, blocks done, blocks in all).

    Raises:
        UnknownProject: There is no such project.
        UsageError: No such kind of place, or a library for it is not installed.
        GenerationGone: Nothing was ever ingested.
        ProjectLocked: Another process writes the index.
        Refused: The index is made elsewhere, or another one is published there.
        IntegrityError: The index, or what is published there, is damaged.
        OperationFailed: The place does not answer, or something was erased meanwhile.
        OSError: Disk full: the index is copied before it is sent.
    """
    wanted = request or PublishRequest()
    workspace.require_project(project)
    depot = open_depot(place)
    index_dir = workspace.index_dir(project)
    require_own(index_dir)
    if isinstance(depot, FolderDepot):
        _require_apart(depot, workspace.documents(project).roots, force=wanted.force)
    kept_generations(index_dir)  # no index: nothing is made, not even a lock
    with serialized(index_dir):  # another publication of this index waits
        return _publish(depot, index_dir, wanted, progress)


def _require_apart(depot: FolderDepot, roots: Iterable[Root], *, force: bool) -> None:
    """Refuse a folder whose files would be ingested, or that holds something else."""
    for root in roots:
        if depot.root.resolve().is_relative_to(root.path.resolve()):
            raise Refused(
                f"{depot.url} lies among the documents in {root.path}: they would be ingested",
                hint="name a folder elsewhere",
            )
    try:
        there = {entry.name for entry in depot.root.iterdir()}
    except OSError:  # not made yet; else the first look says what is wrong
        return
    others = sorted(name for name in there - publication.ENTRIES if not name.startswith("."))
    if others and publication.POINTER not in there and not force:
        raise Refused(
            f"{depot.url} holds {others[0]}, and nothing that was published",
            hint=("name a folder of its own, or add ", AddOption("--force")),
        )


def _publish(
    depot: Depot, index_dir: Path, wanted: PublishRequest, progress: PhaseProgress | None
) -> Published:
    project = index_dir.name
    before, known = _known(depot, force=wanted.force)
    with _copied(index_dir) as (copy, kept):
        newest = kept[-1]
        if known is not None and not wanted.force:
            _require_successor(depot, known, project, kept)
        files = tuple(publication.split(path) for path in sorted(copy.iterdir()))
        made = Manifest(project=project, generation=newest.n, digest=newest.digest,
                        embed_fp=newest.embed_fp, created=newest.created, previous=before,
                        files=files)  # fmt: skip
        if known is not None and known.files == made.files and known.project == project:
            made = known
        sent = _send(depot, copy, made, known, verify=wanted.verify, progress=progress)
        name = publication.digest_of(made.data())
        if name != before or wanted.verify:
            _put_manifest(depot, name, made)
            if wanted.force:
                publication.point_to(depot, name)
            elif not publication.point_on(depot, name, before):
                raise _overtaken(depot, project)
            # another machine that prunes may have removed some before it saw the pointer change
            again = _send(depot, copy, made, None, progress=progress, verify=False, again=True)
            sent = sent[0] + again[0], sent[1] + again[1]
            if depot.read(publication.manifest_name(name), most=1) is None:
                _put_manifest(depot, name, made)
    removed = (0, 0) if wanted.keep is None else _prune(depot, name, made, wanted.keep)
    size = sum(file.size for file in made.files)
    return Published(project, depot.url, name, made.generation, *sent, size, *removed)


def _put_manifest(depot: Depot, name: str, made: Manifest) -> None:
    """Write a manifest, and who publishes it."""
    depot.write(publication.manifest_name(name), made.data())
    publication.note_publisher(depot, name, _me())


def _me() -> str:
    now = dt.datetime.now(dt.UTC).isoformat(" ", "seconds")
    return f"{socket.gethostname()} at {now}"


def _overtaken(depot: Depot, project: str) -> Refused:
    """Return the error for a place where another machine published while this one was sending."""
    digest = publication.newest(depot)
    found = publication.read_manifest(depot, digest) if digest else None
    who = publication.publisher(depot, digest) if digest else ""
    what = f"generation {found.generation} of {found.project}" if found else "something else"
    return Refused(
        f"{depot.url}: {who or 'another machine'} published {what} while this index was being "
        "sent; nothing was changed there",
        hint=("one machine publishes an index; if that is this one, run ",
              RunCommand("index publish", f"{project} {depot.url}"), " again"),
    )  # fmt: skip


def _known(depot: Depot, *, force: bool) -> tuple[str, Manifest | None]:
    """Return what is published and its digest; if it is damaged, force sees nothing there."""
    try:
        digest = publication.newest(depot)
        found = publication.read_manifest(depot, digest) if digest else None
    except IntegrityError:
        if not force:
            raise
        return "", None
    if digest and found is None and not force:
        raise Refused(
            f"{depot.url}: what is published there is not complete",
            hint=(AddOption("--force"), " publishes anew"),
        )
    return (digest, found) if found else ("", None)


@contextlib.contextmanager
def _copied(index_dir: Path) -> Iterator[tuple[Path, Sequence[Generation]]]:
    """Copy an index under its lock, so that it may be written while the copy is sent."""
    copy = publishing_copy(index_dir)
    remove_path(copy)
    make_private_dir(copy)
    try:
        with open_catalog(index_dir) as catalog:
            kept = all_generations(catalog.db)
            catalog.copy_to(copy)
        try:
            yield copy, kept
        except FileNotFoundError:
            if copy.is_dir():
                raise
            raise OperationFailed(
                f"something of {index_dir.name} was erased while its index was being sent",
                hint="publish it again, as it is now",
            ) from None
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _require_successor(
    depot: Depot, published: Manifest, project: str, kept: Sequence[Generation]
) -> None:
    """Refuse to put an index where another one is published, or a newer state of this one."""
    digests = {found.n: found.digest for found in kept}
    n = published.generation
    if digests.get(n, "" if n > kept[-1].n else published.digest) == published.digest:
        return
    is_ours = published.project == project
    why = "a newer generation" if is_ours and n > kept[-1].n else "another index, that"
    raise Refused(
        f"{depot.url} has {why} of {published.project} (generation {n}, {published.created})",
        hint=(AddOption("--force"), " replaces it; readers follow"),
    )


def _send(
    depot: Depot,
    copy: Path,
    made: Manifest,
    known: Manifest | None,
    *,
    verify: bool,
    progress: PhaseProgress | None,
    again: bool = False,
) -> tuple[int, int]:
    """Write the blocks that are not there; return how many and their bytes.

    Those of a publication that was interrupted count if they are young: older ones are written
    anew, or a machine that prunes might take them for forgotten. `again`: all count.
    """
    there = {digest for digest, *_ in known.blocks()} if known else set()
    missing = {row[0]: row for row in made.blocks() if verify or row[0] not in there}
    if missing and not verify:
        times = depot.times(publication.BLOCKS)
        since = 0.0 if again or not times else _now(depot, made) - GRACE_S / 2
        fresh = {name for name, at in times.items() if at >= since}
        missing = {d: row for d, row in missing.items() if publication.block_name(d) not in fresh}
    send = functools.partial(_send_block, depot, copy, verify=verify)
    sent = [size for size in _in_turn(send, list(missing.values()), progress) if size]
    return len(sent), sum(sent)


def _in_turn(
    call: Callable[[tuple[str, str, int, int]], int],
    rows: Sequence[tuple[str, str, int, int]],
    progress: PhaseProgress | None,
) -> Iterator[int]:
    with ThreadPoolExecutor(_PARALLEL) as pool:
        try:
            for n, size in enumerate(pool.map(call, rows), 1):
                if progress is not None:
                    progress("blocks", n, len(rows))
                yield size
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _now(depot: Depot, made: Manifest) -> float:
    """Return the time by the place's own clock: that of a note which is put there just now."""
    digest = publication.digest_of(made.data())
    publication.note_publisher(depot, digest, _me())
    return depot.times(publication.PUBLISHERS)[publication.publisher_name(digest)]


def _send_block(depot: Depot, copy: Path, row: tuple[str, str, int, int], *, verify: bool) -> int:
    """Write one block; return its bytes, 0 if it was there."""
    digest, name, offset, length = row
    if verify and publication.read_block(depot, digest, length) is not None:
        return 0
    with (copy / name).open("rb") as handle:
        handle.seek(offset)
        depot.write(publication.block_name(digest), publication.packed(handle.read(length)))
    return length


def _prune(depot: Depot, name: str, newest: Manifest, keep: int) -> tuple[int, int]:
    """Remove what neither the newest publication nor `keep` older ones need, if it is old enough.

    What another machine sends just now is needed by no publication yet, but it is young.
    """
    kept, manifests, at = {name}, [newest], newest
    while len(kept) <= keep and at.previous:
        try:
            older = publication.read_manifest(depot, at.previous)
        except IntegrityError:  # whatever it named, nobody can read it
            older = None
        if older is None:
            break
        kept.add(at.previous)
        manifests.append(older)
        at = older
    needed = {publication.manifest_name(digest) for digest in kept}
    needed |= {publication.block_name(row[0]) for one in manifests for row in one.blocks()}
    needed |= {publication.publisher_name(digest) for digest in kept}
    before = _now(depot, newest) - GRACE_S
    times: dict[str, float] = {}
    for folder in publication.FOLDERS:
        times |= depot.times(folder)
    unneeded = sorted(times.keys() - needed)
    gone = [row for row in unneeded if times[row] <= before]
    for start in range(0, len(gone), _REMOVED_AT_ONCE):
        batch = gone[start : start + _REMOVED_AT_ONCE]
        if not publication.remove_while(depot, name, batch):
            return start, 0  # the machine that published meanwhile prunes for itself
    return len(gone), len(unneeded) - len(gone)
