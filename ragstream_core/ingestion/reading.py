"""The bytes of one file into the pages of one document, by type, with secrets looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ragstream_core.ingestion.decoding import decode
from ragstream_core.ingestion.file_types import kind_of
from ragstream_core.ingestion.parsers import engines
from ragstream_core.ingestion.parsers.limited import parse
from ragstream_core.ingestion.parsers.port import DEFAULT_LIMITS, PAGE_BREAK, Limits, Parsed
from ragstream_core.ingestion.secrets import describe, find_secrets, phrase, redact

MAX_TEXT_BYTES = 20_000_000
MAX_PARSED_BYTES = 100_000_000

SecretsMode = Literal["warn", "skip", "redact", "off"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read.

    Attributes:
        max_text_bytes: Larger text and code files are refused before they are read.
        max_parsed_bytes: Likewise PDF and Office files.
        fallback_encoding: Encoding of what is neither marked nor UTF-8; empty: skip it.
        secrets: ``warn``: name the place; ``skip`` the file; ``redact`` the secret; ``off``.
        limits: What the parsing of one PDF or Office file may cost.
    """

    max_text_bytes: int = MAX_TEXT_BYTES
    max_parsed_bytes: int = MAX_PARSED_BYTES
    fallback_encoding: str = ""
    secrets: SecretsMode = "warn"
    limits: Limits = DEFAULT_LIMITS

    def max_bytes(self, file_type: str) -> int:
        """Return the largest size of a file of a type."""
        parsed = kind_of(file_type) in ("pdf", "office")
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
    if kind_of(file_type) in ("pdf", "office"):
        return parse(data, file_type=file_type, limits=reading.limits)
    text, note = decode(data, fallback=reading.fallback_encoding)
    return Parsed(None if text is None else ((0, text),), note)


def _without_secrets(
    pages: tuple[tuple[int, str], ...], *, redacting: bool
) -> tuple[tuple[tuple[int, str], ...], list[str]]:
    kept, described = [], list[str]()
    for number, text in pages:
        findings = find_secrets(text)
        described += describe(findings, page=number)
        kept.append((number, redact(text, findings) if redacting and findings else text))
    return tuple(kept), described
