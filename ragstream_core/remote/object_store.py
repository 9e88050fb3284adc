"""Buckets through fsspec: S3 and what speaks its protocol; gs:// and az:// by the same calls.

Keys come from where the store's own tools find them: the environment, or a profile of the user.
S3 is listed page by page here, because fsspec's listing takes an answer for complete that says it
is truncated and does not say how to go on.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import (
    FileChanging,
    OperationFailed,
    RagstreamError,
    Refused,
    UsageError,
)
from ragstream_core.platform import extras
from ragstream_core.remote.address import Address
from ragstream_core.remote.source import BLOCK_BYTES, QUIET_S, RemoteFile, TransferBroken

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

EXTRAS = {"s3": "s3", "gs": "gcs", "az": "azure"}
READ_BYTES = 1 << 22

# So many has an object at most that is exchanged.
SMALL_BYTES = 1_000
RETRIES = 3
LOCK_S = 10.0
_ERRORS = {
    "s3": ("botocore.exceptions:BotoCoreError", "botocore.exceptions:ClientError",
           "botocore.parsers:ResponseParserError", "aiohttp:ClientError"),
    "gs": ("google.auth.exceptions:GoogleAuthError", "aiohttp:ClientError"),
    "az": ("azure.core.exceptions:AzureError", "aiohttp:ClientError"),
}  # fmt: skip
_PRECONDITION = errno.EINVAL  # what s3fs makes of 412, and of other bad requests
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound",
                   "DefaultCredentialsError", "CredentialUnavailableError")  # fmt: skip


class ObjectStore:
    """A bucket, or the keys below a prefix: a `Source` of documents and a `Depot` of indexes."""

    parallel = 8

    def __init__(self, address: Address) -> None:
        self.url = address.url
        self._address = address
        self._is_s3 = address.kind == "s3"
        self._base = f"{address.host}/{address.location}".rstrip("/")
        with self._foreign():
            self._fs = _file_system(address)

    def revision(self) -> str:
        """Return nothing: a bucket has no state of its own."""
        return ""

    def files(self) -> Iterator[RemoteFile]:
        """Yield the keys below the prefix; a prefix that is one key is that file."""
        prefix = self._address.location
        rows = self._s3_rows if self._is_s3 else self._rows
        with self._foreign():
            for key, row in rows(f"{prefix}/" if prefix else ""):
                below = key.removeprefix(f"{prefix}/") if prefix else key
                if below and not below.endswith("/"):  # a folder's own mark
                    yield _file(below, f"{self._address.host}/{key}", row)
            if prefix and self._fs.isfile(f"{self._address.host}/{prefix}"):
                full = f"{self._address.host}/{prefix}"
                yield _file(prefix.rpartition("/")[2], full, self._fs.info(full))

    def blocks(self, file: RemoteFile) -> Iterator[bytes]:
        """Yield a key's bytes; S3 is asked for the version of the listing."""
        with self._foreign(file):
            for at in range(0, max(file.size, 1), READ_BYTES):
                end = min(at + READ_BYTES, file.size)
                block = self._read(file, at, end)
                for start in range(0, len(block), BLOCK_BYTES):
                    yield block[start : start + BLOCK_BYTES]
            if not self._is_s3 and self._version_now(file) != file.version:
                raise FileChanging("it changed while it was fetched")

    def close(self) -> None:
        """Nothing stays open."""

    def read(self, name: str, *, most: int) -> bytes | None:
        """Return an object's bytes; see `Depot`."""
        path = f"{self._base}/{name}"
        with self._foreign():
            try:
                return bytes(self._fs.cat_file(path, start=0, end=most))
            except FileNotFoundError:
                return None
            except _foreign_errors(self._address.kind):
                if self._fs.info(path)["size"] == 0:  # of nothing no range can be had
                    return b""
                raise

    def write(self, name: str, data: bytes) -> None:
        """Put an object under its name, which is atomic in a bucket; see `Depot`."""
        with self._foreign():
            self._fs.pipe_file(f"{self._base}/{name}", data)

    def exchange(self, name: str, data: bytes, before: bytes | None) -> bool:
        """Put an object under its name if it is still what it was; see `Depot`."""
        if not self._is_s3:
            with self._locked(f"{name}.lock"):
                found = self.read(name, most=SMALL_BYTES)
                if found == before:
                    self.write(name, data)
                return found in (before, data)
        path = f"{self._base}/{name}"
        with self._foreign():
            condition = {"mode": "create"} if before is None else {"IfMatch": self._tag(path)}
        found = self.read(name, most=SMALL_BYTES)
        if found != before:
            return found == data
        with self._foreign():
            try:
                self._fs.pipe_file(path, data, **condition)
            except OSError as error:
                if error.errno != _PRECONDITION and not isinstance(error, FileExistsError):
                    raise
        # a request that was sent twice meets what it wrote itself
        return self.read(name, most=SMALL_BYTES) == data

    def times(self, folder: str) -> dict[str, float]:
        """Return the objects below a folder and their times; see `Depot`."""
        with self._foreign():
            self._fs.invalidate_cache()
            found: dict[str, Any] = self._fs.find(f"{self._base}/{folder}", detail=True)
            return {
                name.removeprefix(f"{self._base}/"): _changed_ns(row) / 1e9
                for name, row in found.items()
            }

    def remove(self, names: Iterable[str], *, if_still: tuple[str, bytes] | None = None) -> bool:
        """Remove objects; see `Depot`."""
        if if_still is None:
            self._remove(names)
            return True
        with contextlib.nullcontext() if self._is_s3 else self._locked(f"{if_still[0]}.lock"):
            if self.read(if_still[0], most=SMALL_BYTES) != if_still[1]:
                return False
            self._remove(names)
            return True

    def _remove(self, names: Iterable[str]) -> None:
        with self._foreign():
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.rm_file(f"{self._base}/{name}")

    def _tag(self, path: str) -> str:
        """Return the tag of an object; one of no object if it is gone."""
        try:
            self._fs.invalidate_cache()
            return str(self._fs.info(path)["ETag"])
        except FileNotFoundError:
            return '"gone"'

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Hold an object that only one machine can make: these stores write without a condition."""
        path, until = f"{self._base}/{name}", time.monotonic() + LOCK_S
        mine = f"{socket.gethostname()} since {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"
        while not self._created(path, mine.encode()):
            if time.monotonic() > until:
                holder = (self.read(name, most=SMALL_BYTES) or b"").decode("utf-8", "replace")
                raise Refused(
                    f"{self.url}: {holder or 'another machine'} is publishing there",
                    hint=f"try again; if that machine is gone, remove the object {name}",
                )
            time.sleep(LOCK_S / 20)
        try:
            yield
        finally:
            self._remove([name])

    def _created(self, path: str, data: bytes) -> bool:
        with self._foreign():
            try:
                self._fs.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if getattr(error, "code", 0) != HTTPStatus.PRECONDITION_FAILED:
                    raise
                return False
        return True

    def _read(self, file: RemoteFile, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        if self._is_s3:
            return _s3_range(self._fs, file, start, end)
        return bytes(self._fs.cat_file(file.handle, start=start, end=end))

    def _version_now(self, file: RemoteFile) -> str:
        self._fs.invalidate_cache()
        return _file("", "", self._fs.info(file.handle)).version

    def _rows(self, prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        base = f"{self._address.host}/"
        found: dict[str, Any] = self._fs.find(base + prefix.rstrip("/"), detail=True)
        for name, row in found.items():
            yield name.removeprefix(base), row

    def _s3_rows(self, prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        token: dict[str, str] = {}
        while True:
            page = self._fs.call_s3(
                "list_objects_v2", Bucket=self._address.host, Prefix=prefix, **token
            )
            for row in page.get("Contents", ()):
                yield str(row["Key"]), row
            if not page.get("IsTruncated"):
                return
            following = page.get("NextContinuationToken")
            if not following or following == token.get("ContinuationToken"):
                raise OperationFailed(f"{self._address.url}: the listing ends in the middle")
            token = {"ContinuationToken": following}

    @contextlib.contextmanager
    def _foreign(self, file: RemoteFile | None = None) -> Iterator[None]:
        """Turn what the store's library raises into our errors."""
        try:
            yield
        except _foreign_errors(self._address.kind) as error:
            raise _store_error(self._address, error, file) from None


