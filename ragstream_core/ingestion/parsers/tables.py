"""A grid of cells, of whatever kind of file, as Markdown tables.

Merged cells keep their place, and a short value is repeated in each of them, so that every row says
what it is about. What stands alone in the first rows is a title and is written above the table. The
rows of a table too wide for a passage are written as lines in which every value has its name.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from ragstream_core.ingestion.parsers.engines import too_long

# Longest text of a merged cell that is repeated, in characters: a name is, a page is not.
REPEATED = 200
# Characters of the names, and of them and a row: beyond that a passage holds no row with them.
WIDE_HEAD, WIDE_ROW = 250, 450
_LINE = 300  # characters of a line of named values
_LONGEST_TITLE = 150
_SAMPLE = 50  # rows that are looked at to tell how wide a table is
_PIPE = re.compile(r"(?<!\\)\|")
_BEGINS_BLOCK = re.compile(
    r"^ {0,3}(?=#{1,6}(?:[ \t]|$)|`{3}|~{3}|(?:=+|-+)[ \t]*$|(?:[-*+>|]|\d{1,9}[.)])[ \t])", re.M
)

# The texts of the cells of a row by column; cells without text may be missing.
Row = dict[int, str]


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
        rows: Its rows; they become its table and are of no use any more.
        merged: Cells that are shown as one; their text is that of the first.
    """

    rows: list[Row] = field(default_factory=list)
    merged: list[Merged] = field(default_factory=list)


def markdown_table(grid: Grid, limit: int) -> str:
    """Return a table as Markdown: its titles, a header row, and the other rows."""
    tidy(grid.rows)
    first = header_row(grid)
    titles = [next(iter(row.values())) for row in grid.rows[:first] if row]
    _repeat(grid.rows, grid.merged, first, blank=True)
    rows = [row for row in grid.rows[first:] if row]
    return written(rows, titles, has_head=True, limit=limit)


def plain(text: str) -> str:
    """Return text in which nothing begins a heading, a list, a table or a fence of Markdown."""
    return _BEGINS_BLOCK.sub(r"\\", text)


def tidy(rows: Iterable[Row]) -> None:
    """Leave out blank cells, and white space that parts nothing."""
    for row in rows:
        for column, text in list(row.items()):
            said = " ".join(text.split())
            if not said:
                del row[column]
            elif said != text:
                row[column] = said


def header_row(grid: Grid) -> int:
    """Return how many rows stand above the header: those of one text, a title, are no header."""
    rows = grid.rows
    header = next((n for n, row in enumerate(rows) if len(row) > 1), 0)
    for cell in grid.merged:  # what reaches down into the header belongs to it
        if cell.row < header < cell.row + cell.rows and rows[cell.row].get(cell.column):
            header = cell.row
    return header


def with_one_head(grid: Grid, first: int) -> list[Row]:
    """Return the rows from the header on, merged cells repeated and rows of names joined.

    A name over several columns stands before each of the names below it: ``2025 Q1``.
    """
    rows = grid.rows
    across = [m for m in grid.merged if m.row == first and m.rows == 1 < m.columns]
    over = [m for m in across if m.column in rows[first]]
    wide = {c for m in over for c in range(m.column, m.column + min(m.columns, 1_000))}
    _repeat(rows, grid.merged, first, blank=False)
    head = dict(rows[first]) if rows else {}
    below = rows[first + 1] if over and first + 2 < len(rows) else {}
    names_columns = any(c in wide for c in below) and not any(map(has_digits, below.values()))
    if below and names_columns:
        for column, text in below.items():
            above = head.get(column, "")
            head[column] = f"{above} {text}" if above and above != text else text
        return [head, *(row for row in rows[first + 2 :] if row)]
    return [head, *(row for row in rows[first + 1 :] if row)] if head else []


def has_digits(text: str) -> bool:
    """Return whether a text holds a digit."""
    return any(map(str.isdigit, text))


def written(rows: list[Row], titles: Sequence[str], *, has_head: bool, limit: int) -> str:
    """Return the Markdown of one table under its titles."""
    columns = sorted({c for row in rows for c in row})
    size = sum(len(text) for row in rows for text in row.values())
    if size + len(rows) * len(columns) * 3 > limit:
        raise too_long(limit)
    if has_head and len(rows) > 1 and _is_wide(rows, columns):
        body = "\n\n".join(_lines_of(rows, columns))
    else:
        names = [_bars(rows[0], columns)] if has_head and rows else [_bars({}, columns)]
        made = [*names, _line(["---"] * len(columns))] if rows else []
        made += (_bars(row, columns) for row in (rows[1:] if has_head else rows))
        body = "\n".join(made)
    return "\n\n".join(filter(None, [*_titled(titles), body])).strip()


def _titled(titles: Sequence[str]) -> Iterator[str]:
    """Yield the texts above a table; what is short is in bold: passages of the table carry it."""
    together = " · ".join(titles)
    if 0 < len(together) <= _LONGEST_TITLE:
        yield f"**{together}**"
    elif titles and len(titles[0]) <= _LONGEST_TITLE:
        yield from (plain(title) for title in titles[1:])
        yield f"**{titles[0]}**"
    else:
        yield from map(plain, titles)


def _is_wide(rows: Sequence[Row], columns: Sequence[int]) -> bool:
    """Return whether a passage has no room for a row under the names of its columns."""
    names = sum(map(len, rows[0].values())) + 3 * len(columns)
    step = max(1, len(rows) // _SAMPLE)
    row = median(sum(map(len, row.values())) for row in rows[1::step]) + 3 * len(columns)
    return len(columns) > 2 and (names > WIDE_HEAD or names + row > WIDE_ROW)


def _lines_of(rows: Sequence[Row], columns: Sequence[int]) -> Iterator[str]:
    """Yield each row as lines of named values; each begins with what the row is about."""
    names = rows[0]
    for row in rows[1:]:
        said = [f"{names[c]}: {row[c]}" if c in names else row[c] for c in columns if c in row]
        yield from named_values(said)


def named_values(said: Sequence[str]) -> Iterator[str]:
    """Yield lines of values with their names; each begins with the first, mostly a name."""
    key = said[0] if said and len(said[0]) <= _LINE // 3 else ""
    line = ""
    for value in said:
        if line and len(line) + len(value) > _LINE:
            yield plain(line)
            line = key
        line = f"{line} · {value}" if line else value
    yield plain(line)


def _repeat(rows: Sequence[Row], merged: Sequence[Merged], first: int, *, blank: bool) -> None:
    """Write the text of each merged cell into all rows and columns it covers that hold text."""
    used = sorted({c for row in rows[first:] for c in row}) if merged else []
    for cell in merged:
        text = rows[cell.row].get(cell.column, "") if first <= cell.row < len(rows) else ""
        if not 0 < len(text) <= REPEATED:
            continue
        begin, end = cell.column, cell.column + cell.columns
        covered = used[bisect_left(used, begin) : bisect_left(used, end)]
        for row in rows[cell.row : cell.row + cell.rows]:
            if row or blank:
                row.update((column, text) for column in covered if column not in row)


def _bars(row: Row, columns: Sequence[int]) -> str:
    return _line(_PIPE.sub(r"\\|", text) if "|" in (text := row.get(c, "")) else text
                 for c in columns)  # fmt: skip


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
