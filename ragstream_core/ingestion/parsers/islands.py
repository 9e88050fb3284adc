"""The tables of a sheet: what blank rows and columns part, and whether each has names of columns.

A blank row alone parts nothing: what follows in the same columns and looks like the rows above goes
on with their table. A first row names the columns unless it looks like the rows below it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ragstream_core.ingestion.parsers.engines import runs
from ragstream_core.ingestion.parsers.tables import (
    Grid,
    Row,
    has_digits,
    header_row,
    tidy,
    with_one_head,
    written,
)

_SAMPLE = 40  # rows that are looked at
_FEW = 3  # different values of a column, such as TRUE and FALSE: none is its name
_LIST = 3  # so many texts below each other are a table of one column, if they are short
_SHORT = 60
_SENTENCE_ENDS = (".", "!", "?", ":")
_YEARS = re.compile(r"(?:19|20)\d\d")
_MOST_PARTS = 1_000  # of a sheet; what follows is one

# Name and cells of a sheet, how many of its ``formulas`` are not computed, and how many of its
# ``columns`` and ``rows`` are hidden; ``sheets``: 1 if all of it is.
Sheet = tuple[str, Grid, Counter[str]]


class Tables(NamedTuple):
    """What a sheet holds.

    Attributes:
        text: Its tables and what stands between them, as Markdown.
        without_names: How many tables have no row that names their columns.
    """

    text: str
    without_names: int


class _Part(NamedTuple):
    """Rows without a blank one between them.

    Attributes:
        grid: Their cells.
        gap: How many blank rows stand above.
    """

    grid: Grid
    gap: int

    @property
    def columns(self) -> set[int]:
        """Those that hold something."""
        return {c for row in self.grid.rows for c in row}

    @property
    def is_text(self) -> bool:
        """Whether they are lines of text rather than a table."""
        rows = self.grid.rows
        said = [text for row in rows for text in row.values()]
        if len(said) > len(rows) or len(self.columns) > 1:
            return len(said) == len(rows)
        is_list = len(rows) >= _LIST and max(map(len, said)) <= _SHORT
        is_list = is_list and not any(text.endswith(_SENTENCE_ENDS) for text in said)
        return not is_list and (len(rows) == 1 or any(map(str.isalpha, "".join(said[1:]))))


@dataclass(slots=True)
class _Table:
    """A table being put together.

    Attributes:
        titles: The texts above it.
        rows: The names of its columns if it has any, and its rows.
        has_head: Whether it has.
        columns: Those that hold something.
    """

    titles: list[str]
    rows: list[Row]
    has_head: bool
    columns: set[int]

    def goes_on_with(self, part: _Part, *, titled: bool) -> bool:
        """Return whether rows behind blank ones belong to this table."""
        first, rest = part.grid.rows[0], part.grid.rows[1:]
        if self.has_head and first == self.rows[0]:
            return False  # its names, printed again
        beside = names_columns(first, self.rows[self.has_head :])
        if beside is not None:
            return not beside
        if part.gap > 1 or not part.columns <= self.columns:
            return False
        return not rest or names_columns(first, rest) is False or (
            not titled and self._looks_like(first)
        )  # fmt: skip

    def _looks_like(self, row: Row) -> bool:
        """Return whether some text of a row is written as most of its column is: "Ann Poe"."""
        sample = self.rows[1:_SAMPLE]
        shapes = {c: Counter(_shape(other[c]) for other in sample if c in other) for c in row}
        return any(
            _shape(text) != "a" and shapes[column][_shape(text)] * 2 > shapes[column].total()
            for column, text in row.items()
        )

    def may_hold(self, part: _Part) -> bool:
        """Return whether nothing tells if rows begin with names or are more rows of this table."""
        first, rest = part.grid.rows[0], part.grid.rows[1:]
        again = self.has_head and first == self.rows[0]
        return part.columns == self.columns and not again and names_columns(first, rest) is None

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        self.rows += rows
        self.columns.update(c for row in rows for c in row)


def sheet_tables(grid: Grid, limit: int) -> Tables:
    """Return the tables of a sheet as Markdown."""
    tidy(grid.rows)
    made, size, without_names = list[str](), 0, 0
    for table in _tables(grid):
        without_names += bool(table.rows) and not table.has_head
        left = limit - size
        made.append(written(table.rows, table.titles, has_head=table.has_head, limit=left))
        size += len(made[-1])
        table.rows.clear()
    return Tables("\n\n".join(made), without_names)


def workbook_markdown(sheets: Iterable[Sheet], limit: int) -> tuple[str, str]:
    """Return a heading and the tables of each sheet that holds something, and what is noted."""
    made, size, counts = list[str](), 0, Counter[str]()
    for name, grid, found in sheets:
        if text := sheet_tables(grid, limit - size).text:
            made.append(f"## {name}{' (hidden)' * found['sheets']}\n\n{text}")
            size += len(made[-1])
        counts.update(found)
        counts["sheets"] -= found["sheets"] * (not text)
    hidden = ", ".join(f"{kind}: {n}" for kind, n in sorted(counts.items())
                       if n and kind != "formulas")  # fmt: skip
    uncomputed = counts["formulas"]
    told = [f"formulas without a value: {uncomputed}" if uncomputed else ""]
    told += [f"hidden, and read all the same: {hidden}" if hidden else ""]
    return "\n\n".join(made), "; ".join(filter(None, told))


def names_columns(first: Row, below: Sequence[Row]) -> bool | None:
    """Return whether a row names the columns of the rows below; None: nothing tells.

    A name is shaped otherwise than the values of its column: it has no digits where they do, or is
    none of the few values that they are. Years and numbers that count up are names as well.
    """
    sample = below[:_SAMPLE]
    figures = [text for text in first.values() if text.isdigit()]
    counts_up = len(figures) > 1 and (
        all(map(_YEARS.fullmatch, figures))
        or (all(int(b) - int(a) == 1 for a, b in pairwise(figures) if len(a) < 5 > len(b))
        and all(len(text) < 5 for text in figures))
    )  # fmt: skip
    votes = Counter[bool]()
    for column, text in first.items():
        values = [row[column] for row in sample if column in row]
        if values and not (counts_up and text.isdigit()):
            votes.update(_vote(text, values))
    if votes[True] != votes[False]:
        return votes[True] > votes[False]
    return None


def _vote(text: str, values: Sequence[str]) -> list[bool]:
    digits = sum(map(has_digits, values))
    if digits > len(values) * 0.8:
        if not has_digits(text):
            return [True]
        shapes = Counter(map(_shape, values))
        return [False] if shapes[_shape(text)] >= max(1, shapes.most_common(1)[0][1] // 2) else []
    different = set(values)
    if text in different:
        return [False]
    return [True] if len(different) <= _FEW < len(values) else []


def _shape(text: str) -> str:
    """Return what remains of a text if numbers and words are all alike: ``a-0`` for ST-0457."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d[\d.,]*", "0", text))


