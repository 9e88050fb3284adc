"""The mirror: makes a folder equal to a remote place, one whole file after the other.

Nothing old goes before all that is new is here, and nothing goes at all unless the listing came to
its end. Killed at any moment, the folder holds whole files only, and the next run goes on.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import (
    Action,
    AddOption,
    FileChanging,
    Hint,
    OperationFailed,
    RagstreamError,
    Refused,
    Stopped,
    TryAgain,
)
from ragstream_core.platform.disk import on_disk, require_space
from ragstream_core.platform.files import (
    make_durable_dir,
    remove_path,
    rename_file,
    sync_dir,
    write_blocks,
)
from ragstream_core.platform.locks import FolderLock
from ragstream_core.records.identity import Json, sha256_hex
from ragstream_core.remote.address import Address
from ragstream_core.remote.source import RemoteFile, Source, TransferBroken, ancestors, sorted_out
from ragstream_core.remote.state import FILES, PARTS, STATE, MirrorState, Row, load_state

if TYPE_CHECKING:
    from ragstream_core.ports import PhaseProgress

TRIES = 2

# So many files, or seconds, are between two notes of what is in its place: it costs syncs.
NOTED_TOGETHER, NOTED_EACH_S = 32, 1.0
# So many files may break off in a row; then the place is taken for gone.
MOST_BROKEN = 3
Reasons = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class MirrorRules:
    """Which files are mirrored, and how much."""

    # paths → those that stay where they are, and why
    left_out: Callable[[Sequence[str]], Mapping[str, str]]
    fingerprint: str  # of what `left_out` goes by; another one: the listing is read again
    max_files: int
    max_file_bytes: int
    max_bytes: int

    @property
    def digest(self) -> str:
        """Digest of all of it."""
        return sha256_hex(f"{self.fingerprint} {self.max_file_bytes} {self.max_bytes}")


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """What a mirror did, or would do."""

    url: str
    fetched: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    bytes: int = 0  # of what was fetched; of a dry run, what the place says
    skipped: Reasons = ()
    failed: Reasons = ()
    dry_run: bool = False
    seconds: float = 0.0

    def to_json(self) -> dict[str, Json]:
        """Return it for scripts."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}


@contextlib.contextmanager
def opened(address: Address, work: Path, *, max_bytes: int) -> Iterator[Source]:
    """Open a place; `work` is a folder that it may write `max_bytes` into meanwhile."""
    source = _source(address, work, max_bytes)
    try:
        yield source
    finally:
        source.close()


def _source(address: Address, work: Path, max_bytes: int) -> Source:
    # Imported when needed: each has a library that is heavy, or may not be installed.
    if address.kind == "git":
        from ragstream_core.remote.git import GitRepository

        return GitRepository(address, work, max_bytes=max_bytes)
    if address.kind == "https":
        from ragstream_core.remote.web import WebFiles

        return WebFiles(address)
    if address.kind == "sftp":
        from ragstream_core.remote.sftp import SftpFolder

        return SftpFolder(address)
    from ragstream_core.remote.object_store import ObjectStore

    return ObjectStore(address)


def mirror(
    source: Source,
    home: Path,
    *,
    url: str,
    rules: MirrorRules,
    empty_ok: bool = False,
    dry_run: bool = False,
    to_empty: Action | None = None,
    progress: PhaseProgress | None = None,
) -> MirrorReport:
    """Make a mirror equal to its place."""
    started = time.perf_counter()
    with on_disk(home), FolderLock(home, f"the mirror of {url}").held():
        work = _Mirror(source, home, load_state(home / STATE, url), progress or _no_progress)
        report = work.run(rules, empty_ok=empty_ok, dry_run=dry_run, to_empty=to_empty)
    return replace(report, dry_run=dry_run, seconds=time.perf_counter() - started)


def _no_progress(phase: str, done: int, total: int) -> None:
    """Take notice of nothing."""


