"""`DocumentLoader`: reads each file once, hashes and decodes the bytes it read (R-044).

Spans refer to the text of a document: the decoded text as it stands, the pages of a PDF joined by
form feeds, or the Markdown an Office file was converted to; with secrets redacted if so set.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ragstream_core.errors import FileChanging
from ragstream_core.ingestion.file_types import file_type, kind_of
from ragstream_core.ingestion.manifest import FileEntry
from ragstream_core.ingestion.names import decode_name
from ragstream_core.ingestion.parsers.engines import is_current
from ragstream_core.ingestion.reading import DEFAULT_READING, Page, Reading, read_content
from ragstream_core.ingestion.scan import DEFAULT_RULES, ScanRules, Signature, scan, signature_of
from ragstream_core.records.identity import sha256_hex

READ_ATTEMPTS = 3
_TICK_NS = 50_000_000  # several file-system clock ticks: a write within one leaves the same mtime


@dataclass(frozen=True, slots=True)
class Document:
    """One version of a file: the row it makes in the manifest, its signature and its text.

    Attributes:
        entry: Hash, size and decision, all of the same bytes as ``text``.
        signature: Stat signature around the read.
        text: The text; None where the file is skipped, or known to be unchanged.
        pages: Where each page lies in the text; one page 0 where the type has none.
        syntax: File type whose rules the text follows, e.g. ``md`` for a converted file.
        secrets: KIND and line of what seems to be a secret; never the secret.
    """

    entry: FileEntry
    signature: Signature
    text: str | None
    pages: tuple[Page, ...] = ()
    syntax: str = ""
    secrets: tuple[str, ...] = ()


class DocumentLoader:
    """Reads the documents of one project.

    Args:
        doc_root: The folder of all projects.
        project_name: Name of the project's folder.
        rules: Which files are documents.
        reading: Limits, fallback encoding, what to do about secrets.
        clock: Now, ns since the epoch.
    """

    def __init__(
        self,
        doc_root: Path,
        project_name: str,
        *,
        rules: ScanRules = DEFAULT_RULES,
        reading: Reading = DEFAULT_READING,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.folder = Path(doc_root) / project_name
        self.rules = rules
        self.reading = reading
        self._clock = clock

    def load(self) -> Iterator[tuple[str, str, str]]:
        """Yield ``(abs_path, rel_path, text)`` of each eligible file, by path.

        Raises:
            UnknownProject: The project has no folder.
            FileChanging: A file never held still.
            OSError: A file cannot be read.
        """
        for path in sorted(scan(self.folder, self.rules).files):
            document = self.read(path)
            if document.text is not None:
                yield str(self.folder / decode_name(path)), path, document.text

    def read(self, path: str, known: FileEntry | None = None) -> Document:
        """Read one file; its hash, size and text come from the same bytes.

        Args:
            path: POSIX path relative to the project, as `scan` names it.
            known: Its row; with equal bytes and engines a PDF or Office file is not parsed again.

        Raises:
            FileChanging: The file changed during each of three attempts.
            OSError: It is gone, a link, or cannot be read.
        """
        for _ in range(READ_ATTEMPTS):
            fd = open_beneath(self.folder, decode_name(path))
            try:
                document = self._read_once(path, fd, known)
            finally:
                os.close(fd)
            if document is not None:
                return document
        raise FileChanging(f"{path} kept changing while it was read; its old version stays")

    def _read_once(self, path: str, fd: int, known: FileEntry | None) -> Document | None:
        opened = os.fstat(fd)
        if not stat.S_ISREG(opened.st_mode):
            raise OSError(f"not a regular file: {path!r}")
        before = signature_of(opened)
        size, mtime = before[0], before[1]
        kind = file_type(path)
        limit = self.reading.max_bytes(kind)
        if size > limit:
            reason = f"{size} bytes, more than the limit of {limit}"
            return Document(FileEntry(path, "", size, mtime, kind, "skipped", reason), before, None)
        data = _pread(fd, size + 1)
        if self._clock() - max(before[1], before[2]) < _TICK_NS and _pread(fd, size + 1) != data:
            return None
        if len(data) != size or signature_of(os.fstat(fd)) != before:
            return None
        sha256 = sha256_hex(data)
        if known is not None and _same(known, sha256):
            entry = FileEntry(path, sha256, size, mtime, kind, known.decision, known.reason)
            return Document(entry, before, None)
        found = read_content(data, file_type=kind, reading=self.reading)
        decision = "skipped" if found.text is None else "ingested"
        entry = FileEntry(path, sha256, size, mtime, kind, decision, found.note)
        return Document(entry, before, found.text, found.pages, found.syntax, found.secrets)


def _same(known: FileEntry, sha256: str) -> bool:
    parsed = kind_of(known.type) in ("pdf", "office")
    return parsed and known.sha256 == sha256 and is_current(known.reason, known.type)


def _pread(fd: int, limit: int) -> bytes:
    parts, at = [], 0
    while at < limit and (part := os.pread(fd, limit - at, at)):
        parts.append(part)
        at += len(part)
        if at == limit - 1:
            break  # all there was when it was measured; the measure is compared again afterwards
    return b"".join(parts)


def open_beneath(root: Path, path: str) -> int:
    """Open a regular file below ``root`` for reading; no component below it may be a link.

    Returns:
        A descriptor the caller closes.

    Raises:
        OSError: A component is a link, is missing or leads upwards.
    """
    *folders, name = path.split("/")
    if "" in folders or ".." in (*folders, name) or not name:
        raise OSError(f"not a path below the project: {path!r}")
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        # O_NONBLOCK: a pipe put in the file's place must not block the ingest
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)
