"""What a mirror needs of a place: its files, with versions and safe names, and their bytes."""

from __future__ import annotations

import netrc
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from ragstream_core.errors import OperationFailed

BLOCK_BYTES = 1 << 18

# Seconds without a byte after which a place is taken for gone.
QUIET_S = 60.0
# Of one part of a path; file systems take 255, and a temporary name is a little longer.
MOST_NAME_BYTES = 240
MOST_PATH_BYTES = 1_000

# They turn the direction of writing, so that a name reads as another one.
_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


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

    # So many files may be fetched at once.
    parallel: int

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


def name_fault(path: str) -> str:
    """Return why a path cannot stand in a mirror; "" if it can."""
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        return "the name is not UTF-8"
    if path.startswith("/"):
        return "an absolute path"
    if "\\" in path:
        return "a backslash in the name"
    if any(unicodedata.category(c) in ("Cc", "Zl", "Zp") or c in _TURNS for c in path):
        return "control characters in the name"
    parts = path.split("/")
    if not all(parts):
        return "an empty part in the path"
    if any(part in (".", "..") for part in parts):
        return "leads out of the folder"
    if len(encoded) > MOST_PATH_BYTES or any(len(p.encode()) > MOST_NAME_BYTES for p in parts):
        return "the name is too long"
    return ""


def ancestors(path: str) -> list[str]:
    """Return the folders above a path, the nearest first, without the root."""
    return [str(parent) for parent in PurePosixPath(path).parents][:-1]


def sorted_out(
    listed: Iterable[RemoteFile],
) -> tuple[dict[str, RemoteFile], list[tuple[str, str]]]:
    """Divide a listing into files that can be mirrored, by path, and (path, reason) of the others.

    Of names that differ in case alone, on some file systems one and the same, the first in order
    stays. A name that is a folder of another file as well gives way.
    """
    kept: dict[str, RemoteFile] = {}
    faults: list[tuple[str, str]] = []
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for file in sorted(listed, key=lambda file: file.path):
        fault = name_fault(file.path) or file.fault or _clash(file.path, files, folders)
        if fault:
            faults.append((file.path, fault))
        else:
            kept[file.path] = file
    for path in sorted(kept.keys() & folders.values()):
        del kept[path]
        faults.append((path, "a file and a folder of the same name"))
    return kept, faults


def _clash(path: str, files: dict[str, str], folders: dict[str, str]) -> str:
    """Return which earlier name a path collides with; note it and its folders otherwise."""
    folded = _folded(path)
    above = {_folded(folder): folder for folder in ancestors(path)}
    if files.get(folded) == path:
        return "listed twice"
    for key, name in {folded: path, **above}.items():
        for other in (files.get(key, name), folders.get(key, name)):
            if other != name:
                return f"{name} differs from {other} in case alone"
    files[folded] = path
    folders.update(above)
    return ""


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
