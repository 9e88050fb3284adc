"""A ZIP as a folder: what lies in it, and the bytes of one document of it.

It is read where it lies. Only its list is read to know what it holds; nothing is unpacked to a
place that has a name, so a name in it is a label and leads nowhere. A ZIP in a ZIP is a folder in
it; one deeper is named and left.
"""

from __future__ import annotations

import calendar
import contextlib
import io
import os
import re
import shutil
import stat
import tempfile
import threading
import zipfile
import zlib
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import IO, NamedTuple

from ragstream_core.ingestion.file_types import is_archive
from ragstream_core.platform.zips import FLOOR_BYTES, MAX_RATIO, MOST_MEMBERS, UNREADABLE

_LIST_BYTES = 16 << 20  # of the list of members, with names
_NESTED_BYTES = 256 << 20  # of all ZIPs in a ZIP that have to be unpacked to be listed
_NAME, _FOLDERS = 1_000, 50  # letters of a name, folders in it
_KEPT = 4  # lists of archives that were read last
_PART = 1 << 20
_LOCAL = 30  # bytes of the head of a member, before its name

# What Notion adds to the name of a page.
_ID = re.compile(r"(?<=\S)[ _-][0-9a-f]{32}(?=$|\.\w{1,8}$|_all\.csv$)")
_ELSEWHERE = "unpack the ZIP beside it to have it read"
DAMAGED = f"damaged or no ZIP; {_ELSEWHERE}"
ENCRYPTED = f"encrypted; {_ELSEWHERE}"
_DEEPER = f"a ZIP in a ZIP in a ZIP; {_ELSEWHERE}"


class Unusable(Exception):
    """Raised for an archive that is left out as a whole; the message is the reason."""


class _Window(io.RawIOBase):
    """Part of an open file as a file of its own; every place may be read by every thread."""

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        self._file, self._start, self.size, self._at = file, start, size, 0

    def at(self, offset: int, count: int) -> bytes:
        """Return the bytes at an offset, fewer at the end."""
        count = max(0, min(count, self.size - offset))
        return os.pread(self._file.fileno(), count, self._start + offset) if count else b""

    def within(self, offset: int, size: int) -> _Window:
        """Return a part of this part."""
        return _Window(self._file, self._start + offset, size)

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        at = offset + (0, self._at, self.size)[whence]
        if at < 0:
            raise OSError("before the file")
        self._at = at
        return at

    def read(self, size: int = -1) -> bytes:
        size = self.size - self._at if size < 0 else size
        if size > _LIST_BYTES:
            raise Unusable(f"its list of files has more than {_LIST_BYTES} bytes; {_ELSEWHERE}")
        found = self.at(self._at, size)
        self._at += len(found)
        return found


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive.

    Attributes:
        size: Bytes, unpacked.
        modified: When it was changed, ns since the epoch; 0: not known.
        refusal: Why it is not read, or "".
    """

    size: int
    modified: int
    refusal: str
    _window: _Window
    _info: zipfile.ZipInfo

    def unpack(self, into: IO[bytes]) -> None:
        """Write its bytes to a file."""
        if self.refusal:
            raise OSError(self.refusal)
        packed = self._window.within(self._begin(), self._info.compress_size)
        try:
            with zipfile.ZipExtFile(packed, "r", self._info) as file:
                shutil.copyfileobj(file, into, _PART)
        except (zipfile.BadZipFile, zlib.error, EOFError):
            raise OSError(f"damaged in its ZIP; {_ELSEWHERE}") from None
        if into.tell() != self.size:
            raise OSError(f"damaged in its ZIP; {_ELSEWHERE}")

    def stored(self) -> _Window | None:
        """Return where its bytes lie as they are; None: they are packed."""
        is_plain = self._info.compress_type == zipfile.ZIP_STORED
        return self._window.within(self._begin(), self.size) if is_plain else None

    def _begin(self) -> int:
        head = self._window.at(self._info.header_offset, _LOCAL)
        if len(head) < _LOCAL or not head.startswith(b"PK\3\4"):
            raise OSError(f"damaged in its ZIP; {_ELSEWHERE}")
        name, extra = int.from_bytes(head[26:28], "little"), int.from_bytes(head[28:30], "little")
        return self._info.header_offset + _LOCAL + name + extra


class Tree(dict[str, "Member | Tree"]):
    """The entries of a folder in an archive by name."""

    def at(self, path: str) -> Member | Tree | None:
        """Return what lies below it at a path."""
        node: Member | Tree | None = self
        for name in path.split("/"):
            node = node.get(name) if isinstance(node, Tree) else None
        return node


class Archive(NamedTuple):
    """What lies in an archive.

    Attributes:
        tree: Its folders and files.
        left_out: (path, reason) of what has no place in the tree.
    """

    tree: Tree
    left_out: list[tuple[str, str]]

    def member(self, path: str) -> Member:
        """Return a file."""
        node = self.tree.at(path)
        if not isinstance(node, Member):
            raise FileNotFoundError(2, "not in its ZIP", path)
        return node


_lists: OrderedDict[tuple[int, ...], Archive] = OrderedDict()
_lock = threading.Lock()


def read_list(fd: int) -> Archive:
    """Return what lies in an open ZIP; its list is read once for each state of the file."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise OSError("not a regular file")
    key = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    with _lock:
        if key in _lists:
            _lists.move_to_end(key)
            return _lists[key]
    file = os.fdopen(os.dup(fd), "rb", buffering=0)
    archive = _Reader(found.st_size).archive(_Window(file, 0, found.st_size))
    with _lock:
        _lists[key] = archive
        while len(_lists) > _KEPT:
            _lists.popitem(last=False)
    return archive


