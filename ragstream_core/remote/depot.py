"""Where indexes are published: named bytes in a folder or a bucket, each written whole or not."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

from ragstream_core.errors import OperationFailed, Refused, UsageError
from ragstream_core.platform.files import replace_bytes
from ragstream_core.platform.locks import serialized
from ragstream_core.remote.address import Address, is_remote, parse
from ragstream_core.remote.object_store import changed_ns, file_system, foreign_errors, store_error

_SMALL = 1_000
_LOCK_S = 10.0
BUCKETS = ("s3", "gs", "az")
KNOWN = "a folder, s3://BUCKET/FOLDER, gs://… or az://…"


class Depot(Protocol):
    """A place for objects that are written once and read by name.

    Names are relative POSIX paths made here, never read from a depot.
    """

    url: str
    """As it is kept and shown."""

    def read(self, name: str, *, most: int) -> bytes | None:
        """Return an object's bytes, cut after ``most`` of them; None if there is no such object.

        Raises:
            Refused: The place does not let us in.
            OperationFailed: It does not answer.
        """

    def write(self, name: str, data: bytes) -> None:
        """Put an object under its name: a reader sees the old bytes or the new ones.

        Raises:
            Refused, OperationFailed: As `read`; the disk is full.
        """

    def exchange(self, name: str, data: bytes, before: bytes | None) -> bool:
        """Put an object under its name if it is still what it was; else change nothing.

        Args:
            name: Of a small object.
            data: Its new bytes.
            before: Its bytes as they were read; None: it was not there.

        Returns:
            Whether it is there now: also if another machine put the same bytes there meanwhile.

        Raises:
            Refused, OperationFailed: As `write`.
        """

    def times(self, folder: str) -> dict[str, float]:
        """Return all objects below a folder: name → when it was put, seconds of its own clock.

        Raises:
            Refused, OperationFailed: As `read`.
        """

    def remove(self, names: Iterable[str], *, if_still: tuple[str, bytes] | None = None) -> bool:
        """Remove objects; one that is gone is no error.

        Args:
            names: Of the objects.
            if_still: Name and bytes of an object: if it is not that any more, nothing is removed.
                Nobody exchanges it meanwhile, but on S3, which has no lock.

        Returns:
            Whether they were removed.

        Raises:
            Refused, OperationFailed: As `read`.
        """


def open_depot(place: str) -> Depot:
    """Return the depot that a person named; nothing is contacted yet.

    Args:
        place: A folder, or the address of a bucket.

    Raises:
        UsageError: No such kind of place, or a library for it is not installed.
    """
    if not is_remote(place):
        return FolderDepot(Path(place).expanduser().absolute())
    if place.startswith("file://"):
        return FolderDepot(Path(place.removeprefix("file://")))
    kind = place.partition(":")[0]  # no more of it is shown: it may hold a password
    if kind not in BUCKETS:
        raise UsageError(f"no index is published at an address of {kind}:", hint=KNOWN)
    return BucketDepot(parse(place))


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

    Args:
        root: The folder; made by the first object that is written.

    Attributes:
        root: The same.
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
                found = self.read(name, most=_SMALL)
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
            if if_still and self.read(if_still[0], most=_SMALL) != if_still[1]:
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


class BucketDepot:
    """A bucket, or the keys below a prefix; a put is atomic there.

    Args:
        address: ``s3://BUCKET/PREFIX`` and the like.

    Raises:
        UsageError: The library for it is not installed.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._fs = file_system(address)
        self._is_s3 = address.kind == "s3"
        self._base = f"{address.host}/{address.location}".rstrip("/")
        self.url = address.url

    def read(self, name: str, *, most: int) -> bytes | None:
        """Return an object's bytes; see `Depot`."""
        path = f"{self._base}/{name}"
        with self._named():
            try:
                return bytes(self._fs.cat_file(path, start=0, end=most))
            except FileNotFoundError:
                return None
            except foreign_errors(self._address.kind):
                if self._fs.info(path)["size"] == 0:  # of nothing no range can be had
                    return b""
                raise

    def write(self, name: str, data: bytes) -> None:
        """Put an object under its name; see `Depot`."""
        with self._named():
            self._fs.pipe_file(f"{self._base}/{name}", data)

    def exchange(self, name: str, data: bytes, before: bytes | None) -> bool:
        """Put an object under its name if it is still what it was; see `Depot`."""
        if not self._is_s3:
            with self._locked(f"{name}.lock"):
                found = self.read(name, most=_SMALL)
                if found == before:
                    self.write(name, data)
                return found in (before, data)
        path = f"{self._base}/{name}"
        with self._named():
            held = {"mode": "create"} if before is None else {"IfMatch": self._tag(path)}
        found = self.read(name, most=_SMALL)
        if found != before:
            return found == data
        with self._named():
            try:
                self._fs.pipe_file(path, data, **held)
            except OSError as error:
                # s3fs makes EINVAL of what it does not know, a condition that failed among it
                if error.errno != errno.EINVAL and not isinstance(error, FileExistsError):
                    raise
        # a request that was sent twice meets what it wrote itself
        return self.read(name, most=_SMALL) == data

    def _tag(self, path: str) -> str:
        """Return the tag of an object; one of no object if it is gone."""
        try:
            self._fs.invalidate_cache()
            return str(self._fs.info(path)["ETag"])
        except FileNotFoundError:
            return '"gone"'

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Hold an object that only one machine can make, for stores without a condition to write.

        Raises:
            Refused: Another machine holds it.
        """
        path, until = f"{self._base}/{name}", time.monotonic() + _LOCK_S
        mine = f"{socket.gethostname()} since {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"
        while not self._made(path, mine.encode()):
            if time.monotonic() > until:
                holder = (self.read(name, most=_SMALL) or b"").decode("utf-8", "replace")
                raise Refused(
                    f"{self.url}: {holder or 'another machine'} is publishing there",
                    hint=f"try again; if that machine is gone, remove the object {name}",
                )
            time.sleep(_LOCK_S / 20)
        try:
            yield
        finally:
            self._remove([name])

    def _made(self, path: str, data: bytes) -> bool:
        with self._named():
            try:
                self._fs.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if getattr(error, "code", 0) != HTTPStatus.PRECONDITION_FAILED:
                    raise
                return False
        return True

    def times(self, folder: str) -> dict[str, float]:
        """Return the objects below a folder and their times; see `Depot`."""
        with self._named():
            self._fs.invalidate_cache()
            found: dict[str, Any] = self._fs.find(f"{self._base}/{folder}", detail=True)
            return {
                name.removeprefix(f"{self._base}/"): changed_ns(row) / 1e9
                for name, row in found.items()
            }

    def remove(self, names: Iterable[str], *, if_still: tuple[str, bytes] | None = None) -> bool:
        """Remove objects; see `Depot`."""
        if if_still is None:
            self._remove(names)
            return True
        with contextlib.nullcontext() if self._is_s3 else self._locked(f"{if_still[0]}.lock"):
            if self.read(if_still[0], most=_SMALL) != if_still[1]:
                return False
            self._remove(names)
            return True

    def _remove(self, names: Iterable[str]) -> None:
        with self._named():
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.rm_file(f"{self._base}/{name}")

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Turn what the store's library raises into our errors."""
        try:
            yield
        except foreign_errors(self._address.kind) as error:
            raise store_error(self._address, error) from None
