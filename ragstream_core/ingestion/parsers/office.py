"""Word, PowerPoint, Excel and HTML as Markdown, each through the reader of its type.

Runs in the child process only. A broken file is refused, never tried as something else, and no type
is guessed.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable

from markitdown import StreamInfo
from markitdown.converters import PptxConverter

from ragstream_core.ingestion.parsers.engines import Limits, Refusal
from ragstream_core.ingestion.parsers.slides import mended_slides
from ragstream_core.ingestion.parsers.spreadsheet import spreadsheet_markdown
from ragstream_core.ingestion.parsers.web_page import page_markdown
from ragstream_core.ingestion.parsers.word import word_markdown

_SLIDE = re.compile(r"<!-- Slide number: (\d+) -->")
_BLANK_LINES = re.compile(r"\n{3,}")
_UNPACKED = 10  # times the text limit: XML is wordy


def read_office(data: bytes, file_type: str, limits: Limits) -> tuple[list[tuple[int, str]], str]:
    """Return the Markdown of a file: a page a slide, else one page numbered 0, and a note.

    Args:
        data: The whole file.
        file_type: ``docx``, ``pptx``, ``xlsx``, ``html`` or ``htm``.
        limits: Its text limit also bounds what a packed file may unpack to.

    Raises:
        Refusal: Broken, encrypted, packed too tightly, or without text.
        MemoryError: It needs more than the process may have.
    """
    if not file_type.startswith("htm"):
        _check_package(data, limits.text_bytes * _UNPACKED)
    text, left_out = _READERS[file_type](data, limits.text_bytes)
    lines = "\n".join(line.rstrip() for line in re.split(r"\r?\n", text))
    text = _BLANK_LINES.sub("\n\n", lines)
    parts = _SLIDE.split(text) if file_type == "pptx" else [text]
    pages = [(0, parts[0])]
    pages += [(int(n), body) for n, body in zip(parts[1::2], parts[2::2], strict=True)]
    found = [(number, body) for number, body in pages if body.strip()]
    if not found:
        raise Refusal("holds no text")
    note = f"{len(found)} slides" if file_type == "pptx" else "converted to Markdown"
    return found, f"{note}; {left_out}" if left_out else note


def _check_package(data: bytes, limit: int) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            size = sum(item.file_size for item in package.infolist())
    except (zipfile.BadZipFile, ValueError, OSError):
        raise Refusal("not a readable Office file (broken or encrypted)") from None
    if size > limit:
        raise Refusal(f"unpacks to {size} bytes, more than the limit of {limit}")


def _slides(data: bytes, limit: int) -> tuple[str, str]:
    made = PptxConverter().convert(io.BytesIO(mended_slides(data)), StreamInfo(extension=".pptx"))
    return str(made.markdown), ""


def _page(data: bytes, limit: int) -> tuple[str, str]:
    return page_markdown(data, limit), ""


_READERS: dict[str, Callable[[bytes, int], tuple[str, str]]] = {
    "docx": word_markdown, "pptx": _slides, "xlsx": spreadsheet_markdown,
    "html": _page, "htm": _page,
}  # fmt: skip
