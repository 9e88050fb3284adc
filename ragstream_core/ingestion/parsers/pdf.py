"""PDF: text page by page, with its ruled tables as Markdown where they stand.

Runs in the child process only. pypdfium2 reads the text, with the places where it stands, and the
lines that are drawn. Pages that are pictures are named; `ocr` reads them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ragstream_core.ingestion.parsers.engines import (
    NO_TEXT_LAYER,
    SPLIT,
    Limits,
    Refusal,
    pages_phrase,
    too_long,
)
from ragstream_core.ingestion.parsers.pdf_columns import tables_in_columns
from ragstream_core.ingestion.parsers.pdf_form import Field, fields_of, with_fields
from ragstream_core.ingestion.parsers.pdf_layout import Piece, page_text
from ragstream_core.ingestion.parsers.pdf_lines import drawn_on
from ragstream_core.ingestion.parsers.pdf_page import (
    Walls,
    is_bolder,
    is_heavier,
    pieces_of,
    turned,
)
from ragstream_core.ingestion.parsers.pdf_running import (
    EDGE_LINES,
    PrintedPage,
    without_running_lines,
)
from ragstream_core.ingestion.parsers.pdf_tables import (
    Place,
    Table,
    TablesOfPage,
    grids,
    over_pages,
    tables_of,
    with_tables,
)
from ragstream_core.ingestion.parsers.pdf_words import join_broken_words
from ragstream_core.ingestion.parsers.tables import markdown_table

# Share of a file's time, CPU or wall, after which no further page is read.
READING_SHARE = 0.6


def read_pdf(data: bytes, file_type: str, limits: Limits) -> tuple[list[tuple[int, str]], str]:
    """Return (number from 1, text) of each page with text, and a note; refuse a file with none."""
    document = _opened(data, limits)
    reader = _Reader(limits)
    pages = reader.pages(document)
    kept, running = without_running_lines(pages)
    bodies, count = _bodies(reader, pages, kept)
    found = [(page.number, body) for page, body in zip(pages, bodies, strict=True) if body.strip()]
    if not found:
        raise Refusal("; ".join([f"{NO_TEXT_LAYER} {len(document)} pages", *reader.notes]))
    notes = [f"{len(document)} pages" + (f", {count} tables" if count else ""), *reader.notes]
    if bare := reader.bare(pages, kept):
        notes.insert(1, pages_phrase(bare, len(document)))
    if running:
        notes.append(f"running lines left out: {' | '.join(running[:3])}"[:120])
    return found, "; ".join(notes)


def _bodies(
    reader: _Reader, pages: Sequence[PrintedPage], kept: Sequence[list[Piece]]
) -> tuple[list[str], int]:
    """Return what each page says, and how many tables there are."""
    own = [
        TablesOfPage(reader.tables.get(page.number, []), some or page.pieces)
        for page, some in zip(pages, kept, strict=True)
    ]
    count, limit = over_pages(own), reader.limits.text_bytes
    tables = [[markdown_table(table.grid, limit) for table in page.tables] for page in own]
    pieces = map(with_tables, own, tables)
    return join_broken_words([page_text(page).strip("\n") for page in pieces]), count


def _opened(data: bytes, limits: Limits) -> Any:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        what = "encrypted" if "password" in str(error).lower() else "not a readable PDF"
        raise Refusal(what) from None
    if len(document) > limits.pages:
        raise Refusal(f"{len(document)} pages, more than the limit of {limits.pages}; {SPLIT}")
    if len(document) == 0:
        raise Refusal("has no pages")
    return document


def bare_pages(data: bytes, limits: Limits) -> tuple[list[int], int]:
    """Return the numbers of the pages that are pictures, and how many pages there are."""
    document, reader = _opened(data, limits), _Reader(limits)
    pages = reader.pages(document)
    return reader.bare(pages, without_running_lines(pages)[0]), len(document)


@dataclass
class _Reader:
    """Reads one file by the clock.

    Attributes:
        limits: What it may cost.
        tables: Those of each page that has some, by its number.
        drawn: Pages with little text or none and something drawn on them, such as a scan.
        notes: What was not read, and why.
    """

    limits: Limits
    tables: dict[int, list[Table]] = field(default_factory=dict)
    drawn: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    _cpu: float = field(default_factory=time.process_time)
    _wall: float = field(default_factory=time.monotonic)

    def _late(self) -> bool:
        cpu, wall = time.process_time() - self._cpu, time.monotonic() - self._wall
        share = READING_SHARE
        return cpu > share * self.limits.cpu_s or wall > share * self.limits.wall_s

    def pages(self, document: Any) -> list[PrintedPage]:
        """Return what each page prints, as far as the time allows; refuse too much text."""
        pages, size = list[PrintedPage](), 0
        document.init_forms()
        for number in range(1, len(document) + 1):
            if self._late():
                self.notes.append(f"only {number - 1} pages read: they took most of its time")
                break
            page = document[number - 1]
            pieces = self._pieces(page, number, document.formenv)
            pages.append(PrintedPage(number, page.get_height(), pieces))
            page.close()
            size += sum(len(piece.text) for piece in pieces)
            if size > self.limits.text_bytes:
                raise too_long(self.limits.text_bytes)
        return pages

    def bare(self, pages: Sequence[PrintedPage], kept: Sequence[list[Piece]]) -> list[int]:
        """Return the numbers of pages that have no text of their own and something drawn."""
        bare = [page.number for page, own in zip(pages, kept, strict=True) if not own]
        return [number for number in bare if number in self.drawn]

    def _pieces(self, page: Any, number: int, form: Any) -> list[Piece]:
        """Return what a page prints, and note its tables."""
        place, layer = turned(page), page.get_textpage()
        drawn, fields = drawn_on(page, place), fields_of(page, form)
        ruled = [one for one in grids(drawn) if not _has_field(one, fields)]
        pieces = pieces_of(page, layer, place, [Walls(*one[:2]) for one in ruled])
        tables = tables_of(ruled, pieces) if len(pieces) > 1 else []
        found = [table.place for table in tables]
        if len(found) < len(ruled) or not all(one in ruled for one in found):
            pieces = pieces_of(page, layer, place, [Walls(*one[:2]) for one in found])
            tables = tables_of(found, pieces)  # lines that make no table divide nothing
        tables = [
            table._replace(heavy=is_heavier(page, layer, *table.first_and_last(pieces)))
            for table in tables
        ]
        if not fields:
            ruled_off = frozenset[int]().union(*(table.pieces for table in tables))
            tables += tables_in_columns(
                [one for one in pieces if one.at not in ruled_off],
                lambda one, other: is_bolder(page, layer, one, other),
            )
        if tables:
            self.tables[number] = sorted(tables, key=lambda one: -one.place.rows[0])
        layer.close()
        pieces = with_fields(pieces, fields)
        if len(pieces) <= EDGE_LINES * 2 and drawn.anything:
            self.drawn.add(number)
        return pieces


def _has_field(place: Place, fields: Sequence[Field]) -> bool:
    return any(
        place.holds(one.place.left, (one.place.bottom + one.place.top) / 2) for one in fields
    )
