"""Excel sheets as Markdown tables, cell by cell as the sheet shows them; no type is guessed."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from typing import Any

from lxml import etree
from openpyxl import load_workbook
from openpyxl.cell.read_only import ReadOnlyCell
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.utils import range_boundaries
from openpyxl.worksheet._reader import (
    CELL_TAG,
    FORMULA_TAG,
    MERGE_TAG,
    ROW_TAG,
    VALUE_TAG,
    WorkSheetParser,
)

from ragstream_core.ingestion.parsers.cell_values import shown
from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.raised import subscript, superscript
from ragstream_core.ingestion.parsers.tables import Grid, Merged, markdown_table


def spreadsheet_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return a heading and a table for each sheet that holds something, and what is to be noted.

    Args:
        data: The whole ``xlsx`` file.
        limit: The most bytes of text.

    Raises:
        Refusal: It holds more text than the limit.
    """
    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, rich_text=True)
    made, size, uncomputed = [], 0, 0
    for sheet in book.worksheets:
        reader = _SheetReader(sheet, limit - size)
        table = markdown_table(reader.grid(), limit - size)
        uncomputed += reader.uncomputed
        if table:
            made.append(f"## {sheet.title}\n\n{table}")
            size += len(table)
    return "\n\n".join(made), f"formulas without a value: {uncomputed}" if uncomputed else ""


class _SheetReader(WorkSheetParser):  # type: ignore[misc]  # openpyxl has no types
    """Reads the rows of a sheet; all that is not a cell or a merged range is passed over.

    Attributes:
        uncomputed: How many formulas have no value, because no program computed the file.
    """

    def __init__(self, sheet: Any, limit: int) -> None:
        self._sheet, self._limit, book = sheet, limit, sheet.parent
        self.uncomputed = 0
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
        """Return all its cells.

        Raises:
            Refusal: They hold more text than the limit.
        """
        grid, places, size = Grid(), dict[int, int](), 0
        for element in self._elements():
            if element.tag == ROW_TAG:
                number, cells = self.parse_row(element)
                row = {cell["column"]: text for cell in cells if (text := self._text(cell))}
                size += sum(map(len, row.values()))
                if size > self._limit:
                    raise Refusal(f"holds more than {self._limit} bytes of text")
                if row:
                    places[number] = len(grid.rows)
                    grid.rows.append(row)
            else:
                grid.merged += self._merged(element, places)
        return grid

    def _elements(self) -> Iterator[Any]:
        with self._sheet._get_source() as source:
            wanted = etree.iterparse(
                source, tag=(ROW_TAG, MERGE_TAG), resolve_entities=False, no_network=True
            )
            for _, element in wanted:
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]

    def _merged(self, element: Any, places: dict[int, int]) -> Iterator[Merged]:
        """Yield merged ranges; rows without any text are not counted."""
        for child in element:
            left, top, right, bottom = range_boundaries(child.get("ref"))
            if top in places:
                rows = sum(row in places for row in range(top, min(bottom, max(places)) + 1))
                yield Merged(places[top], left, rows, right - left + 1)

    def parse_row(self, row: Any) -> Any:
        for other in [child for child in row if child.tag != CELL_TAG]:
            row.remove(other)
        return super().parse_row(row)

    def parse_cell(self, element: Any) -> Any:
        cell = super().parse_cell(element)
        formula = element.find(FORMULA_TAG)
        if formula is not None and cell["value"] is None:
            computed = element.get("t") == "str" and element.find(VALUE_TAG) is not None
            if not computed:
                self.uncomputed += 1
                written = f"={formula.text}" if formula.text else "a formula"  # shared: no text
                cell["value"] = f"{written} (not computed)"
        return cell

    def _text(self, cell: dict[str, Any]) -> str:
        value = cell["value"]
        if isinstance(value, CellRichText):
            value = _rich(value)
        if isinstance(value, str):
            return value.replace("_x000D_", " ").strip()
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
        raised = getattr(font, "vertAlign", None)
        if raised == "superscript":
            text = superscript(text, written, after)
        elif raised == "subscript":
            text = subscript(text, written, after)
        written += text
    return written
