"""From the bytes of a file to its text: `DocumentLoader` reads once, hashes, decodes or parses.

How bytes become text is told by `text.decoding` (R-034). Spans refer to the text of a document: the
decoded text as it stands, the pages of a PDF joined by form feeds, or the Markdown an Office file
was converted to; without junk, and with secrets redacted if so set. (R-044)
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from ragstream_core.errors import FileChanging
from ragstream_core.index.rows import FileEntry, Signature
from ragstream_core.ingestion.document_tree import DocumentTree
from ragstream_core.ingestion.file_types import (
    PARSED,
    SLACK,
    WRITTEN,
    decode_name,
    file_type,
    kind_of,
)
from ragstream_core.ingestion.folder_files import signature_of
from ragstream_core.ingestion.junk import BUNDLED, made_by_program, minified, without_junk
from ragstream_core.ingestion.junk import PREFIX as JUNK
from ragstream_core.ingestion.notes import VAULT, as_shown
from ragstream_core.ingestion.parsers import engines
from ragstream_core.ingestion.parsers.engines import (
    DEFAULT_LIMITS,
    PAGE_BREAK,
    Limits,
    Parsed,
    is_current,
)
from ragstream_core.ingestion.parsers.isolated import parse
from ragstream_core.ingestion.parsers.slack import (
    CHATS,
    chats_of,
    framed,
    is_day,
    is_list,
    names_of,
)
from ragstream_core.ingestion.scan import DEFAULT_RULES, ScanRules
from ragstream_core.ingestion.secrets import describe, find_secrets, phrase, redact
from ragstream_core.records.identity import sha256_hex
from ragstream_core.text.code import GRAMMARS
from ragstream_core.text.decoding import ASSUMED, DECLARED, decode
from ragstream_core.text.headings import MARKDOWN_TYPES, PROSE_TYPES

MAX_TEXT_BYTES = 20_000_000
MAX_PARSED_BYTES = 100_000_000

SecretsMode = Literal["warn", "skip", "redact", "off"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read.

    Attributes:
        max_text_bytes: Larger text and code files are refused before they are read.
        max_parsed_bytes: Likewise PDF and Office files.
        fallback_encoding: Encoding of what is neither marked nor UTF-8; empty: the likeliest.
        secrets: ``warn``: name the place; ``skip`` the file; ``redact`` the secret; ``off``.
        limits: What the parsing of one PDF or Office file may cost.
        junk: Read programs that say of themselves that a program made them.
        in_vault: The files are notes of a vault of Obsidian.
    """

    max_text_bytes: int = MAX_TEXT_BYTES
    max_parsed_bytes: int = MAX_PARSED_BYTES
    fallback_encoding: str = ""
    secrets: SecretsMode = "warn"
    limits: Limits = DEFAULT_LIMITS
    junk: bool = False
    in_vault: bool = False

    def max_bytes(self, file_type: str) -> int:
        """Return the largest size of a file of a type."""
        parsed = kind_of(file_type) in PARSED
        return self.max_parsed_bytes if parsed else self.max_text_bytes


DEFAULT_READING = Reading()


class Page(NamedTuple):
    """One page of a document's text: ``text[start:end]``; number 0 where there are no pages."""

    number: int
    start: int
    end: int


class Content(NamedTuple):
    """What a file holds.

    Attributes:
        text: All pages with `PAGE_BREAK` between them; None where the file is skipped.
        pages: Where each page lies in the text.
        syntax: File type whose rules the text follows: converted files are Markdown.
        note: How it was read, or why it is skipped; ends in the tag of its engines.
        secrets: KIND and line of what seems to be a secret.
    """

    text: str | None
    pages: tuple[Page, ...] = ()
    syntax: str = ""
    note: str = ""
    secrets: tuple[str, ...] = ()


