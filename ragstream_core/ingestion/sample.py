"""How much text the files of a type hold, from a look into a few of them; stdlib only.

The files are those that hold certain bytes of all bytes of a type, evenly apart: the mean of what
they hold a byte is that of the type, however uneven they are. What a look costs is bounded in files
and in bytes: about 0.2 s of CPU for any folder.
"""

from __future__ import annotations

import codecs
import os
from collections import Counter
from collections.abc import Mapping

from ragstream_core.ingestion.document_tree import DocumentTree
from ragstream_core.ingestion.file_types import file_type
from ragstream_core.ingestion.parsers.peek import html_text, pdf_tokens
from ragstream_core.text.tokenizer import about_tokens

FILES, BYTES = 24, 1_200_000
"""Most files of a type, and most bytes of all types together; of PDF below."""

PDF_FILES, PDF_BYTES = 6, 4_000_000
"""Most PDFs, and most bytes of each."""

_HTML = ("html", "htm")
_PACKED = frozenset(  # or hold more pictures than words
    ["docx", "docm", "dotx", "pptx", "xlsx", "mht", "mhtml", "epub", "odt", "odp", "ods", "rtf",
     "eml", "mbox", "ipynb", "parquet", "doc", "xls", "ppt", "msg", "slack"]
)  # fmt: skip


def tokens_per_byte(documents: DocumentTree, sizes: Mapping[str, int]) -> dict[str, float]:
    """Return about how many tokens a byte of each type holds, of the types that a look can tell."""
    of_type: dict[str, dict[str, int]] = {}
    for path in sorted(sizes):
        if sizes[path] and (kind := file_type(path)) not in _PACKED:
            of_type.setdefault(kind, {})[path] = sizes[path]
    each = BYTES // FILES // max(1, len(of_type))
    ratios = {}
    for kind, paths in of_type.items():
        files, limit = (PDF_FILES, PDF_BYTES) if kind == "pdf" else (FILES, each)
        seen = [
            (_tokens(data, kind) / len(data), times)
            for path, times in _picked(paths, files).items()
            if (data := _beginning(documents, path, limit))
        ]
        mean = sum(one * times for one, times in seen) / max(1, sum(times for _, times in seen))
        if mean:
            ratios[kind] = mean
    return ratios


def _picked(sizes: Mapping[str, int], count: int) -> Counter[str]:
    """Return the files that hold each of so many bytes, evenly apart, and how many of them."""
    step = sum(sizes.values()) / count
    picked, at = Counter[str](), 0
    for path, size in sizes.items():
        before, at = round(at / step), at + size
        if times := round(at / step) - before:
            picked[path] = times
    return picked


def _beginning(documents: DocumentTree, path: str, limit: int) -> bytes:
    try:
        with os.fdopen(documents.open(path), "rb") as opened:
            return opened.read(limit)
    except OSError:
        return b""


def _tokens(data: bytes, kind: str) -> int:
    if kind == "pdf":
        return pdf_tokens(data)
    if kind in _HTML:
        return about_tokens(html_text(data))
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return about_tokens(data.decode("utf-16" if utf16 else "utf-8", "replace"))
