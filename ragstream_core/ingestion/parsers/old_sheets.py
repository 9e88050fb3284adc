"""Excel sheets of the format before xlsx (97 to 2003) as Markdown tables, as people see them."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import xlrd

from ragstream_core.ingestion.parsers.cell_values import shown
from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.islands import Sheet, workbook_markdown
from ragstream_core.ingestion.parsers.tables import Grid, Merged


def spreadsheet_markdown(data: bytes, limit: int) -> tuple[str, str]:
    """Return a heading and a table for each sheet that holds something, and what is to be noted."""
    try:
        book = xlrd.open_workbook(file_contents=data, formatting_info=True, logfile=io.StringIO())
    except xlrd.XLRDError as error:
        reason = "is encrypted; save it without a password" if "encrypt" in str(error) else ""
        raise Refusal(reason or "not a readable Excel file (broken)") from None
    return workbook_markdown((_read(book, sheet) for sheet in book.sheets()), limit)


def _read(book: Any, sheet: Any) -> Sheet:
    grid = Grid()
    for number in range(sheet.nrows):
        cells = {column: _text(book, cell) for column, cell in enumerate(sheet.row(number))}
        grid.rows.append({column: text for column, text in cells.items() if text})
    for (row, column), note in sheet.cell_note_map.items():
        if row < len(grid.rows):
            said = f"{grid.rows[row].get(column, '')} [note: {' '.join(note.text.split())}]"
            grid.rows[row][column] = said.strip()
    grid.merged = [Merged(top, left, below - top, right - left)
                   for top, below, left, right in sheet.merged_cells]  # fmt: skip
    return sheet.name, grid, Counter(sheets=int(sheet.visibility > 0))


def _text(book: Any, cell: Any) -> str:
    number_format = book.format_map[book.xf_list[cell.xf_index].format_key].format_str
    value: Any = cell.value
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        value = bool(value)
    elif cell.ctype == xlrd.XL_CELL_ERROR:
        value = xlrd.error_text_from_code.get(value, "#ERROR")
    elif cell.ctype == xlrd.XL_CELL_DATE:
        try:
            value = xlrd.xldate_as_datetime(value, book.datemode)
            if 0 <= cell.value < 1:
                value = value.time()
        except (ValueError, OverflowError):
            value = cell.value
    elif cell.ctype in (xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK):
        return ""
    return shown(value, number_format)
