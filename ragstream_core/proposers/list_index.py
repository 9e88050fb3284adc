"""The inverted lists of one index: made for a generation, brought up to date, checked.

Ids are places in the vector file, so chunks of equal text are one row. The lists of a generation
are a function of its rows and of a training, which is kept until the rows have doubled or halved.
Derived: what is missing, damaged or behind is made again, under a lock of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragstream_core.errors import IntegrityError, OperationFailed
from ragstream_core.index.schema import label
from ragstream_core.index.view import CatalogView
from ragstream_core.platform import array_file
from ragstream_core.platform.disk import disk_failure, on_disk
from ragstream_core.platform.files import rename_file, sync_dir, write_blocks
from ragstream_core.platform.locks import FolderLock
from ragstream_core.proposers.list_file import Entries, IvfFile, blocks, differing
from ragstream_core.proposers.list_paths import FOLDER, MOVED, NONE, OLDER, lists_path
from ragstream_core.proposers.list_training import I64, Training, is_outgrown, train

_TEMPORARY = ".making-"


@dataclass(frozen=True, slots=True)
class Synced:
    """What became of the lists."""

    file: IvfFile
    made: str  # ``unchanged``, ``updated`` or ``rebuilt``
    reason: str = ""
    added: int = 0
    deleted: int = 0


class IvfIndex:
    """The inverted lists of an index."""

    def __init__(self, index_dir: Path) -> None:
        self._index_dir = index_dir
        self._folder = index_dir / FOLDER

    def sync(self, view: CatalogView, *, rebuild: bool = False, verify: bool = False) -> Synced:
        """Make the lists those of a generation, and remove all others."""
        what = f"the file of the inverted lists of {label(self._index_dir)}"
        with on_disk(self._folder), FolderLock(self._folder, what).held():
            return self._synced(view, rebuild=rebuild, verify=verify)

    def _synced(self, view: CatalogView, *, rebuild: bool, verify: bool) -> Synced:
        target = lists_path(self._index_dir, view.digest)
        found, damage = self._best(view)
        reason = "asked for" if rebuild else damage
        if found is not None and _places_of(found) != _places_of(view):
            reason = reason or MOVED
        if found is not None and not reason and found.path == target:
            wrong = differing(found, entries_of(view)) if verify else 0
            if not wrong:
                self._sweep(target)
                return Synced(found, "unchanged")
            reason = f"{wrong} rows were not those of the index"
        done = self._made(view, None if reason and rebuild else found, reason, target)
        self._sweep(target)
        return done

    def _made(self, view: CatalogView, found: IvfFile | None, reason: str, target: Path) -> Synced:
        training, base = None, None
        if found is not None and not is_outgrown(found.training, len(view.chunk_ids)):
            training = found.training
            base = found if not reason else None
        elif found is not None:
            reason = reason or f"trained on {found.training.rows:,} chunks"
        training = training or train(view.vectors)
        added, gone = _change(view, base)
        temporary = self._folder / f"{_TEMPORARY}{os.getpid()}"
        write_blocks(temporary, _blocks(view, training, base, (added, gone)))
        rename_file(temporary, target)
        sync_dir(self._folder)
        file = opened(target)
        if base is None:
            why = reason or NONE
            return Synced(file, "rebuilt", why, added=len(added.ids))
        return Synced(file, "updated", added=len(added.ids), deleted=len(gone))

    def _best(self, view: CatalogView) -> tuple[IvfFile | None, str]:
        """Return the lists to start from, and what was damaged."""
        damage = ""
        target = lists_path(self._index_dir, view.digest)
        others = sorted(self._folder.glob("lists-*.ivf"), key=_age, reverse=True)
        for path in (target, *(path for path in others if path != target)):
            if not path.exists():
                continue
            try:
                file = opened(path)
            except IntegrityError as error:
                damage = damage or error.message
                continue
            if file.meta["embed_fp"] == view.embed_fp:
                return file, "" if file.path == target else damage
        return None, damage

    def _sweep(self, keep: Path) -> None:
        """Remove other lists, and what a killed process left; those who read them keep them."""
        for path in (*self._folder.glob("lists-*.ivf"), *self._folder.glob(f"{_TEMPORARY}*")):
            if path != keep:
                path.unlink(missing_ok=True)
                _opened.cache_clear()  # else this process keeps what is removed mapped

    def lists(self, view: CatalogView) -> IvfFile | None:
        """Return the lists of a generation, checked; None if they cannot be asked."""
        try:
            return self.checked(view)
        except (IntegrityError, OperationFailed):
            return None

    def checked(self, view: CatalogView) -> IvfFile:
        """Return the lists of a generation."""
        found = opened(lists_path(self._index_dir, view.digest))
        if _places_of(found) != _places_of(view):
            raise IntegrityError(f"{found.path.name}: {MOVED}")
        return found

    def again(self, view: CatalogView, training: str) -> IvfFile | None:
        """Return a generation's lists under a training, for this process; None: it is gone."""
        now = self.lists(view)
        if now is not None and now.training.digest == training:
            return now
        found = self.trained(training)
        return None if found is None else _for_this_process(view, found)

    def trained(self, training: str) -> IvfFile | None:
        """Return lists under a training, of whatever generation; None if there are none."""
        for path in sorted(self._folder.glob("lists-*.ivf")):
            if array_file.read_description(path).get("training") == training:
                with contextlib.suppress(IntegrityError):
                    return opened(path)
        return None


