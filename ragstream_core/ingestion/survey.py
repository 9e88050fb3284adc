"""Reads the files that may have changed, and says what the index has to do about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ragstream_core.errors import FileChanging
from ragstream_core.index.rows import Change, FileEntry, Signature, reading_remark
from ragstream_core.ingestion.file_types import file_type
from ragstream_core.ingestion.loader import Document, DocumentLoader
from ragstream_core.ingestion.parsers.engines import is_current, untagged
from ragstream_core.ingestion.scan import Scan, compare, under_unreadable


@dataclass(frozen=True, slots=True)
class ManifestDiff:
    """Every path in exactly one class; each sorted. ``skipped`` has (path, reason)."""

    new: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def changed(self) -> dict[str, tuple[str, ...]]:
        """The paths of the classes new, updated, touched and deleted, by class."""
        classes = (self.new, self.updated, self.touched, self.deleted)
        return dict(zip(("new", "updated", "touched", "deleted"), classes, strict=True))


def same_content(old: FileEntry, new: FileEntry) -> bool:
    """Say whether two versions of a file put the same rows into the index."""
    return (old.sha256, old.decision) == (new.sha256, new.decision)


def diff(old: Mapping[str, FileEntry], current: Mapping[str, FileEntry]) -> ManifestDiff:
    """Compare two manifests by content hash; pure.

    Content decides: equal bytes with another mtime are ``touched``, whatever the clock says.

    Args:
        old: Rows of the last committed generation by path.
        current: Rows of what is on disk now.
    """
    classes: dict[str, list[str]] = {"new": [], "updated": [], "touched": [], "unchanged": []}
    skipped = []
    for path in sorted(current):
        was, now = old.get(path), current[path]
        if now.decision == "skipped":
            skipped.append((path, untagged(now.reason)))
        elif was is None:
            classes["new"].append(path)
        elif not same_content(was, now):
            classes["updated"].append(path)
        else:
            classes["unchanged" if was.mtime_ns == now.mtime_ns else "touched"].append(path)
    return ManifestDiff(
        deleted=tuple(sorted(set(old) - set(current))),
        skipped=tuple(skipped),
        **{name: tuple(paths) for name, paths in classes.items()},
    )


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the last ingest left: manifest and signatures by path, and when its scan began."""

    files: Mapping[str, FileEntry]
    signatures: dict[str, Signature]
    started_ns: int


@dataclass(frozen=True, slots=True)
class Depth:
    """How much is looked at.

    Attributes:
        read_all: Read every file, whatever its signature.
        chunk_all: Chunk every file, equal content too.
        chunk: Chunk these, equal content too.
    """

    read_all: bool
    chunk_all: bool
    chunk: frozenset[str] = frozenset()


@dataclass(slots=True)
class Survey:
    """What was found.

    Attributes:
        current: The manifest as it is now; a held file keeps its old row.
        change: What the store has to do.
        diff: The manifest against the one before.
        held: (path, reason) of files that could not be read as one version.
        secrets: (path, KIND and line) of what seems to be a secret in the files that were read.
    """

    current: dict[str, FileEntry] = field(default_factory=dict)
    change: Change = field(default_factory=Change)
    diff: ManifestDiff = field(default_factory=ManifestDiff)
    held: list[tuple[str, str]] = field(default_factory=list)
    secrets: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Surveyor:
    """Compares a folder with what was recorded.

    Attributes:
        loader: Reads files.
        recorded: What the last ingest left.
        depth: How much to look at.
        take: Called with each document whose chunks must be staged, and with the share of all
            bytes to read that are read then, 0 to 1.
        progress: Called with ("read", files done, files to read).
    """

    loader: DocumentLoader
    recorded: Recorded
    depth: Depth
    take: Callable[[Document, float], None]
    progress: Callable[[str, int, int], None]

    def survey(self, found: Scan) -> Survey:
        """Read what may have changed, once each, and sort it.

        Raises:
            RagstreamError: Whatever ``take`` raises: staging failed.
        """
        result = Survey()
        to_read = self._to_read(found)
        old = self.recorded.files
        result.current = {p: old[p] for p in found.files if p not in to_read}
        total = max(1, sum(found.files[path][0] for path in to_read))
        size = 0
        for done, path in enumerate(sorted(to_read)):
            size += found.files[path][0]
            self._read(path, result, share=size / total)
            self.progress("read", done + 1, len(to_read))
        self._gone(found, result)
        result.diff = diff(old, result.current)
        return result

    def _to_read(self, found: Scan) -> set[str]:
        if self.depth.read_all or self.depth.chunk_all:
            return set(found.files)
        changes = compare(found, self.recorded.signatures, last_started_ns=self.recorded.started_ns)
        unknown = (p for p in found.files if p not in self.recorded.files)
        return {*changes.new, *changes.changed, *changes.racy, *unknown}

    def _read(self, path: str, result: Survey, *, share: float) -> None:
        old = self.recorded.files.get(path)
        anew = self.depth.chunk_all or path in self.depth.chunk
        try:
            document = self.loader.read(path, None if anew else old)
        except (FileChanging, OSError) as error:
            if isinstance(error, FileNotFoundError) and not self.loader.documents.in_place:
                return  # deleted since the scan; elsewhere it may be the disk that went
            reason = error.message if isinstance(error, FileChanging) else _phrase(error)
            self._hold(path, reason, result)
            return
        entry = document.entry
        result.current[path] = entry
        if self.recorded.signatures.get(path) != document.signature:
            result.change.signatures[path] = document.signature
        result.secrets += [(path, place) for place in document.secrets]
        if old is None or anew or not _same_reading(old, entry):
            if entry.decision == "ingested":
                self.take(document, share)
            result.change.opened.append(entry)
            if old is not None:
                result.change.closed.append(path)
        elif (old.mtime_ns, old.reason) != (entry.mtime_ns, entry.reason):
            result.change.touched.append(entry)

    def _hold(self, path: str, reason: str, result: Survey) -> None:
        result.held.append((path, reason))
        result.change.forgotten.append(path)
        old = self.recorded.files.get(path)
        result.current[path] = old or FileEntry(path, "", 0, 0, file_type(path), "skipped", reason)

    def _gone(self, found: Scan, result: Survey) -> None:
        for path in sorted({*self.recorded.files, *self.recorded.signatures}):
            if path in result.current:
                continue
            if path not in found.files and under_unreadable(path, found.unreadable):
                if path in self.recorded.files:
                    result.current[path] = self.recorded.files[path]
                continue
            result.change.forgotten.append(path)
            if path in self.recorded.files:
                result.change.closed.append(path)


def _same_reading(old: FileEntry, entry: FileEntry) -> bool:
    """Say whether two versions hold the same bytes and were read the same way."""
    same_way = reading_remark(old.reason) == reading_remark(entry.reason) and old.type == entry.type
    return same_content(old, entry) and same_way and is_current(old.reason, old.type)


def _phrase(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"