def _tables(grid: Grid) -> list[_Table]:
    """Return the tables of a sheet; the last may be text alone."""
    found: list[_Table] = []
    titles: list[str] = []
    for part in _parts(grid):
        goes_on = (t for t in reversed(found) if t.goes_on_with(part, titled=bool(titles)))
        if part.is_text:
            titles += [text for row in part.grid.rows for text in row.values()]
        elif table := next(goes_on, None):
            table.rows += ({min(table.columns): title} for title in titles)
            table.add(part.grid.rows)
            titles = []
        else:
            table = _table(part, titles)
            if part.gap == 1 and not titles and any(t.may_hold(part) for t in found):
                table.has_head = False
            found.append(table)
            titles = []
    return [*found, _Table(titles, [], False, set())] if titles else found


def _table(part: _Part, titles: Sequence[str]) -> _Table:
    first = header_row(part.grid)
    above = [text for row in part.grid.rows[:first] for text in row.values()]
    rows = with_one_head(part.grid, first)
    columns = {c for row in rows for c in row}
    is_form = len(columns) == 2 and all(row[min(row)].endswith(":") for row in rows)
    has_head = not is_form and len(rows) > 1 and names_columns(rows[0], rows[1:]) is not False
    return _Table([*titles, *above], rows, has_head, columns)


def _parts(grid: Grid) -> Iterator[_Part]:
    """Yield what blank rows and columns part."""
    for band in _bands(grid):
        sides = list(_sides(band.grid))
        for side in sides:
            if len(sides) == 1:
                yield band
            else:
                yield from _bands(side, band.gap)


def _bands(grid: Grid, gap: int = 0) -> Iterator[_Part]:
    """Yield the runs of rows between blank ones; a merged cell holds its rows together."""
    held = {n for m in grid.merged if m.rows > 1 for n in range(m.row, m.row + m.rows - 1)}
    merged = sorted(grid.merged)
    rows, start, count = grid.rows, 0, 0
    for n, row in enumerate(rows):
        is_last = n + 1 == len(rows)
        if not row and n == start:
            start, gap = n + 1, gap + 1
        elif is_last or (not rows[n + 1] and n not in held and count < _MOST_PARTS):
            inner = merged[bisect_left(merged, (start,)) : bisect_left(merged, (n + 1,))]
            own = rows if not start and is_last else rows[start : n + 1]
            yield _Part(Grid(own, [m._replace(row=m.row - start) for m in inner]), gap)
            start, gap, count = n + 1, 0, count + 1


def _sides(grid: Grid) -> Iterator[Grid]:
    """Yield what blank columns part, from the left; one column alone stays with its neighbours."""
    used = {c for row in grid.rows for c in row}
    for cell in grid.merged:  # what goes over a blank column joins both sides
        used.update(range(cell.column, min(cell.column + cell.columns, max(used, default=0))))
    sides = runs(sorted(used), lambda column, other: other - column > 1)
    apart = sides[:1]
    for side in sides[1:]:
        if min(len(side), len(apart[-1])) == 1:
            apart[-1] += side
        else:
            apart.append(side)
    if len(apart) == 1:
        yield grid
        return
    for columns in map(set, apart):
        rows = [{c: text for c, text in row.items() if c in columns} for row in grid.rows]
        yield Grid(rows, [m for m in grid.merged if m.column in columns])
