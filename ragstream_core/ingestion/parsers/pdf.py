"""PDF: text page by page, with tables as tab-separated lines after the text of their page.

Runs in the child process only. pypdfium2 reads the text: it keeps the spaces between words, which
pdfplumber loses in tight print, and marks the words that were broken. pdfplumber looks for tables,
on the pages where ruling lines could bound two columns. There is no OCR: scans have no text.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ragstream_core.ingestion.parsers.engines import Limits, Refusal, pages_phrase
from ragstream_core.ingestion.parsers.pdf_form import fields_of, with_fields
from ragstream_core.ingestion.parsers.pdf_layout import page_text
from ragstream_core.ingestion.parsers.pdf_page import pieces_of
from ragstream_core.ingestion.parsers.pdf_running import (
    EDGE_LINES,
    PrintedPage,
    without_running_lines,
)
from ragstream_core.ingestion.parsers.pdf_words import join_broken_words

READING_SHARE = 0.6
"""Share of a file's time, CPU or wall, after which no further page and no table is read."""

TABLE_BYTES = 20_000_000
"""In a larger file no table is looked for: pdfplumber holds several copies."""

_OBJECTS = 20_000  # on a page with more of them, which of them are lines is not asked first
_THIN = 3.0  # points: a flatter path is one line
_SEGMENTS = 5  # a path with more than a rectangle has may be a whole grid
_GRID = {"text_x_tolerance_ratio": 0.15}  # a fixed tolerance joins the words of tight print


def read_pdf(data: bytes, file_type: str, limits: Limits) -> tuple[list[tuple[int, str]], str]:
    """Return (page number from 1, text) of each page that has text, and a note.

    Args:
        data: The whole file.
        file_type: ``pdf``.
        limits: Its page limit is checked before a page is read; a share of its CPU seconds bounds
            the reading, and what was read until then is kept.

    Raises:
        Refusal: Broken, encrypted, too many pages, or no text layer.
        MemoryError: It needs more than the process may have.
    """
    document = _opened(data, limits)
    reader = _Reader(limits)
    pages = reader.pages(document)
    kept, running = without_running_lines(pages)
    bodies = join_broken_words(
        [page_text(own or page.pieces) for own, page in zip(kept, pages, strict=True)]
    )
    tables = reader.tables(data, [page.number for page in pages if reader.ruled.get(page.number)])
    found = [
        (page.number, "\n\n".join(part for part in (body, *tables.get(page.number, ())) if part))
        for page, body in zip(pages, bodies, strict=True)
    ]
    found = [(number, text) for number, text in found if text.strip()]
    if not found:
        raise Refusal(f"no text layer on any of its {len(document)} pages (there is no OCR)")
    count = sum(map(len, tables.values()))
    notes = [f"{len(document)} pages" + (f", {count} tables" if count else ""), *reader.notes]
    bare = [
        page.number
        for page, own in zip(pages, kept, strict=True)
        if not own and page.number in reader.drawn and page.number not in tables
    ]
    if bare:
        notes.insert(1, pages_phrase(bare, len(document)))
    if running:
        notes.append(f"running lines left out: {' | '.join(running[:3])}"[:120])
    return found, "; ".join(notes)


def _opened(data: bytes, limits: Limits) -> Any:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        what = "encrypted" if "password" in str(error).lower() else "not a readable PDF"
        raise Refusal(what) from None
    if len(document) > limits.pages:
        raise Refusal(f"{len(document)} pages, more than the limit of {limits.pages}")
    if len(document) == 0:
        raise Refusal("has no pages")
    return document