def read_content(data: bytes, *, file_type: str, reading: Reading) -> Content:
    """Turn bytes into text.

    Args:
        data: The whole file.
        file_type: Its type, e.g. ``md``.
        reading: Settings.

    Raises:
        OSError: No child process or temporary file can be made.
    """
    parsed = _parsed(data, file_type, reading)
    if parsed.pages is None:
        return Content(None, note=engines.tagged(parsed.note, file_type))
    pages, note, secrets = parsed.pages, parsed.note, list[str]()
    if reading.secrets != "off":
        pages, secrets = _without_secrets(pages, redacting=reading.secrets == "redact")
    if secrets and reading.secrets == "skip":
        reason = engines.tagged(f"may hold secrets: {phrase(secrets)}", file_type)
        return Content(None, note=reason, secrets=tuple(secrets))
    if secrets:
        done = "redacted" if reading.secrets == "redact" else "may hold secrets"
        note = f"{note}; {done}: {phrase(secrets)}"
    places, at = [], 0
    for number, text in pages:
        places.append(Page(number, at, at + len(text)))
        at += len(text) + len(PAGE_BREAK)
    joined = PAGE_BREAK.join(text for _, text in pages)
    syntax = "md" if kind_of(file_type) == "office" else file_type
    return Content(joined, tuple(places), syntax, engines.tagged(note, file_type), tuple(secrets))


def _parsed(data: bytes, file_type: str, reading: Reading) -> Parsed:
    if kind_of(file_type) in PARSED and file_type not in WRITTEN:
        return parse(data, file_type=file_type, limits=reading.limits)
    text, note = decode(data, fallback=reading.fallback_encoding)
    if text is None:
        return Parsed(None, note)
    if file_type in WRITTEN:
        found = parse(text.encode(), file_type=file_type, limits=reading.limits)
        return found if note == "utf-8" else Parsed(found.pages, f"{found.note}; {note}")
    is_program = file_type in GRAMMARS
    reason = made_by_program(text) if is_program else ""
    reason = reason or (minified(text) if file_type in BUNDLED else "")
    if reason and not reading.junk:
        return Parsed(None, reason)
    if file_type in MARKDOWN_TYPES:
        text = as_shown(text, in_vault=reading.in_vault)
    text, told = without_junk(text, long_lines=is_program or file_type in PROSE_TYPES)
    return Parsed(((0, text),), f"{note}; {told}" if told else note)