def _foreign_errors(kind: str) -> tuple[type[Exception], ...]:
    """Return the errors of a store's libraries that are loaded; they have no root of their own."""
    found: list[type[Exception]] = [OSError, EOFError]
    for name in _ERRORS[kind]:
        module, _, error = name.partition(":")
        if module in sys.modules:
            found.append(getattr(sys.modules[module], error))
    return tuple(found)


def _file_system(address: Address) -> AbstractFileSystem:
    """Return what speaks to a bucket; nothing is contacted yet."""
    extras.require(f"{address.kind}://", EXTRAS[address.kind])
    import fsspec

    quick = {"connect_timeout": 15, "read_timeout": QUIET_S, "retries": {"max_attempts": 2}}
    options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    if address.kind == "s3":
        options["config_kwargs"] = quick
    store = fsspec.filesystem({"gs": "gs", "az": "abfs"}.get(address.kind, "s3"), **options)
    if address.kind == "s3":
        store.retries = RETRIES
    return store


def _s3_range(fs: AbstractFileSystem, file: RemoteFile, start: int, end: int) -> bytes:
    """Return a range of an object in the version of the listing, or nothing of it."""
    import fsspec.asyn

    bucket, _, key = file.handle.partition("/")

    async def read() -> bytes:
        answer = await fs._call_s3(
            "get_object",
            Bucket=bucket,
            Key=key,
            IfMatch=file.version,
            Range=f"bytes={start}-{end - 1}",
        )
        async with answer["Body"] as body:
            return bytes(await body.read())

    return bytes(fsspec.asyn.sync(fs.loop, read, timeout=10 * QUIET_S))


