"""Files that become Markdown, each through the reader of its type.

Runs in the child process only. A broken file is refused, never tried as something else, and no type
is guessed. A format is one row of `_READERS` and one module, which is imported when it is needed.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import zipfile
from collections.abc import Iterable
from typing import Any

from ragstream_core.ingestion.junk import without_junk
from ragstream_core.ingestion.parsers.engines import SPLIT, Limits, Refusal
from ragstream_core.text.blocks import fence_behind

_SLIDE = re.compile(r"<!-- Slide number: (\d+) -->")
_UNPACKED = 10  # times the text limit: XML is wordy
_WORD = ("docx", "docm", "dotx", "dotm")
_POWERPOINT = ("pptx", "pptm", "ppsx", "ppsm", "potx", "potm")
_EXCEL = ("xlsx", "xlsm", "xltx", "xltm")

# Module and function that read a type; it takes the file and the most bytes of text, and returns
# Markdown and what is to be noted.
_READERS = {
    **dict.fromkeys(_WORD, "word.word_markdown"),
    **dict.fromkeys(_POWERPOINT, "slides.slides_markdown"),
    **dict.fromkeys(_EXCEL, "spreadsheet.spreadsheet_markdown"),
    **dict.fromkeys(("html", "htm", "xhtml"), "web_page.read_page"),
    **dict.fromkeys(("mhtml", "mht"), "web_archive.archived_page"),
    "epub": "epub.book_markdown",
    **dict.fromkeys(("odt", "ott", "odp", "otp"), "open_document.text_markdown"),
    **dict.fromkeys(("ods", "ots"), "open_document.sheets_markdown"),
    **dict.fromkeys(("csv", "tsv"), "delimited.delimited_markdown"),
    "rtf": "rtf.rtf_markdown",
    "eml": "mail.mail_markdown",
    "mbox": "mail.mailbox_markdown",
    **dict.fromkeys(("ics", "vcf"), "cards.cards_markdown"),
    "ipynb": "notebook.notebook_markdown",
    **dict.fromkeys(("srt", "vtt"), "subtitles.subtitles_markdown"),
    **dict.fromkeys(("jsonl", "ndjson"), "json_lines.records_markdown"),
    "parquet": "parquet.parquet_markdown",
    "slack": "slack.day_markdown",
    "doc": "old_word.word_markdown",
    "xls": "old_sheets.spreadsheet_markdown",
    "ppt": "old_slides.slides_markdown",
    "msg": "outlook.outlook_markdown",
}

# What the ZIP packages among them are called.
_PACKAGES = {
    **dict.fromkeys((*_WORD, *_POWERPOINT, *_EXCEL), "Office"),
    **dict.fromkeys(("odt", "ott", "odp", "otp", "ods", "ots"), "OpenDocument"),
    "epub": "EPUB",
}
_SLIDES = frozenset({*_POWERPOINT, "odp", "otp", "ppt"})
_NEWER = {"doc": "docx", "xls": "xlsx", "ppt": "pptx"}
_OLD = {**dict.fromkeys(_NEWER, "Office"), "msg": "Outlook"}
_OLD_BEGINS = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def import_readers() -> None:
    """Import what reads any type; what is not installed is found when a file is read."""
    for reader in _READERS.values():
        with contextlib.suppress(ImportError):
            _imported(reader)


def read_office(data: bytes, file_type: str, limits: Limits) -> tuple[list[tuple[int, str]], str]:
    """Return the Markdown of a file: a page a slide, else one page numbered 0, and a note."""
    if file_type in _OLD and not data.startswith(_OLD_BEGINS):
        file_type = _real_type(data, file_type)
    if file_type in _PACKAGES:
        _check_package(data, _PACKAGES[file_type], limits.text_bytes * _UNPACKED)
    text, noted = _imported(_READERS[file_type])(data, limits.text_bytes)
    text = _without_runs(line.rstrip() for line in re.split(r"\r?\n", text))
    text, left_out = without_junk(text, long_lines=False)
    parts = _SLIDE.split(text) if file_type in _SLIDES else [text]
    pages = [(0, parts[0])]
    pages += [(int(n), body) for n, body in zip(parts[1::2], parts[2::2], strict=True)]
    found = [(number, body) for number, body in pages if body.strip()]
    if not found:
        raise Refusal("holds no text")
    note = f"{len(found)} slides" if file_type in _SLIDES else "converted to Markdown"
    return found, "; ".join(filter(None, [note, noted, left_out]))


def _without_runs(lines: Iterable[str]) -> str:
    """Return lines in which two blank ones follow each other in fenced blocks only."""
    kept, fence = list[str](), ""
    for line in lines:
        fence = fence_behind(line, fence) if "`" in line or "~" in line else fence
        if line or fence or not kept or kept[-1]:
            kept.append(line)
    return "\n".join(kept)


def _imported(reader: str) -> Any:
    module, _, name = reader.partition(".")
    return getattr(importlib.import_module(f"{__package__}.{module}"), name)


def _real_type(data: bytes, file_type: str) -> str:
    """Return the type of a file that is named like one of an old program and is none."""
    begin = data[:1000].lstrip().lower()
    if begin.startswith(b"pk\3\4") and file_type in _NEWER:
        return _NEWER[file_type]
    if begin.startswith(b"{\\rtf"):
        return "rtf"
    if begin.startswith(b"<") and (b"<html" in begin or b"<table" in begin):
        return "html"
    if begin.startswith(b"mime-version:"):
        return "mht"
    raise Refusal(f"not a readable {_OLD[file_type]} file (broken, or of another kind)")


def _check_package(data: bytes, name: str, limit: int) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            size = sum(item.file_size for item in package.infolist())
    except (zipfile.BadZipFile, ValueError, OSError):
        raise Refusal(f"not a readable {name} file (broken or encrypted)") from None
    if size > limit:
        raise Refusal(f"unpacks to {size} bytes, more than the limit of {limit}; {SPLIT}")