def _without_secrets(
    pages: tuple[tuple[int, str], ...], *, redacting: bool
) -> tuple[tuple[tuple[int, str], ...], list[str]]:
    kept, described = [], list[str]()
    for number, text in pages:
        findings = find_secrets(text)
        described += describe(findings, page=number)
        kept.append((number, redact(text, findings) if redacting and findings else text))
    return tuple(kept), described


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
        title: What it is called where its name is its title, as that of a note is; else "".
    """

    entry: FileEntry
    signature: Signature
    text: str | None
    pages: tuple[Page, ...] = ()
    syntax: str = ""
    secrets: tuple[str, ...] = ()
    title: str = ""


class DocumentLoader:
    """Reads the documents of one project.

    Args:
        doc_root: The folder of all projects.
        project_name: Name of the project's folder.
        rules: Which files are documents.
        reading: Limits, fallback encoding, what to do about secrets.
        documents: Where they lie, if it is not that folder.
        clock: Now, ns since the epoch.
    """

    def __init__(
        self,
        doc_root: Path,
        project_name: str,
        *,
        rules: ScanRules = DEFAULT_RULES,
        reading: Reading = DEFAULT_READING,
        documents: DocumentTree | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.documents = documents or DocumentTree.of(
            Path(doc_root) / project_name, flat=rules.flat
        )
        self.rules = rules
        self.reading = reading
        self._clock = clock
        self._exports: dict[str, tuple[dict[str, str], dict[str, str]]] = {}

    def load(self) -> Iterator[tuple[str, str, str]]:
        """Yield ``(abs_path, rel_path, text)`` of each eligible file, by path.

        Raises:
            UnknownProject: The project has no folder.
            FileChanging: A file never held still.
            OSError: A file cannot be read.
        """
        for path in sorted(self.documents.scan(self.rules).files):
            document = self.read(path)
            if document.text is not None:
                yield str(self.documents.location(path)), path, document.text

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
            most = self.reading.max_bytes(file_type(path))
            fd, packed = self.documents.opened(path, most)
            try:
                document = self._read_once(path, fd, known, packed=packed)
            finally:
                os.close(fd)
            if document is not None:
                return document
        raise FileChanging(f"{path} kept changing while it was read; its old version stays")

    def _read_once(
        self, path: str, fd: int, known: FileEntry | None, *, packed: Signature | None
    ) -> Document | None:
        opened = os.fstat(fd)
        if not stat.S_ISREG(opened.st_mode):
            raise OSError(f"not a regular file: {path!r}")
        before = packed or signature_of(opened)
        size, mtime = before[0], before[1]
        kind = file_type(path)
        limit = self.reading.max_bytes(kind)
        if size > limit:
            setting = "max_pdf_bytes" if kind_of(kind) in PARSED else "max_text_bytes"
            reason = f"{size} bytes, more than the limit of {limit}; raise discovery.{setting}"
            return Document(FileEntry(path, "", size, mtime, kind, "skipped", reason), before, None)
        data = _pread(fd, size + 1)
        is_fresh = self._clock() - max(before[1], before[2]) < _TICK_NS
        if is_fresh and _pread(fd, size + 1) != data:
            return None
        if len(data) != size or signature_of(os.fstat(fd)) != signature_of(opened):
            return None
        sha256 = sha256_hex(data)
        if kind == SLACK and not is_day(data):
            kind = "json"
        if known is not None and _same(known, sha256):
            entry = FileEntry(path, sha256, size, mtime, kind, known.decision, known.reason)
            return Document(entry, before, None)
        in_vault = kind in MARKDOWN_TYPES and self.documents.lies_beside(path, VAULT)
        reading = replace(self.reading, in_vault=in_vault)
        if kind == SLACK:
            data = self._with_names(data, path)
        if is_list(path.rpartition("/")[2], data):
            found = Content(None, note=f"{JUNK}names in it are read with the days of Slack")
        else:
            found = read_content(data, file_type=kind, reading=reading)
        if found.note.startswith(JUNK) and self.documents.takes_back(path, self.rules):
            found = read_content(data, file_type=kind, reading=replace(reading, junk=True))
        decision = "skipped" if found.text is None else "ingested"
        entry = FileEntry(path, sha256, size, mtime, kind, decision, found.note)
        title = path.rpartition("/")[2].rpartition(".")[0] if in_vault else ""
        return Document(entry, before, found.text, found.pages, found.syntax, found.secrets, title)

    def _with_names(self, data: bytes, path: str) -> bytes:
        """Return a day of a Slack channel with what its place and ``users.json`` tell."""
        folder, _, name = path.rpartition("/")
        export, _, channel = folder.rpartition("/")
        if export not in self._exports:
            people = names_of(self._beside(export, "users.json"))
            chats = dict[str, str]()
            for lists in CHATS:
                chats |= chats_of(self._beside(export, lists), people)
            self._exports[export] = people, chats
        names, chats = self._exports[export]
        channel = decode_name(channel)
        where = chats.get(channel) or f"#{channel}"
        return framed(data, channel=where, day=name.removesuffix(".json"), names=names)

    def _beside(self, export: str, name: str) -> bytes:
        """Return a list of an export; empty if it is not there."""
        try:
            path = f"{export}/{name}".removeprefix("/")
            fd, _ = self.documents.opened(path, self.reading.max_text_bytes)
            with os.fdopen(fd, "rb") as opened:
                return opened.read(self.reading.max_text_bytes)
        except OSError:  # newer exports tell the names of authors in each message
            return b""


def _same(known: FileEntry, sha256: str) -> bool:
    parsed = kind_of(known.type) in PARSED
    if known.type in WRITTEN and (ASSUMED in known.reason or DECLARED in known.reason):
        return False  # another encoding may be declared by now
    return parsed and known.sha256 == sha256 and is_current(known.reason, known.type)


def _pread(fd: int, limit: int) -> bytes:
    parts, at = [], 0
    while at < limit and (part := os.pread(fd, limit - at, at)):
        parts.append(part)
        at += len(part)
        if at == limit - 1:
            break  # all there was when it was measured; the measure is compared again afterwards
    return b"".join(parts)
