"""What a mirror needs of a place: its files with versions, and the bytes of one of them."""

from __future__ import annotations

import netrc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ragstream_core.errors import OperationFailed

BLOCK_BYTES = 1 << 18
QUIET_S = 60.0
"""Seconds without a byte after which a place is taken for gone."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file as it is listed.

    Attributes:
        path: POSIX path below the address, as the place names it; not yet checked.
        size: Bytes; -1 if the place does not say.
        version: Changes if the bytes may have: etag, size and time, or digest; "" if there is
            none, and then the file is fetched each time.
        mtime_ns: When it was changed there; 0 if unknown.
        handle: What the place opens it by.
        fault: Why it cannot be mirrored; "" if it can.
    """

    path: str
    size: int = -1
    version: str = ""
    mtime_ns: int = 0
    handle: str = ""
    fault: str = ""


class Source(Protocol):
    """A place with files. Foreign errors stop in it, and its own are of four kinds.

    `UsageError`: no such place; `Refused`: it lets nobody in; `FileChanging`: of one file, another
    version by now, or gone; `OperationFailed`: no answer, or of one file, it cannot be had.
    """

    parallel: int
    """So many files may be fetched at once."""

    def revision(self) -> str:
        """Return what names the state of the whole place, e.g. a commit; "" if nothing does."""

    def files(self) -> Iterator[RemoteFile]:
        """Yield every file. Only a listing that ends without an error is complete."""

    def blocks(self, file: RemoteFile) -> Iterator[bytes]:
        """Yield the bytes of a listed file in that very version."""

    def close(self) -> None:
        """End the connection, and whatever it needed on this machine."""


class TransferBroken(OperationFailed):
    """A connection that broke while something was fetched; another attempt may help."""


def known_login(host: str) -> tuple[str, str] | None:
    """Return user and password that ``~/.netrc`` has for a host; None without such an entry."""
    try:
        known = netrc.netrc().authenticators(host)
    except (OSError, netrc.NetrcParseError):  # nobody's, or one that others can read
        return None
    return (known[0], known[2] or "") if known else None
