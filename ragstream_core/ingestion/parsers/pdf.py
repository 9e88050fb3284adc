"""PDF: text page by page, with tables as tab-separated lines after the text of their page.

Runs in the child process only. pdfplumber finds tables; a very large file is read by pypdfium2,
which is many times faster and knows none. There is no OCR: scanned pages have no text.
"""

from __future__ import annotations

from typing import Any

from ragstream_core.ingestion.parsers.port import Limits, Refusal

TABLE_PAGES = 150
"""A PDF with more pages is read without tables."""

TABLE_BYTES = 20_000_000
"""So is a larger one."""


def read_pdf(data: bytes, file_type: str, limits: Limits) -> tuple[list[tuple[int, str]], str]:
    """Return (page number from 1, text) of each page that has text, and a note.

    Args:
        data: The whole file.
        file_type: ``pdf``.
        limits: Its page limit is checked before a page is read.

    Raises:
        Refusal: Broken, encrypted, too many pages, or no text layer.
        MemoryError: It needs more than the process may have.
    """
    count = _page_count(data, limits)
    tables = 0
    if count > TABLE_PAGES or len(data) > TABLE_BYTES:
        pages, how = _plain(data), "; large, so read without tables"
    else:
        try:
            pages, tables = _with_tables(data, limits)
            how = f", {tables} tables" if tables else ""
        except (MemoryError, RecursionError, Refusal):
            raise
        except Exception as error:  # pdfminer raises anything on files that pdfium can read
            pages, how = _plain(data), f"; read without tables ({type(error).__name__})"
    found = [(number, text) for number, text in pages if text.strip()]
    if not found:
        raise Refusal(f"no text layer on any of its {count} pages (there is no OCR)")
    return found, f"{count} pages{how}"


def _page_count(data: bytes, limits: Limits) -> int:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        what = "encrypted" if "password" in str(error).lower() else "not a readable PDF"
        raise Refusal(what) from None
    count = len(document)
    document.close()
    if count > limits.pages:
        raise Refusal(f"{count} pages, more than the limit of {limits.pages}")
    if count == 0:
        raise Refusal("has no pages")
    return count


def _plain(data: bytes) -> list[tuple[int, str]]:
    import pypdfium2

    pages = []
    document = pypdfium2.PdfDocument(data)
    for number in range(len(document)):
        page = document[number]
        text = page.get_textpage()
        pages.append((number + 1, text.get_text_range(errors="replace")))
        text.close()
        page.close()
    return pages


def _with_tables(data: bytes, limits: Limits) -> tuple[list[tuple[int, str]], int]:
    import io

    import pdfplumber

    pages, tables, size = [], 0, 0
    with pdfplumber.open(io.BytesIO(data)) as document:
        for page in document.pages:
            found = [lines for table in page.extract_tables() if (lines := _lines(table))]
            text = "\n\n".join([page.extract_text() or "", *found])
            pages.append((page.page_number, text))
            tables += len(found)
            size += len(text)
            page.close()
            if size > limits.text_bytes:
                raise Refusal(f"holds more than {limits.text_bytes} bytes of text")
    return pages, tables


def _lines(table: list[list[Any]]) -> str:
    """Return a table as lines of cells with a tab between; empty where it has no second cell."""
    rows = [[" ".join(str(cell or "").split()) for cell in row] for row in table]
    if not any(len(row) > 1 for row in rows):
        return ""  # a frame around text is no table
    return "\n".join("\t".join(row) for row in rows if any(row))
