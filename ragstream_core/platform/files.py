"""The only home of fsync and rename: a file is either the old one or the new one.

`replace_bytes` is durable: file synced, renamed over the name, directory synced.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

PRIVATE_DIR = 0o700
PRIVATE_FILE = 0o600
_SUSPECT_FILE = 0o400
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextlib.contextmanager
def on_failure(undo: Callable[[], object]) -> Iterator[None]:
    """Take back what was begun, by a function, if the block does not come to its end."""
    try:
        yield
    except BaseException:  # an interrupt, too, leaves nothing half done
        undo()
        raise


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file in UTF-8, without their ends; a byte order mark is passed over.

    U+2028 and its like may stand in JSON as they are: `str.splitlines` would tear it.
    """
    return path.read_text(encoding="utf-8-sig").split("\n")


def make_private_dir(path: Path) -> Path:
    """Create a directory (and parents) that only its owner may enter; return it."""
    if not path.is_dir():
        make_private_dir(path.parent)  # mkdir gives parents it makes the usual mode
        path.mkdir(exist_ok=True, mode=PRIVATE_DIR)
    return path


def make_durable_dir(path: Path) -> Path:
    """Make a private directory whose name, and its parents', a power cut cannot take; return it."""
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    make_private_dir(path)
    for folder in missing:
        sync_dir(folder.parent)
    return path


def sync_dir(path: Path) -> None:
    """Make the names inside a directory durable."""
    _sync(path, os.O_DIRECTORY)


