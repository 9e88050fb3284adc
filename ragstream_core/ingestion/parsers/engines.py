"""The parsers: which engine reads which type, and what it gives.

Which engines read which types, whether they are installed, and in which version.

A file's manifest row ends in the tag of what read it. A tag that is no longer the present one
makes the next ingest read that file again, and no other.

What a parser gives, and what a parser may use; stdlib only.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ragstream_core.ingestion.file_types import kind_of
from ragstream_core.platform import extras
from ragstream_core.text.code import BY_LINES, GRAMMARS
from ragstream_core.text.decoding import decode

Item = TypeVar("Item")

# Stands between two pages in a document's text; no page holds one.
PAGE_BREAK = "\f"


class Parsed(NamedTuple):
    """The text of a file.

    Attributes:
        pages: (page number, text); number 0 where the type has no pages. None: refused.
        note: How it was read, or why it was refused; one phrase.
    """

    pages: tuple[tuple[int, str], ...] | None
    note: str

    @classmethod
    def of(cls, answer: bytes) -> Parsed:
        """Return what a child process answered in JSON."""
        given = json.loads(answer)
        if given["pages"] is None:
            return cls(None, str(given["note"]))
        pages = tuple((int(number), str(text)) for number, text in given["pages"])
        return cls(pages, str(given["note"]))


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may cost.

    Attributes:
        memory_bytes: Address space of the child process, beyond that of the engines.
        cpu_s: CPU seconds, not those of the import of the engines.
        wall_s: Seconds until it is killed.
        pages: More pages are refused.
        text_bytes: More text (UTF-8) is refused.
    """

    memory_bytes: int = 1_000_000_000
    cpu_s: int = 60
    wall_s: int = 180
    pages: int = 2_000
    text_bytes: int = 50_000_000


DEFAULT_LIMITS = Limits()


class Refusal(Exception):
    """Raised inside a parser: the file cannot be taken; the message is the reason."""


def decoded(data: bytes) -> str:
    """Return the text of a file that is one; else refuse it."""
    text, note = decode(data)
    if text is None:
        raise Refusal(note)
    return text


def listed(numbers: Sequence[int], most: int) -> str:
    """Return the first of some numbers for a note."""
    return ", ".join(map(str, numbers[:most])) + (" …" if len(numbers) > most else "")


def too_long(limit: int) -> Refusal:
    """Return the refusal of a file with more than so many bytes of text."""
    return Refusal(f"holds more than {limit} bytes of text; {SPLIT}")


# What helps where a file is larger than a limit that no setting raises.
SPLIT = "split it into smaller files"


# Version of our own reading rules by kind of file; raised when one changes what is read.
RULES = {"pdf": "pdf-5", "office": "office-7", "code": "code-2", "picture": "ocr-1"}

EXTRAS = {"pdf": "pdf", "office": "convert", "code": "code", "picture": "ocr"}
_NEEDED = {
    "pdf": ("pypdfium2",),
    "office": ("markitdown", "mammoth", "openpyxl"),
    "picture": ("rapidocr",),
}

# How the refusal of a PDF begins all of whose pages are pictures, or empty.
NO_TEXT_LAYER = "no text layer on any of its"
# What a note of a PDF says that OCR read, or could read.
_SCAN = re.compile(rf"{NO_TEXT_LAYER}|ha(?:s|ve) no text|read by OCR")
# Office types that are read with what is always installed.
_NEEDS_NOTHING = frozenset(
    ("csv", "tsv", "ics", "vcf", "ipynb", "jsonl", "ndjson", "srt", "vtt", "parquet", "rtf")
) | {"slack"}
# What the types of old programs need besides, from the extra `more`.
_MORE = {"doc": ("olefile",), "ppt": ("olefile",), "xls": ("xlrd",), "msg": ("olefile",)}
_TAG = re.compile(r" \[([^\[\]]*-\d+)\]$")
_SHOWN = 10  # stretches of pages that are named
_DIST = re.compile(r"([A-Za-z0-9_]+)-([^-]+)\.dist-info$")


