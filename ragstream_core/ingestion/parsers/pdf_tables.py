"""Tables of a PDF that are drawn with ruling lines: their cells, and one table over several pages.

Runs in the child process only. Lines that cross each other make a grid; where no line divides two
of its places, they are one cell. What is said in a cell leaves the running text, so that it is
read once. What looks like a form, a frame or a drawing stays running text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ragstream_core.ingestion.parsers.pdf_layout import (
    Piece,
    Row,
    clusters,
    is_prose,
    is_right_to_left,
)
from ragstream_core.ingestion.parsers.pdf_lines import SNAP, Drawn, Line
from ragstream_core.ingestion.parsers.tables import Grid, Merged, has_digits

# With more pairs of lines, places in a grid, or grids a page is a drawing.
MAX_CROSSINGS, MAX_PLACES, MAX_GRIDS = 100_000, 20_000, 100

_OPEN = 8.0  # points: lines that reach so far beyond the last one across bound a cell too
_FEW_ROWS = 3  # with no more ruled rows, lines of print inside of one may be rows themselves
_COLUMN = 12  # lines of print: so many in each cell of few rows are columns of text
_TITLE = 3  # lines of print that a title or a note across all columns has at most
_DIVIDED, _FILLED = 0.4, 0.2  # shares of a grid: what has less is a drawing
_LABEL = re.compile(r"[^:]{1,40}:(?:\s|$)")
_HYPHEN = re.compile(r"[^\W\d_][-\u2010]$")


class Place(NamedTuple):
    """A grid on a page.

    Attributes:
        columns: The x of its upright lines, from the left.
        rows: The y of its level lines, from the top.
        cells: Number of the cell at each row and column.
    """

    columns: list[float]
    rows: list[float]
    cells: list[list[int]]

    def holds(self, x: float, y: float) -> bool:
        """Say whether a point lies inside."""
        return self.columns[0] <= x <= self.columns[-1] and self.rows[-1] <= y <= self.rows[0]

    def at(self, x: float, y: float) -> tuple[int, int]:
        """Return row and column of a point inside."""
        row = bisect_left(self.rows, -y, key=lambda one: -one) - 1
        column = bisect_right(self.columns, x) - 1
        return (
            min(max(row, 0), len(self.rows) - 2), min(max(column, 0), len(self.columns) - 2)
        )  # fmt: skip


class Table(NamedTuple):
    """A table on a page.

    Attributes:
        place: Where it stands.
        grid: What it holds, its columns counted as those of its place.
        pieces: What it is made of, by their places in the order of the page.
        heavy: Its first row is printed heavier than its last.
    """

    place: Place
    grid: Grid
    pieces: frozenset[int]
    heavy: bool = False

    def first_and_last(self, pieces: Sequence[Piece]) -> tuple[Piece, Piece]:
        """Return a piece of its first row and one of its last."""
        own = sorted((one for one in pieces if one.at in self.pieces), key=lambda one: one.middle)
        return own[-1], own[0]


def grids(drawn: Drawn) -> list[Place]:
    """Return the grids of at least two columns that the lines of a page make."""
    if len(drawn.upright) < 2 or not drawn.level:
        return []
    if len(drawn.level) * len(drawn.upright) > MAX_CROSSINGS:
        return []
    places = (_place(level, upright) for level, upright in _crossing(drawn))
    found = [place for place in places if place is not None]
    return found if len(found) <= MAX_GRIDS else []


def _crossing(drawn: Drawn) -> Iterable[tuple[list[Line], list[Line]]]:
    """Return the lines that hang together by crossing each other."""
    group = list(range(len(drawn.level)))

    def root(one: int) -> int:
        while group[one] != one:
            group[one] = group[group[one]]
            one = group[one]
        return one

    crossed = list[int]()
    for up in drawn.upright:
        first = -1
        for number, line in enumerate(drawn.level):
            if (
                up.start - SNAP <= line.at <= up.end + SNAP
                and line.start - SNAP <= up.at <= line.end + SNAP
            ):
                if first >= 0:
                    group[root(number)] = root(first)
                first = number
        crossed.append(first)
    found: defaultdict[int, tuple[list[Line], list[Line]]] = defaultdict(lambda: ([], []))
    for up, first in zip(drawn.upright, crossed, strict=True):
        if first >= 0:
            found[root(first)][1].append(up)
    for number, line in enumerate(drawn.level):
        if root(number) in found:
            found[root(number)][0].append(line)
    return found.values()


def _place(level: Sequence[Line], upright: Sequence[Line]) -> Place | None:
    columns = _with_open_ends(sorted({line.at for line in upright}), level)
    rows = _with_open_ends(sorted({line.at for line in level}), upright)[::-1]
    wide, high = len(columns) - 1, len(rows) - 1
    if wide < 2 or high < 1 or wide * high > MAX_PLACES:
        return None
    walls, floors = set[tuple[int, int]](), set[tuple[int, int]]()
    middles = [(a + b) / 2 for a, b in pairwise(columns)]
    heights = [-(a + b) / 2 for a, b in pairwise(rows)]
    for line in upright:
        column = bisect_left(columns, line.at)
        span = range(bisect_left(heights, -line.end), bisect_right(heights, -line.start))
        walls |= {(row, column) for row in span}
    for line in level:
        row = bisect_left(rows, -line.at, key=lambda one: -one)
        span = range(bisect_left(middles, line.start), bisect_right(middles, line.end))
        floors |= {(row, column) for column in span}
    return Place(columns, rows, _cells(high, wide, walls, floors))


def _with_open_ends(places: list[float], lines: Sequence[Line]) -> list[float]:
    """Return places of lines with the ends that at least two lines across have beyond them."""
    first, last = min(line.start for line in lines), max(line.end for line in lines)
    before = sum(line.start < places[0] - _OPEN for line in lines) > 1
    after = sum(line.end > places[-1] + _OPEN for line in lines) > 1
    return [*([first] if before else []), *places, *([last] if after else [])]


def _cells(
    high: int, wide: int, walls: set[tuple[int, int]], floors: set[tuple[int, int]]
) -> list[list[int]]:
    """Return the number of the cell at each place; what no line divides is one rectangle."""
    cells = [[-1] * wide for _ in range(high)]
    count = 0
    for row in range(high):
        for column in range(wide):
            if cells[row][column] >= 0:
                continue
            end, below = column + 1, row + 1
            while end < wide and (row, end) not in walls and cells[row][end] < 0:
                end += 1
            inner = range(column + 1, end)
            while (
                below < high
                and not any((below, at) in floors for at in range(column, end))
                and not any((below, at) in walls for at in inner)
            ):
                below += 1
            for line in cells[row:below]:
                line[column:end] = [count] * (end - column)
            count += 1
    return cells


def tables_of(places: Sequence[Place], pieces: Sequence[Piece]) -> list[Table]:
    """Return the tables among the grids of a page."""
    found = list[Table]()
    for place in sorted(places, key=lambda one: len(one.cells) * len(one.cells[0])):
        taken = frozenset[int]().union(*(table.pieces for table in found))
        free = [piece for piece in pieces if piece.at not in taken]
        inside = [one for one in free if place.holds((one.left + one.right) / 2, one.middle)]
        table = _table(place, inside)
        if table is not None:
            found.append(table)
    return sorted(found, key=lambda one: -one.place.rows[0])


def _table(place: Place, inside: Sequence[Piece]) -> Table | None:
    said: defaultdict[int, list[Piece]] = defaultdict(list)
    for piece in inside:
        row, column = place.at((piece.left + piece.right) / 2, piece.middle)
        said[place.cells[row][column]].append(piece)
    lines = {cell: clusters(pieces) for cell, pieces in said.items()}
    place = _without_text(place, lines)
    own = set().union(*place.cells)
    lines = {cell: rows for cell, rows in lines.items() if cell in own}
    if not lines or not _is_divided(place, lines):
        return None
    grid = _grid(place, lines)
    if len(place.cells) <= _FEW_ROWS:
        if not any(len(rows) >= _FEW_ROWS and is_prose(rows) for rows in lines.values()):
            grid = _printed(place, said, grid)
        elif sum(map(len, lines.values())) > _COLUMN * len(lines):
            return None
    filled = [[column for column, text in row.items() if text] for row in grid.rows]
    many = sum(len(columns) > 1 for columns in filled)
    if many < 2 or len({column for columns in filled for column in columns}) < 2:
        return None
    return Table(place, grid, frozenset(piece.at for cell in lines for piece in said[cell]))


def _without_text(place: Place, lines: dict[int, list[Row]]) -> Place:
    """Return a grid without the running text above and below it that a frame has around both."""
    first, last = 0, len(place.cells)
    while first < last and _is_text(place.cells[first], lines):
        first += 1
    while first < last and _is_text(place.cells[last - 1], lines):
        last -= 1
    return Place(place.columns, place.rows[first : last + 1], place.cells[first:last])


def _is_text(row: Sequence[int], lines: dict[int, list[Row]]) -> bool:
    return len(set(row)) == 1 and len(lines.get(row[0], ())) > _TITLE


def _is_divided(place: Place, lines: dict[int, list[Row]]) -> bool:
    """Say whether a grid has as many cells, and texts in them, as a table, and few labels."""
    count = len(set().union(*place.cells))
    if count < _DIVIDED * len(place.cells) * len(place.cells[0]) or len(lines) < _FILLED * count:
        return False
    labels = sum(_LABEL.match(rows[0][0].text) is not None for rows in lines.values())
    return labels * 2 < len(lines)


def _grid(place: Place, lines: dict[int, list[Row]]) -> Grid:
    first, last = dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
    for row, numbers in enumerate(place.cells):
        for column, cell in enumerate(numbers):
            first.setdefault(cell, (row, column))
            last[cell] = (row, column)
    grid = Grid([{} for _ in place.cells])
    for cell, rows in lines.items():
        (row, column), (bottom, right) = first[cell], last[cell]
        grid.rows[row][column] = cell_text(rows)
        if first[cell] != last[cell]:
            grid.merged.append(Merged(row, column, bottom - row + 1, right - column + 1))
    return grid


def cell_text(rows: Iterable[Row]) -> str:
    """Return what a cell says on one line; a hyphen at the end of a line is left to be judged."""
    whole = ""
    for row in rows:
        back = is_right_to_left(piece.text for piece in row)
        row = sorted(row, key=lambda one: -one.right if back else one.left)
        line = " ".join(piece.text for piece in row)
        if whole.endswith("\ufffe"):
            whole += line
        elif _HYPHEN.search(whole) and line[:1].isalpha():
            whole = f"{whole[:-1]}\ufffe{line}"
        else:
            whole = f"{whole} {line}" if whole else line
    return whole


def _printed(place: Place, said: dict[int, list[Piece]], grid: Grid) -> Grid:
    """Return a grid of few ruled rows with the lines of print in them as rows, where they are."""
    if any(cell.rows > 1 for cell in grid.merged):
        return grid
    found, begin = Grid(), list[int]()
    for row, cells in zip(grid.rows, place.cells, strict=True):
        begin.append(len(found.rows))
        found.rows += _lines_as_rows([said.get(cell, []) for cell in dict.fromkeys(cells)]) or [row]
    found.merged += [cell._replace(row=begin[cell.row]) for cell in grid.merged]
    return found


def _lines_as_rows(cells: Sequence[Sequence[Piece]]) -> list[dict[int, str]]:
    """Return the rows in a ruled row, if each has text in its first column and in another."""
    column_of = {piece.at: column for column, cell in enumerate(cells) for piece in cell}
    groups = list[list[Piece]]()
    for line in clusters(piece for cell in cells for piece in cell):
        columns = {column_of[piece.at] for piece in line}
        if 0 in columns and len(columns) < 2:
            return []
        if 0 in columns or not groups:
            groups.append([])
        groups[-1] += line
    if len(groups) <= _FEW_ROWS - 1:
        return []
    rows = list[dict[int, str]]()
    for group in groups:
        parts: defaultdict[int, list[Piece]] = defaultdict(list)
        for piece in group:
            parts[column_of[piece.at]].append(piece)
        rows.append({column: cell_text(clusters(found)) for column, found in parts.items()})
    return rows


class TablesOfPage(NamedTuple):
    """The tables of a page, from the top, and what else it says."""

    tables: list[Table]
    kept: list[Piece]


def over_pages(pages: Sequence[TablesOfPage]) -> int:
    """Give a table that goes on from the page before its head; return how many tables there are."""
    count = sum(len(page.tables) for page in pages)
    for page, other in pairwise(pages):
        if not page.tables or not other.tables:
            continue
        above, below = page.tables[-1], other.tables[0]
        if not (_alike(above.place, below.place) and _ends(page) and _begins(other)):
            continue
        head = _head(above.grid)
        first = _said(below.grid.rows[0])
        if any(_said(row) == first for row in above.grid.rows[:head]):
            count -= 1
        elif not _has_head(below, above.heavy):
            count -= 1
            _prepend(below.grid, above.grid, head)
    return count


def _alike(one: Place, other: Place) -> bool:
    """Say whether two grids have the same columns; they may stand at another place."""
    shift = other.columns[0] - one.columns[0]
    return len(one.columns) == len(other.columns) and all(
        abs(b - a - shift) <= SNAP for a, b in zip(one.columns, other.columns, strict=True)
    )


def _ends(page: TablesOfPage) -> bool:
    last = page.tables[-1]
    return not any(p.at not in last.pieces and p.middle < last.place.rows[-1] for p in page.kept)


def _begins(page: TablesOfPage) -> bool:
    first = page.tables[0]
    return not any(p.at not in first.pieces and p.middle > first.place.rows[0] for p in page.kept)


def _head(grid: Grid) -> int:
    """Return how many rows the titles and the head of a table take."""
    head = next((n for n, row in enumerate(grid.rows, 1) if len(_said(row)) > 1), 1)
    return max([head, *(cell.row + cell.rows for cell in grid.merged if cell.row < head)])


def _said(row: dict[int, str]) -> dict[int, str]:
    return {column: text.casefold() for column, text in row.items() if text}


def _has_head(table: Table, heavy: bool) -> bool:
    """Say whether a table begins with a head of its own: heavier, or without the others' digits."""
    if table.heavy:
        return True
    first, *others = table.grid.rows
    if heavy or has_digits("".join(first.values())):
        return False
    below = {column: [row[column] for row in others if row.get(column)] for column in first}
    return any(text and below[c] and all(map(has_digits, below[c])) for c, text in first.items())


def _prepend(grid: Grid, other: Grid, count: int) -> None:
    """Put the first rows of another grid in front of those of a grid."""
    grid.merged[:] = [
        *(cell for cell in other.merged if cell.row < count),
        *(cell._replace(row=cell.row + count) for cell in grid.merged),
    ]
    grid.rows[:0] = [dict(row) for row in other.rows[:count]]


def with_tables(page: TablesOfPage, texts: Sequence[str]) -> list[Piece]:
    """Return what a page says with each table of which it keeps a piece in its place, as one."""
    number_of = {at: number for number, one in enumerate(page.tables) for at in one.pieces}
    found, done = list[Piece](), set[int]()
    for piece in page.kept:
        number = number_of.get(piece.at)
        if number is None:
            found.append(piece)
        elif number not in done:
            done.add(number)
            columns, top = page.tables[number].place.columns, page.tables[number].place.rows[0]
            box = (columns[0], top - piece.height, columns[-1], top)
            found.append(Piece(piece.at, piece.line, "\n", f"\n{texts[number]}\n", *box))
    return found
