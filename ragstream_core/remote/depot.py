"""Where indexes are published: named bytes in a folder or a bucket, each written whole or not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from ragstream_core.errors import OperationFailed, Refused, UsageError
from ragstream_core.platform.files import replace_bytes
from ragstream_core.platform.locks import serialized
from ragstream_core.remote.address import is_remote, parse
from ragstream_core.remote.object_store import SMALL_BYTES, ObjectStore

BUCKETS = ("s3", "gs", "az")
KNOWN = "a folder, s3://BUCKET/FOLDER, gs://… or az://…"


class Depot(Protocol):
    """A place for objects that are written once and read by name.

    Names are relative POSIX paths made here, never read from a depot. A place that lets nobody in
    is `Refused`, one that does not answer or is full `OperationFailed`.
    """

    # As it is kept and shown.
    url: str

    def read(self, name: str, *, most: int) -> bytes | None:
        """Return an object's bytes, cut after ``most`` of them; None if there is no such object."""

    def write(self, name: str, data: bytes) -> None:
        """Put an object under its name: a reader sees the old bytes or the new ones."""

    def exchange(self, name: str, data: bytes, before: bytes | None) -> bool:
        """Put a small object under its name if it is still what it was; `before` is None for none.

        True if it is there now, also if another machine put the same bytes there meanwhile.
        """

    def times(self, folder: str) -> dict[str, float]:
        """Return all objects below a folder: name → when it was put, seconds of its own clock."""

    def remove(self, names: Iterable[str], *, if_still: tuple[str, bytes] | None = None) -> bool:
        """Remove objects, if one object still has its bytes; False if not, and nothing went.

        Nobody exchanges it meanwhile, but on S3, which has no lock. What is gone is no error.
        """


def open_depot(place: str) -> Depot:
    """Return the depot that a person named; nothing is contacted yet."""
    if not is_remote(place):
        return FolderDepot(Path(place).expanduser().absolute())
    if place.startswith("file://"):
        return FolderDepot(Path(place.removeprefix("file://")))
    kind = place.partition(":")[0]  # no more of it is shown: it may hold a password
    if kind not in BUCKETS:
        raise UsageError(f"no index is published at an address of {kind}:", hint=KNOWN)
    return ObjectStore(parse(place))


def _file_mode_mask() -> int:
    """Return this process's file mode mask (umask), unset where the system tells it.

    To set it and set it back is a race: of two threads one may leave the other's mask behind.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(status.partition("\nUmask:")[2].split(maxsplit=1)[0], 8)
    except (OSError, ValueError, IndexError):
        mask = os.umask(0o077)
        os.umask(mask)
        return mask


class FolderDepot:
    """A folder of this machine, or of a file server.

    Others may read it as the process's file mode mask says: it is there to be read.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = str(root)
        self._mode = 0o666 & ~_file_mode_mask()

    def read(self, name: str, *, most: int) -> bytes | None:
        """Return an object's bytes; see `Depot`."""
        with self._named():
            try:
                with (self.root / name).open("rb") as handle:
                    return handle.read(most)
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes) -> None:
        """Put an object under its name, durably; see `Depot`."""
        with self._named():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_bytes(path, data, mode=self._mode)

    def exchange(self, name: str, data: bytes, before: bytes | None) -> bool:
        """Put an object under its name if it is still what it was; see `Depot`."""
        with self._named():
            self.root.mkdir(parents=True, exist_ok=True)
            with serialized(self.root):  # on a file server too: its locks are those of all hosts
                found = self.read(name, most=SMALL_BYTES)
                if found == before:
                    self.write(name, data)
                return found in (before, data)

    def times(self, folder: str) -> dict[str, float]:
        """Return the objects below a folder and their times; see `Depot`."""
        found = {}
        with self._named():
            for parent, _, files in os.walk(self.root / folder):
                for path in (Path(parent, file) for file in files):
                    with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                        found[path.relative_to(self.root).as_posix()] = path.stat().st_mtime
        return found

    def remove(self, names: Iterable[str], *, if_still: tuple[str, bytes] | None = None) -> bool:
        """Remove objects; see `Depot`."""
        with self._named(), serialized(self.root):
            if if_still and self.read(if_still[0], most=SMALL_BYTES) != if_still[1]:
                return False
            for name in names:
                (self.root / name).unlink(missing_ok=True)
            return True

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Turn what the file system says into our errors."""
        try:
            yield
        except PermissionError as error:
            raise Refused(
                f"{self.url}: permission denied", hint="name a folder of your own"
            ) from error
        except OSError as error:
            raise OperationFailed(
                f"{self.url}: {error.strerror or error}", hint="check the folder and its disk"
            ) from error
