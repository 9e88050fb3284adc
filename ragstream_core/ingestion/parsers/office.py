"""Word, PowerPoint, Excel and HTML as Markdown, through MarkItDown's converters.

Runs in the child process only. Exactly the converter of the type is used: a broken file is refused,
never tried as something else, and no type is guessed.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

from ragstream_core.ingestion.parsers.engines import Limits, Refusal

_CONVERTERS = {
    "docx": "DocxConverter", "pptx": "PptxConverter", "xlsx": "XlsxConverter",
    "html": "HtmlConverter", "htm": "HtmlConverter",
}  # fmt: skip
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
    text = _converted(data, file_type)
    parts = _SLIDE.split(text) if file_type == "pptx" else [text]
    pages = [(0, parts[0])]
    pages += [(int(n), body) for n, body in zip(parts[1::2], parts[2::2], strict=True)]
    found = [(number, body) for number, body in pages if body.strip()]
    if not found:
        raise Refusal("holds no text")
    return found, f"{len(found)} slides" if file_type == "pptx" else "converted to Markdown"


def _check_package(data: bytes, limit: int) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            size = sum(item.file_size for item in package.infolist())
    except (zipfile.BadZipFile, ValueError, OSError):
        raise Refusal("not a readable Office file (broken or encrypted)") from None
    if size > limit:
        raise Refusal(f"unpacks to {size} bytes, more than the limit of {limit}")


def _converted(data: bytes, file_type: str) -> str:
    from markitdown import StreamInfo, converters

    info = StreamInfo(extension=f".{file_type}", charset=_charset(data, file_type))
    converter: Any = getattr(converters, _CONVERTERS[file_type])()
    made = str(converter.convert(io.BytesIO(data), info).markdown)
    lines = "\n".join(line.rstrip() for line in re.split(r"\r?\n", made))
    return _BLANK_LINES.sub("\n\n", lines)


def _charset(data: bytes, file_type: str) -> str | None:
    """Return the encoding of a page where UTF-8 must not be tried first.

    Otherwise Beautiful Soup tries UTF-8, a byte order mark, what the page says, and a guess.
    ISO-2022 alone looks like UTF-8, because it holds ASCII only: there what the page says counts.
    """
    if not file_type.startswith("htm") or b"\x1b" not in data:
        return None
    from bs4.dammit import EncodingDetector

    return EncodingDetector.find_declared_encoding(data, is_html=True)
