"""A folder over SFTP, by paramiko itself: fsspec's class accepts any host key.

A host has to be in ``~/.ssh/known_hosts``. Keys come from an SSH agent or ``~/.ssh``, a password
from ``~/.netrc``. Links are never followed.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ragstream_core.errors import (
    FileChanging,
    OperationFailed,
    RagstreamError,
    Refused,
    RunProgram,
    UsageError,
)
from ragstream_core.platform import extras
from ragstream_core.remote.address import Address
from ragstream_core.remote.source import QUIET_S, RemoteFile, TransferBroken, known_login

if TYPE_CHECKING:
    import paramiko

CONNECT_S = 20.0
READ_BYTES = 1 << 15
MOST_DEPTH = 50


class SftpFolder:
    """A folder, or one file, of an SSH server."""

    # One connection; its reads are pipelined.
    parallel = 1

    def __init__(self, address: Address) -> None:
        extras.require("sftp://", "sftp")
        import paramiko

        logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # it logs what it raises
        self._address = address
        self._broken = (paramiko.SSHException, OSError, EOFError)
        self._client = paramiko.SSHClient()
        self._client.load_system_host_keys()
        self._client.set_missing_host_key_policy(paramiko.RejectPolicy())
        try:
            self._sftp = self._connected()
        except RagstreamError:
            self._client.close()
            raise

    def revision(self) -> str:
        """Return nothing: a folder has no state of its own."""
        return ""

    def files(self) -> Iterator[RemoteFile]:
        """Yield the regular files below the folder; a folder that cannot be read ends it."""
        root = self._address.location
        with self._named(f"{self._address.url}: "):
            found = self._sftp.stat(root)
            if not stat.S_ISDIR(found.st_mode or 0):
                yield _file(root.rpartition("/")[2], root, found)
                return
            stack = [(root, "", 0)]
            while stack:
                folder, prefix, depth = stack.pop()
                for row in self._sftp.listdir_iter(folder):
                    path, full = f"{prefix}{row.filename}", f"{folder.rstrip('/')}/{row.filename}"
                    if not stat.S_ISDIR(row.st_mode or 0):
                        yield _file(path, full, row)
                    elif depth >= MOST_DEPTH:
                        yield RemoteFile(path, fault=f"more than {MOST_DEPTH} folders deep")
                    else:
                        stack.append((full, f"{path}/", depth + 1))

    def blocks(self, file: RemoteFile) -> Iterator[bytes]:
        """Yield a file's bytes; size and time have to be those of the listing before and after."""
        try:
            with self._sftp.open(file.handle, "rb") as handle:
                _require_same(file, handle.stat())
                handle.prefetch(file.size)
                while block := handle.read(READ_BYTES):
                    yield block
                _require_same(file, handle.stat())
        except FileNotFoundError:
            raise FileChanging("it is gone since it was listed") from None
        except PermissionError:
            raise OperationFailed("the server does not allow to read it") from None
        except self._broken as error:
            raise TransferBroken(f"the connection broke ({type(error).__name__})") from None

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _connected(self) -> paramiko.SFTPClient:
        parts = urlsplit(self._address.url)
        host, port = parts.hostname or "", parts.port or 22
        user, password = _login(host, unquote(parts.username or ""))
        try:
            self._client.connect(
                host, port, user, password or None, timeout=CONNECT_S,
                banner_timeout=CONNECT_S, auth_timeout=CONNECT_S, channel_timeout=CONNECT_S,
            )  # fmt: skip
            sftp = self._client.open_sftp()
        except self._broken as error:
            raise _refusal(host, port, user, error) from None
        channel = sftp.get_channel()
        if channel is not None:
            channel.settimeout(QUIET_S)
        return sftp

    @contextlib.contextmanager
    def _named(self, prefix: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise UsageError(
                f"{prefix}there is no such folder",
                hint="/PATH begins at the server's root, /~/PATH at your home there",
            ) from None
        except PermissionError:
            raise Refused(f"{prefix}a folder cannot be read; nothing was changed") from None
        except UnicodeDecodeError:
            raise OperationFailed(f"{prefix}a file name is not UTF-8") from None
        except self._broken as error:
            raise OperationFailed(
                f"{prefix}the listing broke off ({type(error).__name__}); nothing was changed"
            ) from None


def _refusal(host: str, port: int, user: str, error: Exception) -> RagstreamError:
    """Return our error for a connection that did not come about."""
    key = "add a key to your SSH agent, or the password to ~/.netrc (mode 0600)"
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "BadHostKeyException" in kinds:
        return Refused(
            f"{host} shows another host key than the one in ~/.ssh/known_hosts",
            hint="ask who runs it; somebody may stand between you and the host",
        )
    if "not found in known_hosts" in str(error):  # of paramiko's `RejectPolicy`; it has no class
        return Refused(
            f"{host} is not in ~/.ssh/known_hosts, so it cannot be told from another host",
            hint=RunProgram(f"ssh -p {port} {host}"),
        )
    if "AuthenticationException" in kinds:
        return Refused(f"{host} lets {user} in neither by SSH key nor by password", hint=key)
    if "No authentication methods" in str(error):
        return Refused(f"{host}: no key and no password for {user}", hint=key)
    if "SSHException" in kinds:
        return OperationFailed(f"{host} does not speak SSH as it should")
    return OperationFailed(
        f"{host}:{port} does not answer ({type(error).__name__})",
        hint="check the network, and host and port of the address",
    )


def _login(host: str, user: str) -> tuple[str, str]:
    """Return user and password; the password is "" if ``~/.netrc`` has none for both."""
    known = known_login(host)
    if known is None or (user and known[0] != user):
        return user or getpass.getuser(), ""
    return known


def _file(path: str, handle: str, row: paramiko.SFTPAttributes) -> RemoteFile:
    mode = row.st_mode or 0
    if stat.S_ISLNK(mode):
        return RemoteFile(path, fault="a symbolic link; only regular files are mirrored")
    if not stat.S_ISREG(mode):
        return RemoteFile(path, fault="not a regular file")
    size, mtime = row.st_size or 0, row.st_mtime or 0
    return RemoteFile(path, size, f"{size} {mtime}", mtime * 1_000_000_000, handle)


def _require_same(file: RemoteFile, now: paramiko.SFTPAttributes) -> None:
    if f"{now.st_size or 0} {now.st_mtime or 0}" != file.version:
        raise FileChanging("it changed since it was listed")