@functools.lru_cache(maxsize=2)
def _for_this_process(view: CatalogView, found: IvfFile) -> IvfFile:
    base = found if _places_of(found) == _places_of(view) else None
    temporary = Path(tempfile.gettempdir())
    with on_disk(temporary), tempfile.TemporaryDirectory(prefix=_TEMPORARY) as home:
        path = Path(home, "lists.ivf")
        change = _change(view, base)
        write_blocks(path, _blocks(view, found.training, base, change))
        return IvfFile(path)  # mapped: its name may go


def _change(view: CatalogView, base: IvfFile | None) -> tuple[Entries, I64]:
    """Return the rows that lists lack, and the ids that they have too many."""
    rows = entries_of(view)
    if base is None:
        return rows, np.zeros(0, dtype=np.int64)
    held = base.ids()
    fresh = np.flatnonzero(~np.isin(rows.ids, held, assume_unique=True))
    return rows.only(fresh), np.setdiff1d(held, rows.ids, assume_unique=True)


def _blocks(
    view: CatalogView,
    training: Training,
    base: IvfFile | None,
    change: tuple[Entries, I64],
) -> Iterator[bytes]:
    said = {"digest": view.digest, "generation": view.generation, **_places_of(view)}
    added, gone = change
    return blocks(said, training, added=added, old=base, gone=gone)


def entries_of(view: CatalogView) -> Entries:
    """Return the rows of a generation by their places; equal texts are one."""
    places, rows = view.loaded.first_rows()
    return Entries(places, view.vectors, rows)


def _places_of(source: IvfFile | CatalogView) -> dict[str, object]:
    """Return what tells the places of one vector file from those of another."""
    if isinstance(source, IvfFile):
        if source.path.name.startswith(OLDER):
            return {}
        return {key: source.meta[key] for key in ("embed_fp", "epoch")}
    return {"embed_fp": source.embed_fp, "epoch": source.loaded.file.epoch}


def opened(path: Path) -> IvfFile:
    """Return a file of lists; it is read and checked once while it stays as it is."""
    try:
        now = path.stat()
    except FileNotFoundError as error:
        raise IntegrityError(f"{path.name}: {error.strerror}") from error
    except OSError as error:
        raise disk_failure(path, error) from error
    return _opened(path, now.st_size, now.st_mtime_ns, now.st_ino)


@functools.lru_cache(maxsize=4)
def _opened(path: Path, size: int, mtime_ns: int, inode: int) -> IvfFile:
    return IvfFile(path)


def _age(path: Path) -> tuple[int, str]:
    return int(array_file.read_description(path).get("generation", 0)), path.name
