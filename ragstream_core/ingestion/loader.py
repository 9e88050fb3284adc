"""`DocumentLoader`: reads each file once, hashes and decodes the bytes it read (R-044).

A byte order mark decides the encoding, else it is strict UTF-8, else the file is skipped with the
reason. The text is decoded, never changed: spans refer to it as it stands.
"""

from __future__ import annotations

import codecs
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ragstream_core.errors import FileChanging
from ragstream_core.ingestion.manifest import FileEntry
from ragstream_core.ingestion.names import decode_name
from ragstream_core.ingestion.scan import (
    DEFAULT_RULES,
    ScanRules,
    Signature,
    file_type,
    scan,
    signature_of,
)
from ragstream_core.records.identity import sha256_hex

MAX_TEXT_BYTES = 20_000_000
READ_ATTEMPTS = 3
_TICK_NS = 50_000_000  # several file-system clock ticks: a write within one leaves the same mtime
_CONTROLS = bytes(c for c in [*range(32), 127] if c not in b"\t\n\v\f\r\x1b")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class Document:
    """One version of a file: the row it makes in the manifest, its signature and its text.

    Attributes:
        entry: Hash, size and decision, all of the same bytes as ``text``.
        signature: Stat signature around the read.
        text: The decoded text; None where the file is skipped.
    """

    entry: FileEntry
    signature: Signature
    text: str | None


def decode(data: bytes) -> tuple[str | None, str]:
    """Decode the bytes of a text file.

    Returns:
        The text and the encoding's name, or None and the reason why it is no text.
    """
    mark, encoding = next(((m, e) for m, e in _BOMS if data.startswith(m)), (b"", "utf-8"))
    if not mark and b"\0" in data:
        return None, "binary: holds NUL"
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        return None, f"not {encoding}: undecodable byte at offset {error.start + len(mark)}"
    plain = data if encoding == "utf-8" else text.encode("utf-8")
    if b"\0" in plain:
        return None, "binary: holds NUL"
    if len(plain) - len(plain.translate(None, _CONTROLS)) > len(plain) * 0.10:
        return None, "binary: more than 10 % control characters"
    return text, encoding


class DocumentLoader:
    """Reads the documents of one project.

    Args:
        doc_root: The folder of all projects.
        project_name: Name of the project's folder.
        rules: Which files are documents.
        max_text_bytes: Larger files are refused before they are read.
        clock: Now, ns since the epoch.
    """

    def __init__(
        self,
        doc_root: Path,
        project_name: str,
        *,
        rules: ScanRules = DEFAULT_RULES,
        max_text_bytes: int = MAX_TEXT_BYTES,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.folder = Path(doc_root) / project_name
        self.rules = rules
        self.max_text_bytes = max_text_bytes
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

    def read(self, path: str) -> Document:
        """Read one file; its hash, size and text come from the same bytes.

        Args:
            path: POSIX path relative to the project, as `scan` names it.

        Raises:
            FileChanging: The file changed during each of three attempts.
            OSError: It is gone, a link, or cannot be read.
        """
        for _ in range(READ_ATTEMPTS):
            fd = open_beneath(self.folder, decode_name(path))
            try:
                document = self._read_once(path, fd)
            finally:
                os.close(fd)
            if document is not None:
                return document
        raise FileChanging(f"{path} kept changing while it was read; its old version stays")

    def _read_once(self, path: str, fd: int) -> Document | None:
        opened = os.fstat(fd)
        if not stat.S_ISREG(opened.st_mode):
            raise OSError(f"not a regular file: {path!r}")
        before = signature_of(opened)
        size, mtime = before[0], before[1]
        if size > self.max_text_bytes:
            reason = f"{size} bytes, more than the limit of {self.max_text_bytes}"
            entry = FileEntry(path, "", size, mtime, file_type(path), "skipped", reason)
            return Document(entry, before, None)
        data = _pread(fd, size + 1)
        if self._clock() - max(before[1], before[2]) < _TICK_NS and _pread(fd, size + 1) != data:
            return None
        if len(data) != size or signature_of(os.fstat(fd)) != before:
            return None
        text, note = decode(data)
        decision = "skipped" if text is None else "ingested"
        entry = FileEntry(path, sha256_hex(data), size, mtime, file_type(path), decision, note)
        return Document(entry, before, text)


def _pread(fd: int, limit: int) -> bytes:
    parts, at = [], 0
    while at < limit and (part := os.pread(fd, limit - at, at)):
        parts.append(part)
        at += len(part)
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