@dataclass(slots=True)
class _Mirror:
    """One run."""

    source: Source
    home: Path
    state: MirrorState
    progress: PhaseProgress
    max_file_bytes: int = 0
    size: int = 0
    fetched: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    placed: dict[str, Row] = field(default_factory=dict)
    noted_at: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def files(self) -> Path:
        return self.home / FILES

    def run(
        self, rules: MirrorRules, *, empty_ok: bool, dry_run: bool, to_empty: Action | None
    ) -> MirrorReport:
        """Fetch what is new and drop what is gone."""
        url, self.max_file_bytes = self.state.url, rules.max_file_bytes
        known = self.source.revision()
        revision = f"{known} {rules.digest}" if known else ""
        if revision and revision == self.state.revision and self.state.is_whole(self.files):
            return MirrorReport(url, unchanged=len(self.state.rows))
        listed = self._listed(rules.max_files)
        if not listed and not empty_ok:
            stay = f"; the {len(self.state.rows)} files of the mirror stay"
            raise Refused(
                f"{url} lists nothing{stay if self.state.rows else ''}",
                hint=("check the address; if it is empty indeed: ", to_empty or AddOption("--yes")),
            )
        wanted, skipped = _chosen(listed, rules, url)
        fetch = [f for f in wanted.values() if not self.state.holds(self.files, f.path, f.version)]
        gone = sorted(self.state.rows.keys() - wanted.keys())
        unchanged = len(wanted) - len(fetch)
        size = sum(max(file.size, 0) for file in fetch)
        if dry_run:
            paths = tuple(file.path for file in fetch)
            return MirrorReport(url, paths, tuple(gone), unchanged, size, skipped)
        if fetch or gone or revision != self.state.revision:
            require_space(self.home, size)
            self._change(fetch, gone, revision)
        return MirrorReport(
            url, tuple(sorted(self.fetched)), tuple(gone), unchanged, self.size, skipped,
            tuple(sorted(self.failed)),
        )  # fmt: skip

    def _listed(self, most: int) -> list[RemoteFile]:
        found: list[RemoteFile] = []
        for file in self.source.files():
            found.append(file)
            if len(found) > most:
                raise Refused(
                    f"{self.state.url} lists more than {most:,} files",
                    hint="name a folder of it, or raise remote.max_files",
                )
            if len(found) % 500 == 0:
                self.progress("listing", len(found), 0)
        return found

    def _change(self, fetch: list[RemoteFile], gone: list[str], revision: str) -> None:
        """Fetch, then remove, then write down that it is complete."""
        paths = [file.path for file in fetch]
        self.state.begin([*paths, *gone])
        parts = self.home / PARTS
        remove_path(parts)
        make_durable_dir(parts)
        make_durable_dir(self.files)
        folders = set(itertools.chain.from_iterable(map(ancestors, paths)))
        in_the_way = [p for p in gone if p in folders or not set(paths).isdisjoint(ancestors(p))]
        self._remove(in_the_way)
        try:
            self._fetch_all(fetch, parts)
        finally:
            self._note()
        self._remove([path for path in gone if path not in in_the_way])
        remove_path(parts)
        self.state.revision = "" if self.failed else revision
        self.state.write()

    def _fetch_all(self, fetch: list[RemoteFile], parts: Path) -> None:
        running: dict[Future[int], tuple[RemoteFile, Path]] = {}
        todo = iter(enumerate(fetch))
        at_once, ended, broken = max(1, self.source.parallel), 0, 0
        with ThreadPoolExecutor(at_once, "mirror") as pool:
            try:
                while True:
                    for number, file in itertools.islice(todo, at_once - len(running)):
                        part = parts / str(number)
                        running[pool.submit(self._part, file, part)] = (file, part)
                    if not running:
                        return
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        broken = self._settle(future, *running.pop(future), broken=broken)
                        ended += 1
                        self.progress("fetching", ended, len(fetch))
            except BaseException:
                self.stop.set()
                raise

    def _part(self, file: RemoteFile, part: Path) -> int:
        """Fetch a file into a part; run by a thread."""
        for left in reversed(range(TRIES)):
            try:
                return write_blocks(part, self._measured(file))
            except TransferBroken:
                if not left:
                    raise
        raise AssertionError

    def _measured(self, file: RemoteFile) -> Iterator[bytes]:
        """Yield a file's blocks, no more and no fewer bytes than it was listed with."""
        got = 0
        for block in self.source.blocks(file):
            got += len(block)
            if self.stop.is_set():
                raise Stopped("the mirror was stopped")
            if got > self.max_file_bytes:
                raise OperationFailed(f"more than {self.max_file_bytes:,} bytes")
            if file.size >= 0 and got > file.size:
                raise FileChanging("it grew while it was fetched")
            yield block
        if 0 <= got < file.size:
            raise TransferBroken(f"only {got:,} of {file.size:,} bytes came")

    def _settle(
        self, future: Future[int], file: RemoteFile, part: Path, *, broken: int
    ) -> int:  # fmt: skip
        """Put a fetched file in its place, or note why not; return how many broke off in a row."""
        try:
            size = future.result()
            self._publish(file, part)
        except TransferBroken as error:
            self.failed.append((file.path, error.message))
            if broken + 1 >= MOST_BROKEN:
                raise self._broken_off(error) from error
            return broken + 1
        except RagstreamError as error:
            self.failed.append((file.path, error.message))
            return broken
        self.size += size
        self.fetched.append(file.path)
        return 0

    def _broken_off(self, error: TransferBroken) -> OperationFailed:
        hint: Hint = (TryAgain(), f"; the {len(self.fetched)} files that came are kept")
        return OperationFailed(f"{self.state.url} broke off: {error.message}", hint=hint)

    def _publish(self, file: RemoteFile, part: Path) -> None:
        target = self.files / file.path
        self._require_own_folders(file.path)
        if target.is_dir() and not target.is_symlink():
            raise OperationFailed(f"a folder that is not the mirror's is in its way: {target}")
        make_durable_dir(target.parent)
        if file.mtime_ns > 0:
            os.utime(part, ns=(file.mtime_ns, file.mtime_ns))
        found = part.stat()
        rename_file(part, target)
        self.placed[file.path] = Row(file.version, found.st_size, found.st_mtime_ns)
        late = time.monotonic() - self.noted_at >= NOTED_EACH_S
        if late or len(self.placed) >= NOTED_TOGETHER:
            self._note()

    def _note(self) -> None:
        """Make the names of what was placed durable, then note them."""
        for folder in {(self.files / path).parent for path in self.placed}:
            sync_dir(folder)
        if self.placed:
            self.state.fetched(self.placed)
        self.placed = {}
        self.noted_at = time.monotonic()

    def _require_own_folders(self, path: str) -> None:
        """Refuse a path through a link or a file that somebody put into the mirror."""
        for folder in (self.files / above for above in ancestors(path)):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise OperationFailed(f"not a folder of the mirror: {folder}")

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            with contextlib.suppress(OperationFailed):
                self._require_own_folders(path)
                target = self.files / path
                if target.is_symlink() or not target.is_dir():
                    target.unlink(missing_ok=True)
                for folder in ancestors(path):
                    with contextlib.suppress(OSError):  # not empty, or gone
                        (self.files / folder).rmdir()
            del self.state.rows[path]


def _chosen(
    listed: list[RemoteFile], rules: MirrorRules, url: str
) -> tuple[dict[str, RemoteFile], Reasons]:
    """Return the files to mirror, and why the others are left."""
    kept, faults = sorted_out(listed)
    left_out = rules.left_out(list(kept))
    for path, file in list(kept.items()):
        reason = left_out.get(path, "")
        if not reason and file.size > rules.max_file_bytes:
            reason = f"{file.size:,} bytes, more than remote.max_file_mb"
        if reason:
            faults.append((path, reason))
            del kept[path]
    total = sum(max(file.size, 0) for file in kept.values())
    if total > rules.max_bytes:
        raise Refused(
            f"{url} has {total / 1e9:.2f} GB of documents, more than {rules.max_bytes / 1e9:.2f}",
            hint=("name a folder of it, ", AddOption("--exclude GLOB"), ", or raise remote.max_gb"),
        )
    return kept, tuple(sorted(faults))