def _sync(path: Path, kind: int = 0) -> None:
    fd = os.open(path, os.O_RDONLY | kind)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _unlink(path: str | Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def replace_bytes(
    path: Path, data: bytes | memoryview, *, durable: bool = True, mode: int = PRIVATE_FILE
) -> None:
    """Put ``data`` under ``path`` so that a reader sees the old bytes or the new ones.

    Not `durable`, not synced: for caches that may be lost. A `mode` is for others to read it.
    """
    if _is_special(path):  # who may replace /dev/stdout would take it from the whole machine
        raise OSError(errno.EINVAL, "is a pipe or a device, and no file", str(path))
    make_private_dir(path.parent)
    fd, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", suffix=".tmp", dir=path.parent)
    with on_failure(functools.partial(_unlink, name)):
        with os.fdopen(fd, "wb") as handle:
            if mode != PRIVATE_FILE:
                with contextlib.suppress(PermissionError):  # a file system without modes
                    os.fchmod(fd, mode)
            handle.write(data)
            handle.flush()
            if durable:
                os.fsync(handle.fileno())
        os.replace(name, path)
    if durable:
        sync_dir(path.parent)


def _is_special(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def replace_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Put UTF-8 ``text`` under ``path``, as `replace_bytes`."""
    replace_bytes(path, text.encode("utf-8"), durable=durable)


def write_blocks(path: Path, blocks: Iterable[bytes]) -> int:
    """Write a new private file of blocks as they come and sync it; return how many bytes.

    It is not replaced in one step: a part that gets its name afterwards. A failure leaves no file.
    """
    with on_failure(functools.partial(_unlink, path)):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
        return _write_synced(fd, blocks)


def _write_synced(fd: int, blocks: Iterable[bytes]) -> int:
    """Write a file from its begin, sync and close it; return how many bytes."""
    with os.fdopen(fd, "wb") as handle:
        for block in blocks:
            handle.write(block)
        handle.flush()
        os.fsync(handle.fileno())
        return handle.tell()


def create_bytes(path: Path, data: bytes) -> None:
    """Put ``data`` under a name that nothing has yet, durably; whoever comes second is refused.

    Where a file system knows no hard links, a reader may see a part of it for a moment.
    """
    fd, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", suffix=".tmp", dir=path.parent)
    try:
        _write_synced(fd, [data])
        try:
            os.link(name, path)
        except OSError:  # the name is taken, which this finds too, or there are no links
            _create_in_place(path, data)
    finally:
        os.unlink(name)
    sync_dir(path.parent)


def _create_in_place(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    with on_failure(functools.partial(_unlink, path)):
        _write_synced(fd, [data])


def move_aside(path: Path, to: Path) -> None:
    """Rename within one directory, durably; a file already at ``to`` is replaced."""
    os.replace(path, to)
    sync_dir(to.parent)


def rename_file(path: Path, to: Path) -> None:
    """Rename a synced file; its new name is durable once `sync_dir` of the folder has returned."""
    os.replace(path, to)


def remove_path(path: Path) -> None:
    """Remove a file, a link or a whole folder; one that is gone is no error."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def pwrite_durable(path: Path, data: bytes, *, offset: int) -> None:
    """Write ``data`` at ``offset`` of ``path`` (created when missing) and sync it.

    Never truncates and never appends: bytes after a committed count are overwritten by the next
    writer, bytes before it are never touched. A sync that fails is not tried again: what memory
    shows of the file may not be what the disk holds, so it is made read-only, see `is_suspect`.
    """
    created = False
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        make_private_dir(path.parent)
        fd, created = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE), True
    try:
        view, at = memoryview(data), offset
        while view:
            written = os.pwrite(fd, view, at)
            view, at = view[written:], at + written
        _sync_once(fd, path.parent if created else None)
    finally:
        os.close(fd)


def truncate_durable(path: Path, size: int) -> None:
    """Cut a file to ``size`` bytes and sync it; a sync that fails makes it suspect."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(fd, size)
        if not os.fstat(fd).st_mode & stat.S_IWUSR:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        _sync_once(fd)
    finally:
        os.close(fd)


def _sync_once(fd: int, folder: Path | None = None) -> None:
    try:
        os.fsync(fd)
        if folder is not None:
            sync_dir(folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.fchmod(fd, _SUSPECT_FILE)
        raise


def is_suspect(path: Path) -> bool:
    """Say whether a sync of this file failed: nobody writes or syncs it again.

    The mark is a mode and need not be durable: the page cache that may lie is lost with it.
    """
    return not path.stat().st_mode & stat.S_IWUSR


def publish_dir(folder: Path, to: Path) -> None:
    """Sync every file and directory below ``folder``, then give it its name, durably."""
    _sync_tree(folder)
    os.rename(folder, to)
    sync_dir(to.parent)


def exchange_dirs(folder: Path, to: Path) -> None:
    """Sync every file and directory below ``folder``, then let it and ``to`` swap names, durably.

    One step on Linux. Elsewhere three renames: a kill between them leaves ``to`` under the name
    that `aside_of` gives it.
    """
    _sync_tree(folder)
    if not _exchanged(folder, to):
        os.rename(to, aside_of(to))
        os.rename(folder, to)
        os.rename(aside_of(to), folder)
    sync_dir(to.parent)


def put_in_place(
    folder: Path, target: Path, *, keep: Callable[[Path, Path], None] | None = None
) -> None:
    """Give a finished folder its name, durably; what has that name goes, and a killed call's rest.

    `keep` is called with the old and the new folder before the old one goes; what it or a full disk
    raises leaves the old one in its place or beside it.
    """
    aside = aside_of(target)
    if not target.is_dir():
        publish_dir(folder, target)
    else:
        exchange_dirs(folder, target)
        if keep is not None:
            keep(folder, target)
        remove_path(aside)
        os.rename(folder, aside)  # whoever comes next may need the name it was put together under
    shutil.rmtree(aside, ignore_errors=True)


def aside_of(path: Path) -> Path:
    """Return where a directory lies for a moment while another one takes its name."""
    return path.with_name(f".{path.name}.replaced")


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two names by renameat2; False where the system or the file system has no such call."""
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(code, os.strerror(code), str(other))


def _sync_tree(folder: Path) -> None:
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():  # a pipe would wait for its other end
                _sync(path)
        sync_dir(Path(parent))


def open_append(path: Path) -> int:
    """Make a private file that is only appended to; return its descriptor."""
    make_private_dir(path.parent)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    sync_dir(path.parent)
    return fd


def append_line(fd: int, line: bytes) -> None:
    """Write a line at the end of a file and sync it."""
    view = memoryview(line)
    while view:
        view = view[os.write(fd, view) :]
    os.fsync(fd)


def append_text(path: Path, text: str, *, create: bool) -> None:
    """Write a text at the end of a file in one write, so that those of two processes do not mix."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if create else 0), PRIVATE_FILE)
    try:
        os.write(fd, text.encode("utf-8"))
    finally:
        os.close(fd)


def copy_durable(source: Path, to: Path) -> None:
    """Copy a file so that ``to`` is the old file or the whole copy."""
    make_private_dir(to.parent)
    fd, name = tempfile.mkstemp(prefix=f".{to.name[:80]}.", suffix=".tmp", dir=to.parent)
    with on_failure(functools.partial(_unlink, name)):
        with source.open("rb") as reader:
            _write_synced(fd, iter(lambda: reader.read(1 << 20), b""))
        os.replace(name, to)
    sync_dir(to.parent)


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes, 64 hex digits, read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def known_sha256(path: Path) -> str:
    """Return the sha256 of a file that this process reads again only if it has changed."""
    now = path.stat()
    return _sha256_of_state(path, now.st_size, now.st_mtime_ns, now.st_ino)


@functools.lru_cache(maxsize=64)
def _sha256_of_state(path: Path, size: int, mtime_ns: int, inode: int) -> str:
    return file_sha256(path)