@dataclass
class _Reader:
    """Reads one file by the clock.

    Attributes:
        limits: What it may cost.
        ruled: Whether a page may hold a table, by its number.
        drawn: Pages with little text or none and something drawn on them, such as a scan.
        notes: What was not read, and why.
    """

    limits: Limits
    ruled: dict[int, bool] = field(default_factory=dict)
    drawn: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    _cpu: float = field(default_factory=time.process_time)
    _wall: float = field(default_factory=time.monotonic)

    def _late(self) -> bool:
        cpu, wall = time.process_time() - self._cpu, time.monotonic() - self._wall
        share = READING_SHARE
        return cpu > share * self.limits.cpu_s or wall > share * self.limits.wall_s

    def pages(self, document: Any) -> list[PrintedPage]:
        """Return what each page prints, as far as the time allows.

        Raises:
            Refusal: There is more text than the limit.
        """
        pages, size = list[PrintedPage](), 0
        document.init_forms()
        for number in range(1, len(document) + 1):
            if self._late():
                self.notes.append(f"only {number - 1} pages read: they took most of its time")
                break
            page = document[number - 1]
            layer = page.get_textpage()
            pieces = with_fields(pieces_of(page, layer), fields_of(page, document.formenv))
            layer.close()
            self.ruled[number] = _ruled(page)
            if len(pieces) <= EDGE_LINES * 2 and _is_drawn(page):
                self.drawn.add(number)
            pages.append(PrintedPage(number, page.get_height(), pieces))
            page.close()
            size += sum(len(piece.text) for piece in pieces)
            if size > self.limits.text_bytes:
                raise Refusal(f"holds more than {self.limits.text_bytes} bytes of text")
        return pages

    def tables(self, data: bytes, numbers: list[int]) -> dict[int, list[str]]:
        """Return the tables of pages as lines, by page."""
        if not numbers:
            return {}
        if len(data) > TABLE_BYTES:
            self.notes.append("large, so read without tables")
            return {}
        found: dict[int, list[str]] = {}
        try:
            self._find(data, numbers, found)
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # pdfminer raises anything on files that pdfium can read
            where = "without tables" if not found else f"without tables after page {max(found)}"
            self.notes.append(f"read {where} ({type(error).__name__})")
        return found

    def _find(self, data: bytes, numbers: list[int], found: dict[int, list[str]]) -> None:
        import io

        import pdfplumber

        with pdfplumber.open(io.BytesIO(data), pages=numbers) as document:
            for page in document.pages:
                if self._late():
                    read = f"tables read up to page {page.page_number - 1}"
                    self.notes.append(f"{read}: they took most of its time")
                    return
                tables = (_lines(table) for table in page.extract_tables(_GRID))
                if lines := [table for table in tables if table]:
                    found[page.page_number] = lines
                page.close()


def _ruled(page: Any) -> bool:
    """Say whether lines of a page could bound two columns: upright edges at three places."""
    import pypdfium2.raw as pdfium

    if pdfium.FPDFPage_CountObjects(page) > _OBJECTS:
        return True
    across, down = set[int](), set[int]()
    for path in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_PATH], max_depth=3):
        if pdfium.FPDFPath_CountSegments(path) > _SEGMENTS:
            return True
        left, bottom, right, top = path.get_bounds()
        if top - bottom > _THIN:
            across |= {round(left), round(right)} if right - left > _THIN else {round(left)}
        if right - left > _THIN:
            down |= {round(bottom), round(top)} if top - bottom > _THIN else {round(top)}
        if len(across) > 2 and len(down) > 1:
            return True
    return False


def _is_drawn(page: Any) -> bool:
    """Say whether a page holds anything but text."""
    import pypdfium2.raw as pdfium

    return any(one.type != pdfium.FPDF_PAGEOBJ_TEXT for one in page.get_objects(max_depth=1))


def _lines(table: list[list[Any]]) -> str:
    """Return a table as lines of cells with a tab between; empty where it has no second cell."""
    rows = [[" ".join(str(cell or "").split()) for cell in row] for row in table]
    if not any(len(row) > 1 for row in rows):
        return ""  # a frame around text is no table
    return "\n".join("\t".join(row) for row in rows if any(row))
