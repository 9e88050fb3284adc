"""A grid of cells, of whatever kind of file, as a Markdown table.

Merged cells keep their place, and a short value is repeated in each of them, so that every row says
what it is about. What stands alone in the first rows is a title and is written above the table.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ragstream_core.ingestion.parsers.engines import Refusal

REPEATED = 200
"""Longest text of a merged cell that is repeated, in characters: a name is, a page is not."""
_PIPE = re.compile(r"(?<!\\)\|")


class Merged(NamedTuple):
    """Cells that are shown as one; rows and columns count from 0."""

    row: int
    column: int
    rows: int
    columns: int


@dataclass(slots=True)
class Grid:
    """What a table holds.

    Attributes:
        rows: Of each row the texts of its own cells by column; cells without text may be missing.
        merged: Cells that are shown as one; their text is that of the first.
    """

    rows: list[dict[int, str]] = field(default_factory=list)
    merged: list[Merged] = field(default_factory=list)


def markdown_table(grid: Grid, limit: int) -> str:
    """Return a table as Markdown: its titles, a header row, and the other rows.

    Args:
        grid: Its cells. Rows and columns without any text are left out.
        limit: More bytes than this are refused before they are made.

    Raises:
        Refusal: The table is larger than the limit.
    """
    rows = [{c: " ".join(text.split()) for c, text in row.items()} for row in grid.rows]
    first, titles = _titles(rows, grid.merged)
    _repeat(rows, grid.merged, first)
    body = [row for row in rows[first:] if any(row.values())]
    columns = sorted({c for row in body for c, text in row.items() if text})
    size = sum(len(text) for row in body for text in row.values())
    if size + len(body) * len(columns) * 3 > limit:
        raise Refusal(f"holds more than {limit} bytes of text")
    lines = [_line(_PIPE.sub(r"\\|", row.get(c, "")) for c in columns) for row in body]
    lines[1:1] = [_line(["---"] * len(columns))] if lines else []
    return "\n\n".join([*titles, "\n".join(lines)]).strip()


def _titles(rows: Sequence[dict[int, str]], merged: Iterable[Merged]) -> tuple[int, list[str]]:
    """Return how many rows stand above the header, and the one text of each of them."""
    filled = [[text for text in row.values() if text] for row in rows]
    header = next((n for n, texts in enumerate(filled) if len(texts) > 1), 0)
    for cell in merged:  # what reaches down into the header belongs to it
        if cell.row < header < cell.row + cell.rows and rows[cell.row].get(cell.column):
            header = cell.row
    return header, [texts[0] for texts in filled[:header] if texts]


def _repeat(rows: Sequence[dict[int, str]], merged: Iterable[Merged], first: int) -> None:
    """Write the text of each merged cell into all rows and columns it covers that hold text."""
    used = sorted({c for row in rows[first:] for c, text in row.items() if text})
    for cell in merged:
        text = rows[cell.row].get(cell.column, "") if first <= cell.row < len(rows) else ""
        if not 0 < len(text) <= REPEATED:
            continue
        covered = used[
            bisect_left(used, cell.column) : bisect_left(used, cell.column + cell.columns)
        ]
        for row in rows[cell.row : cell.row + cell.rows]:
            row.update((column, text) for column in covered if not row.get(column))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
