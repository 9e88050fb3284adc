"""Folders and documents in an archive, as a scan and a reader meet those on the disk."""

from __future__ import annotations

import io
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ragstream_core.index.rows import Signature
from ragstream_core.ingestion.archives import Member, Tree, Unusable, read_list
from ragstream_core.ingestion.file_types import is_archive
from ragstream_core.ingestion.folder_files import open_beneath, signature_of


class PackedStat(NamedTuple):
    """What `os.stat_result` says of a file, of one in an archive."""

    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_ino: int

    @classmethod
    def of(cls, member: Member, archive: os.stat_result) -> PackedStat:
        """Return what stands for this state of it: it changes whenever its archive does."""
        latest = archive.st_mtime_ns  # its own is of a clock anywhere: none is of tomorrow
        modified = min(member.modified or latest, latest)
        return cls(member.size, modified, archive.st_ctime_ns, archive.st_ino)


class PackedFolder(NamedTuple):
    """A folder in an archive.

    Attributes:
        tree: What lies in it.
        archive: Stat result of the archive.
    """

    tree: Tree
    archive: os.stat_result

    def entries(self, path: str) -> Iterator[PackedEntry]:
        """Yield what lies in it."""
        for name, node in self.tree.items():
            yield PackedEntry(name, f"{path}/{name}", node, self.archive)

    def data(self, name: str, most: int) -> bytes:
        """Return what a small file in it holds."""
        node, held = self.tree[name], io.BytesIO()
        if not isinstance(node, Member) or node.size > most:
            raise OSError(f"no file of at most {most:,} bytes")
        node.unpack(held)
        return held.getvalue()

    def below(self, name: str) -> PackedFolder:
        """Return a folder in it."""
        inner = self.tree[name]
        return self._replace(tree=inner if isinstance(inner, Tree) else Tree())

    def holds(self, path: str) -> bool:
        """Whether a path is there."""
        return self.tree.at(path) is not None


class PackedEntry(NamedTuple):
    """An entry of such a folder, as `os.DirEntry`."""

    name: str
    path: str
    node: Member | Tree
    archive: os.stat_result

    @property
    def refusal(self) -> str:
        """Why it is not read."""
        return self.node.refusal if isinstance(self.node, Member) else ""

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file that may be read."""
        return isinstance(self.node, Member) and not self.node.refusal

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        return isinstance(self.node, Tree)

    def is_symlink(self) -> bool:
        """Return False: a link has a refusal."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> PackedStat:
        """Return its size and times."""
        if not isinstance(self.node, Member):
            raise FileNotFoundError(self.path)
        return PackedStat.of(self.node, self.archive)


def opened(path: str) -> tuple[PackedFolder, list[tuple[str, str]]]:
    """Return an archive as a folder, and (path, reason) of what is left out; "" is all of it."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        state = os.fstat(fd)
        archive = read_list(fd)
        return PackedFolder(archive.tree, state), archive.left_out
    except Unusable as error:
        return PackedFolder(Tree(), state), [("", str(error))]
    finally:
        os.close(fd)


def unpacked(root: Path, path: str, most: int) -> tuple[int, Signature]:
    """Return a document of an archive as an open file, and its signature."""
    found = _on_the_way(root, path)
    if found is None:
        raise NotADirectoryError(20, "not a folder", path)
    fd, inside = found
    try:
        archive = os.fstat(fd)  # before it is read: what changes then is seen by the next scan
        member = read_list(fd).member(inside)
        with tempfile.TemporaryFile() as file:
            if member.size <= most:
                member.unpack(file)
            file.seek(0)
            return os.dup(file.fileno()), signature_of(PackedStat.of(member, archive))
    except Unusable as error:
        raise OSError(str(error)) from None
    finally:
        os.close(fd)


def archive_of(root: Path, path: str) -> str:
    """Return the path of the archive that a path leads into, or ""."""
    found = _on_the_way(root, path)
    if found is None:
        return ""
    os.close(found[0])
    return path.removesuffix(f"/{found[1]}")


def _on_the_way(root: Path, path: str) -> tuple[int, str] | None:
    """Return the open archive that a path leads into, and the rest of the path."""
    parts = path.split("/")
    for end in (n for n, name in enumerate(parts[:-1], 1) if is_archive(name)):
        try:
            fd = open_beneath(root, "/".join(parts[:end]))
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd, "/".join(parts[end:])
        os.close(fd)
    return None