@functools.cache
def _installed() -> dict[str, str]:
    """Return the version of each installed package of interest; reads folder names, no file."""
    wanted = {name for names in (*_NEEDED.values(), *_MORE.values()) for name in names}
    wanted |= {module for module, _ in GRAMMARS.values()}
    found: dict[str, str] = {}
    for folder in reversed(sys.path):
        try:
            with os.scandir(folder or ".") as entries:
                matches = [_DIST.match(entry.name) for entry in entries]
        except OSError:
            continue
        found |= {m[1]: m[2] for m in matches if m is not None and m[1] in wanted}
    return found


def missing_extra(file_type: str) -> str:
    """Return the extra whose packages a type needs and that is not installed, or ""."""
    lacking = [name for name in _needed(file_type) if name not in _installed()]
    if not lacking:
        return ""
    return "more" if lacking[0] in _MORE.get(file_type, ()) else EXTRAS[kind_of(file_type)]


def _needed(file_type: str) -> tuple[str, ...]:
    kind = () if file_type in _NEEDS_NOTHING else _NEEDED.get(kind_of(file_type), ())
    return *_MORE.get(file_type, ()), *kind


def missing(file_type: str) -> str:
    """Return what has to be installed to read a type, as one phrase; empty if nothing."""
    extra = missing_extra(file_type)
    return f"needs the extra '{extra}': {extras.install(extra).line}" if extra else ""


def tag(file_type: str, note: str = "") -> str:
    """Return what stands for the reading of a type: engines with versions; empty for text."""
    kind = kind_of(file_type)
    if kind == "text":
        return ""
    names: Iterable[str] = _needed(file_type)
    if kind == "pdf" and _SCAN.search(note):
        names = (*names, *_NEEDED["picture"])
    if kind == "code" and file_type in GRAMMARS:
        names = (GRAMMARS[file_type][0],)
    versions = [f"{name}-{_installed().get(name, 'none')}" for name in names]
    return " ".join([*versions, RULES[kind]])


def tagged(note: str, file_type: str) -> str:
    """Return a manifest note that ends in the present tag of a type."""
    present = tag(file_type, note)
    return f"{note} [{present}]" if present else note


def untagged(note: str) -> str:
    """Return a manifest note as people read it: without the tag."""
    return _TAG.sub("", note)


def pages_phrase(pages: Sequence[int], count: int) -> str:
    """Return which pages of a file have no text, as its note says it."""
    stretches = _stretches(pages)
    more = sum(map(len, stretches[_SHOWN:]))
    named = _named(stretches[:_SHOWN]) + (f" and {more} more" if more else "")
    have = "has" if len(pages) == 1 else "have"
    return f"page{'s' * (len(pages) > 1)} {named} of {count} {have} no text"


def ocr_phrase(pages: Sequence[int], count: int) -> str:
    """Return which pages of a file were read by OCR, as its note says it: all of them are named."""
    if not pages:
        return "read by OCR"
    were = "was" if len(pages) == 1 else "were"
    return f"page{'s' * (len(pages) > 1)} {_named(_stretches(pages))} of {count} {were} read by OCR"


def _named(stretches: Iterable[Sequence[int]]) -> str:
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in stretches)


def _stretches(pages: Sequence[int]) -> list[list[int]]:
    return runs(pages, lambda one, other: other != one + 1)


def runs(items: Iterable[Item], are_apart: Callable[[Item, Item], bool]) -> list[list[Item]]:
    """Return items in runs; one ends where two neighbours are apart."""
    found = list[list[Item]]()
    for item in items:
        if not found or are_apart(found[-1][-1], item):
            found.append([])
        found[-1].append(item)
    return found


def is_current(note: str, file_type: str) -> bool:
    """Say whether a manifest note was made by the present engines of a type."""
    match = _TAG.search(note)
    present = tag(file_type, note)
    return not present or (match is not None and match[1] == present)


def all_tags() -> list[str]:
    """Return the tags of every type that has one, sorted: part of what makes an ingest due."""
    return sorted(
        {tag(name) for name in ("pdf", "png", "docx", "ipynb", *_MORE, *GRAMMARS, *BY_LINES)}
    )
