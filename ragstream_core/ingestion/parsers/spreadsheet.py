"""Excel sheets as Markdown tables, cell by cell as the sheet shows them; no type is guessed."""

from __future__ import annotations

import functools
import io
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from string import digits
from typing import Any

from lxml import etree
from openpyxl import load_workbook
from openpyxl.cell.read_only import ReadOnlyCell
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.packaging.relationship import get_dependents, get_rels_path
from openpyxl.utils import column_index_from_string, get_column_letter, range_boundaries
from openpyxl.utils.cell import coordinate_to_tuple
from openpyxl.worksheet._read_only import ReadOnlyWorksheet
from openpyxl.worksheet._reader import (
    CELL_TAG,
    FORMULA_TAG,
    MERGE_TAG,
    ROW_TAG,
    VALUE_TAG,
    WorkSheetParser,
)

from ragstream_core.ingestion.parsers.cell_values import shown
from ragstream_core.ingestion.parsers.engines import too_long
from ragstream_core.ingestion.parsers.islands import Sheet, workbook_markdown
from ragstream_core.ingestion.parsers.raised import subscript, superscript
from ragstream_core.ingestion.parsers.tables import Grid, Merged, Row

_RAISED: dict[Any, Callable[..., str]] = {"superscript": superscript, "subscript": subscript}
_MOST_BLANK = 2  # rows that stand for any number of them
_COLUMN_TAG = CELL_TAG.removesuffix("c") + "col"
_THREADED = re.compile(r"\[Threaded comment\].*?Comment:\s*", re.DOTALL)