class _Reader:
    """Reads the lists of an archive and of those in it, within bounds that hold for all."""

    def __init__(self, size: int) -> None:
        self._members, self._nested = MOST_MEMBERS, _NESTED_BYTES
        self._bytes = max(MAX_RATIO * size, FLOOR_BYTES)

    def archive(self, window: _Window, *, is_inner: bool = False) -> Archive:
        """Return what lies in an archive."""
        try:
            with zipfile.ZipFile(window) as package:
                infos = [info for info in package.infolist() if info.filename[-1:] != "/"]
        except UNREADABLE:
            raise Unusable(DAMAGED) from None
        self._members -= len(infos)
        if self._members < 0:
            raise Unusable(f"holds more than {MOST_MEMBERS:,} files; {_ELSEWHERE}")
        archive = Archive(Tree(), [])
        members = {}
        for path, info in _labels(infos, archive.left_out).items():
            members[path] = self._member(window, info)
        reasons = Counter(member.refusal for member in members.values())
        if reasons and "" not in reasons:
            raise Unusable(reasons.most_common(1)[0][0])
        for path, member in members.items():
            node = self._inner(path, member, archive.left_out, is_inner=is_inner)
            if not _put(archive.tree, path.split("/"), node):
                archive.left_out.append((path, "in the ZIP as a file and as a folder"))
        return archive

    def _member(self, window: _Window, info: zipfile.ZipInfo) -> Member:
        refusal = _refusal(info)
        if not refusal:
            self._bytes -= info.file_size
            if self._bytes < 0:
                raise Unusable(
                    f"would unpack to more than {MAX_RATIO} times its size; {_ELSEWHERE}"
                )
        return Member(info.file_size, _modified(info), refusal, window, info)

    def _inner(
        self, path: str, member: Member, left_out: list[tuple[str, str]], *, is_inner: bool
    ) -> Member | Tree:
        """Return a file, or if it is a ZIP what lies in it."""
        if not is_archive(path) or member.refusal:
            return member
        try:
            if is_inner:
                raise Unusable(_DEEPER)
            inner = self.archive(self._unpacked(member), is_inner=True)
        except (Unusable, OSError) as error:
            return replace(member, refusal=str(error))
        left_out += [(f"{path}/{name}", reason) for name, reason in inner.left_out]
        return inner.tree

    def _unpacked(self, member: Member) -> _Window:
        if window := member.stored():
            return window
        self._nested -= member.size
        if self._nested < 0:
            raise Unusable(
                f"ZIPs in a ZIP, packed again, of more than {_NESTED_BYTES} bytes; {_ELSEWHERE}"
            )
        file = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the list that refers to it
        member.unpack(file)
        file.flush()
        return _Window(file, 0, member.size)


def _refusal(info: zipfile.ZipInfo) -> str:
    if info.flag_bits & 0x2041:
        return ENCRYPTED
    if stat.S_ISLNK(info.external_attr >> 16):
        return "symbolic link; only regular files are read"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"packed by a method that is not read ({info.compress_type}); {_ELSEWHERE}"
    if info.file_size > max(MAX_RATIO * info.compress_size, FLOOR_BYTES):
        return f"would unpack to {info.file_size} bytes of {info.compress_size}; {_ELSEWHERE}"
    if info.compress_type == zipfile.ZIP_STORED and info.file_size != info.compress_size:
        return f"damaged in its ZIP; {_ELSEWHERE}"
    return ""


def _modified(info: zipfile.ZipInfo) -> int:
    """Return when a member was changed; the clock of the machine that packed it counts as UTC."""
    if info.date_time <= (1980, 1, 1, 0, 0, 0) or not 1 <= info.date_time[1] <= 12:
        return 0
    return calendar.timegm((*info.date_time, 0, 0, 0)) * 1_000_000_000


def _labels(
    infos: list[zipfile.ZipInfo], left_out: list[tuple[str, str]]
) -> dict[str, zipfile.ZipInfo]:
    """Return the members by path; of several of one name the last, as when they are unpacked."""
    named: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        path = _path(info)
        parts = path.split("/")
        if ".." in parts:
            left_out.append((path, "its name in the ZIP leads out of it"))
        elif not path or len(path) > _NAME or len(parts) > _FOLDERS:
            left_out.append((path[:80] or "(no name)", "its name in the ZIP is none, or too long"))
        else:
            if path in named:
                left_out.append((path, "twice in the ZIP; the last one is read"))
            named[path] = info
    readable = {path: "/".join(_ID.sub("", part) for part in path.split("/")) for path in named}
    count = Counter(readable.values())
    return {
        readable[path] if count[readable[path]] == 1 else path: info for path, info in named.items()
    }


def _path(info: zipfile.ZipInfo) -> str:
    """Return the name of a member with slashes, without what no path begins with.

    Old programs write UTF-8 and do not say so; else the code page is that of the format, 437.
    """
    name = info.filename
    if not info.flag_bits & 0x800 and not name.isascii():
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    name = re.sub(r"^[A-Za-z]:(?=[/\\])", "", name).replace("\\", "/")
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _put(tree: Tree, parts: list[str], node: Member | Tree) -> bool:
    """Put an entry into a tree; False if its place is taken by another kind of entry."""
    *folders, name = parts
    for folder in folders:
        inner = tree.setdefault(folder, Tree())
        if not isinstance(inner, Tree):
            return False
        tree = inner
    return tree.setdefault(name, node) is node
