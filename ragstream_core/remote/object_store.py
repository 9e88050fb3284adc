"""Buckets through fsspec: S3 and what speaks its protocol; gs:// and az:// by the same calls.

Keys come from where the store's own tools find them: the environment, or a profile of the user.
S3 is listed page by page here, because fsspec's listing takes an answer for complete that says it
is truncated and does not say how to go on.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ragstream_core.errors import (
    FileChanging,
    OperationFailed,
    RagstreamError,
    Refused,
    RunProgram,
    UsageError,
)
from ragstream_core.remote.address import Address
from ragstream_core.remote.source import BLOCK_BYTES, QUIET_S, RemoteFile, TransferBroken

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

EXTRAS = {"s3": "s3", "gs": "gcs", "az": "azure"}
READ_BYTES = 1 << 22
RETRIES = 3
_ERRORS = {
    "s3": ("botocore.exceptions:BotoCoreError", "botocore.exceptions:ClientError",
           "botocore.parsers:ResponseParserError", "aiohttp:ClientError"),
    "gs": ("google.auth.exceptions:GoogleAuthError", "aiohttp:ClientError"),
    "az": ("azure.core.exceptions:AzureError", "aiohttp:ClientError"),
}  # fmt: skip
_PRECONDITION = 22  # what s3fs makes of 412, and of other bad requests
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound",
                   "DefaultCredentialsError", "CredentialUnavailableError")  # fmt: skip


class ObjectStore:
    """A bucket, or the keys below a prefix.

    Args:
        address: ``s3://BUCKET/PREFIX`` and the like.

    Raises:
        UsageError: The library for it is not installed.
    """

    parallel = 8

    def __init__(self, address: Address) -> None:
        self._address = address
        with self._foreign():
            self._fs = file_system(address)

    def revision(self) -> str:
        """Return nothing: a bucket has no state of its own."""
        return ""

    def files(self) -> Iterator[RemoteFile]:
        """Yield the keys below the prefix; a prefix that is one key is that file."""
        prefix = self._address.location
        rows = self._s3_rows if self._address.kind == "s3" else self._rows
        with self._foreign():
            for key, row in rows(f"{prefix}/" if prefix else ""):
                below = key.removeprefix(f"{prefix}/") if prefix else key
                if below and not below.endswith("/"):  # a folder's own mark
                    yield _file(below, f"{self._address.host}/{key}", row)
            if prefix and self._fs.isfile(f"{self._address.host}/{prefix}"):
                full = f"{self._address.host}/{prefix}"
                yield _file(prefix.rpartition("/")[2], full, self._fs.info(full))

    def blocks(self, file: RemoteFile) -> Iterator[bytes]:
        """Yield a key's bytes; S3 is asked for the version of the listing.

        Raises:
            FileChanging: It is another version by now, or gone.
            TransferBroken: The connection broke; another attempt may help.
            OperationFailed: This key cannot be had.
        """
        with self._foreign(file):
            for at in range(0, max(file.size, 1), READ_BYTES):
                end = min(at + READ_BYTES, file.size)
                block = self._read(file, at, end)
                for start in range(0, len(block), BLOCK_BYTES):
                    yield block[start : start + BLOCK_BYTES]
            if self._address.kind != "s3" and self._version_now(file) != file.version:
                raise FileChanging("it changed while it was fetched")

    def close(self) -> None:
        """Nothing stays open."""

    def _read(self, file: RemoteFile, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        if self._address.kind == "s3":
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
        except foreign_errors(self._address.kind) as error:
            raise store_error(self._address, error, file) from None


def foreign_errors(kind: str) -> tuple[type[Exception], ...]:
    """Return the errors of a store's libraries that are loaded; they have no root of their own."""
    found: list[type[Exception]] = [OSError, EOFError]
    for name in _ERRORS[kind]:
        module, _, error = name.partition(":")
        if module in sys.modules:
            found.append(getattr(sys.modules[module], error))
    return tuple(found)


def file_system(address: Address) -> AbstractFileSystem:
    """Return what speaks to a bucket; nothing is contacted yet.

    Raises:
        UsageError: The library for it is not installed.
    """
    try:
        import fsspec

        quick = {"connect_timeout": 15, "read_timeout": QUIET_S, "retries": {"max_attempts": 2}}
        options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
        if address.kind == "s3":
            options["config_kwargs"] = quick
        made = fsspec.filesystem({"gs": "gs", "az": "abfs"}.get(address.kind, "s3"), **options)
        if address.kind == "s3":
            made.retries = RETRIES
        return made
    except ImportError as error:
        extra = EXTRAS[address.kind]
        raise UsageError(
            f"{address.kind}:// needs the extra '{extra}'",
            hint=RunProgram(f"pip install 'ragstream[{extra}]'"),
        ) from error


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
    when = changed_ns(row)
    etag = str(next((row[k] for k in ("ETag", "etag", "generation") if row.get(k)), ""))
    return RemoteFile(path, size, etag or (f"{size} {when}" if when else ""), when, handle)


def changed_ns(row: Mapping[str, Any]) -> int:
    """Return when a listed object was put, in nanoseconds since 1970; 0 if that is unknown."""
    changed = next((row[k] for k in ("LastModified", "updated", "last_modified") if row.get(k)), "")
    if isinstance(changed, str) and changed:
        changed = dt.datetime.fromisoformat(changed)
    return int(changed.timestamp() * 1e9) if isinstance(changed, dt.datetime) else 0


def store_error(
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