def _file(path: str, handle: str, row: Mapping[str, Any]) -> RemoteFile:
    """Return a listed object; the stores' libraries name its properties differently."""
    size = int(next((row[k] for k in ("Size", "size") if row.get(k) is not None), -1))
    when = _changed_ns(row)
    etag = str(next((row[k] for k in ("ETag", "etag", "generation") if row.get(k)), ""))
    return RemoteFile(path, size, etag or (f"{size} {when}" if when else ""), when, handle)


def _changed_ns(row: Mapping[str, Any]) -> int:
    """Return when a listed object was put, in nanoseconds since 1970; 0 if that is unknown."""
    changed = next((row[k] for k in ("LastModified", "updated", "last_modified") if row.get(k)), "")
    if isinstance(changed, str) and changed:
        changed = dt.datetime.fromisoformat(changed)
    return int(changed.timestamp() * 1e9) if isinstance(changed, dt.datetime) else 0


def _store_error(
    address: Address, error: Exception, file: RemoteFile | None = None
) -> RagstreamError:
    """Return our error for one of a store's library; never its text, which may show a key."""
    names = {kind.__name__ for kind in type(error).__mro__}
    what = address.url if file is None else file.path
    if names.intersection(_NO_CREDENTIALS):
        return Refused(
            f"{address.url}: no credentials",
            hint=_KEYS[address.kind],
        )
    if isinstance(error, PermissionError):
        return Refused(f"{what}: the keys do not allow it", hint=_KEYS[address.kind])
    if isinstance(error, FileNotFoundError):
        if file is not None:
            return FileChanging("it is gone since it was listed")
        return UsageError(f"{address.url}: there is no such bucket", hint="check its name")
    if file is not None and isinstance(error, OSError) and error.errno == _PRECONDITION:
        return FileChanging("it changed since it was listed")
    if file is not None:
        return TransferBroken(f"the connection broke ({type(error).__name__})")
    return OperationFailed(
        f"{address.url} does not answer ({type(error).__name__})",
        hint="check the network, and the address of the store",
    )


_KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or `aws configure`",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS in the environment, or "
    "`gcloud auth application-default login`",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY in the environment",
}