def spreadsheet_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return a heading and the tables of each sheet that holds something, and what is to be noted.

    What is hidden is read as well: a filter hides rows, and a sheet that is hidden says so.
    """
    ReadOnlyWorksheet._get_size = lambda sheet: None  # reads the whole sheet to tell its size
    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, rich_text=True)
    return workbook_markdown((_read(sheet, limit) for sheet in book.worksheets), limit)


def _read(sheet: Any, limit: int) -> Sheet:
    reader = _SheetReader(sheet, limit)
    reader.counts["sheets"] = int(sheet.sheet_state != "visible")
    return sheet.title, reader.grid(), reader.counts


class _SheetReader(WorkSheetParser):  # type: ignore[misc]  # openpyxl has no types
    """Reads the rows of a sheet; all that is not a cell, a note or a merged range is passed over.

    Attributes:
        counts: As of `Sheet`.
    """

    def __init__(self, sheet: Any, limit: int) -> None:
        self._sheet, self._limit, book = sheet, limit, sheet.parent
        self.counts = Counter[str]()
        self.row_counter = 0
        self._format_of = functools.cache(self._number_format)
        super().__init__(
            None,
            sheet._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
            rich_text=True,
        )

    def grid(self) -> Grid:
        """Return all its cells, each with its note."""
        grid, places, size, notes = Grid(), dict[int, int](), 0, self._notes()
        for element in self._elements():
            if element.tag == ROW_TAG:
                row = self._row(element)
                for column, note in notes.pop(self.row_counter, {}).items():
                    row[column] = f"{row.get(column, '')} [note: {note}]".strip()
                size += sum(map(len, row.values()))
                if size > self._limit:
                    raise too_long(self._limit)
                if row:
                    gap = self.row_counter - next(reversed(places), self.row_counter - 1) - 1
                    grid.rows += ({} for _ in range(min(gap, _MOST_BLANK)))
                    places[self.row_counter] = len(grid.rows)
                    grid.rows.append(row)
            elif element.tag == MERGE_TAG:
                grid.merged += self._merged(element, places)
            elif element.get("hidden") in ("1", "true"):
                self.counts["columns"] += int(element.get("max")) - int(element.get("min")) + 1
        for number, row in notes.items():
            left = (f"{get_column_letter(c)}{number}: [note: {text}]" for c, text in row.items())
            grid.rows += ({}, *({1: text} for text in left))
        return grid

    def _elements(self) -> Iterator[Any]:
        with self._sheet._get_source() as source:
            wanted = etree.iterparse(
                source, tag=(ROW_TAG, MERGE_TAG, _COLUMN_TAG), resolve_entities=False,
                no_network=True,
            )  # fmt: skip
            for _, element in wanted:
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]

    def _notes(self) -> dict[int, dict[int, str]]:
        """Return the texts of the notes on its cells, by row and column."""
        archive, found = self._sheet.parent._archive, dict[int, dict[int, str]]()
        listing = get_rels_path(self._sheet._worksheet_path)
        related = get_dependents(archive, listing) if listing in archive.NameToInfo else ()
        for part in related:
            if not part.Type.endswith("/comments") or part.target not in archive.NameToInfo:
                continue
            parser = etree.XMLParser(resolve_entities=False, no_network=True)
            for comment in etree.fromstring(archive.read(part.target), parser).iter("{*}comment"):
                text = "".join(piece.text or "" for piece in comment.iter("{*}t"))
                row, column = coordinate_to_tuple(comment.get("ref"))
                found.setdefault(row, {})[column] = " ".join(_THREADED.sub("", text).split())
        return found

    def _merged(self, element: Any, places: dict[int, int]) -> Iterator[Merged]:
        """Yield merged ranges; they end with the last row that holds some text."""
        numbers = list(places)
        for child in element:
            left, top, right, bottom = range_boundaries(child.get("ref"))
            if top in places:
                last = numbers[bisect_right(numbers, bottom) - 1]
                rows = places[last] - places[top] + 1
                yield Merged(places[top], left, rows, right - left + 1)

    def _row(self, element: Any) -> Row:
        """Return the texts of a row; sets its number."""
        self.row_counter = int(float(element.get("r") or self.row_counter + 1))
        self.col_counter = 0
        self.counts["rows"] += element.get("hidden") in ("1", "true")
        row: Row = {}
        for child in element:
            place = child.get("r", "")
            if child.tag != CELL_TAG or (place and not len(child)):
                continue  # a blank that has a look is most of some sheets
            value = self._shared(child) if place else None
            if isinstance(value, str):
                column = self.col_counter = column_index_from_string(place.rstrip(digits))
            else:
                cell = self.parse_cell(child)
                value, column = self._text(cell), cell["column"]
            if value:
                row[column] = value.replace("_x000D_", " ") if "_x000D_" in value else value
        return row

    def _shared(self, cell: Any) -> Any:
        """Return what a cell takes from the texts that all sheets share; most take it from there.

        None if it does not.
        """
        if cell.get("t") != "s" or len(cell) != 1 or cell[0].tag != VALUE_TAG:
            return None
        return self.shared_strings[int(cell[0].text)]

    def parse_cell(self, element: Any) -> Any:
        cell = super().parse_cell(element)
        value, formula = cell["value"], element.find(FORMULA_TAG)
        if formula is not None and value is None:
            computed = element.get("t") == "str" and element.find(VALUE_TAG) is not None
            if not computed:
                self.counts["formulas"] += 1
                written = f"={formula.text}" if formula.text else "a formula"  # shared: no text
                cell["value"] = f"{written} (not computed)"
        return cell

    def _text(self, cell: dict[str, Any]) -> str:
        value = cell["value"]
        if isinstance(value, CellRichText):
            value = _rich(value)
        if isinstance(value, str):
            return value
        return shown(value, self._format_of(cell["style_id"]))

    def _number_format(self, style: int) -> str:
        made = ReadOnlyCell(self._sheet, row=1, column=1, value=0, data_type="n", style_id=style)
        return str(made.number_format)


def _rich(value: CellRichText) -> str:
    """Return text whose parts are formatted apart; raised digits never join a number."""
    parts = [
        (part.text, part.font) if isinstance(part, TextBlock) else (part, None) for part in value
    ]
    written = ""
    for n, (text, font) in enumerate(parts):
        after = parts[n + 1][0] if n + 1 < len(parts) else ""
        write = _RAISED.get(getattr(font, "vertAlign", None))
        written += write(text, written, after) if write else text
    return written
