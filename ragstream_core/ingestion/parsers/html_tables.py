"""Tables of HTML: what is none, which rows are the head, and where each cell stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from bs4 import BeautifulSoup
from bs4.element import NavigableString, Tag

from ragstream_core.ingestion.parsers.tables import Grid, Merged

_ROWS_IN = ("table", "thead", "tbody", "tfoot", "tr")
_IN_TABLES = frozenset([*_ROWS_IN[1:], "td", "th", "caption", "colgroup", "col"])
_PARTS = ["table", "td", "th", "tr", "thead", "tbody", "tfoot", "caption"]
_MARKS_OF_DATA = ("th", "thead", "caption")
_OF_PAGES = ["h1", "h2", "h3", "nav", "main", "article", "header", "footer"]
_ONE_ROW = 200  # a cell of more characters in a table of one row is no name of a column
_DEEPEST = 30  # tables in tables: what holds so many is looked at once for each of them
_NUMBERS = re.compile(r"[\d\s]+")


def mend_tables(soup: BeautifulSoup) -> None:
    """Do as browsers do: cells outside of a row are one, words outside of a cell stand above."""
    for form in soup.find_all("form"):
        if form.parent is not None and form.parent.name in _ROWS_IN:
            form.unwrap()
    for part in soup.find_all(list(_ROWS_IN)):
        table: Any = part if part.name == "table" else part.find_parent("table")
        children: list[Any] = list(part.children) if table is not None else []
        row = None
        for child in children:
            if child.name in ("td", "th") and part.name != "tr":
                if row is None:
                    row = child.wrap(soup.new_tag("tr"))
                else:
                    row.append(child)
            elif child.name in _IN_TABLES:
                row = None
            elif isinstance(child, Tag) or (type(child) is NavigableString and child.strip()):
                table.insert_before(child, " ")


def unfold_layouts(soup: BeautifulSoup) -> None:
    """Make blocks of tables that lay out a page or number the lines of a program."""
    depth, parts = dict[int, int](), dict[int, list[Tag]]()
    for tag in soup.find_all(_PARTS):
        above = tag.find_parent("table")
        if tag.name == "table":
            depth[id(tag)] = 1 + depth.get(id(above), 0)
        parts.setdefault(id(above), []).append(tag)
    for table in soup.find_all("table"):
        own = [tag for tag in parts.get(id(table), ()) if vars(tag).get("parent")]
        cells = [tag for tag in own if tag.name in ("td", "th")]
        is_deep = depth[id(table)] > _DEEPEST
        is_code = not is_deep and _is_program(table, own)
        if is_deep or is_code or _is_layout(table, own, cells):
            for cell in cells if is_code else ():
                if _NUMBERS.fullmatch(cell.get_text()) and cell.find("pre") is not None:
                    cell.decompose()
            for tag in [table, *own]:
                if tag.name != "table" or tag is table:
                    tag.name = "div"


def _is_program(table: Tag, own: list[Tag]) -> bool:
    """Return whether a table is a program, with the numbers of its lines beside it."""
    if any(tag.name in _MARKS_OF_DATA for tag in own):
        return False
    codes = [code.get_text() for code in table.find_all("pre")]
    if not any("\n" in code.strip() for code in codes):
        return False
    rows = sum(tag.name == "tr" for tag in own)
    return rows < 2 or sum(map(len, codes)) * 2 > len(table.get_text())


def _is_layout(table: Tag, own: list[Tag], cells: list[Tag]) -> bool:
    nested = sum(len(tag.get_text()) for tag in own if tag.name == "table")
    if len(cells) < 2 or nested * 2 > len(table.get_text()):
        return True
    if table.get("role") in ("presentation", "none"):
        return True
    if any(tag.name in _MARKS_OF_DATA for tag in own):
        return False
    if any(cell.find(_OF_PAGES) is not None and _is_more_than_heading(cell) for cell in cells):
        return True
    rows = sum(tag.name == "tr" for tag in own)
    return rows < 2 and any(len(cell.get_text()) > _ONE_ROW for cell in cells)


def _is_more_than_heading(cell: Tag) -> bool:
    said = sum(len(tag.get_text()) for tag in cell.find_all(["h1", "h2", "h3"]))
    return len(cell.get_text().strip()) > said * 2


def grid_of(table: Tag, texts: Mapping[int, str]) -> Grid:
    """Return the cells of a table; several rows of heads are joined to one."""
    rows = [tr for tr in table.find_all("tr") if tr.find_parent(["table", "td", "th"]) is table]
    rows.sort(key=lambda tr: _PLACES.get(tr.parent.name if tr.parent else "", 1))
    grid, taken = Grid(), dict[int, int]()  # taken: how many rows a column is still covered
    for n, tr in enumerate(rows):
        cells, column = dict[int, str](), 0
        own = tr.find_all(["td", "th"], recursive=False)
        for cell in own:
            while taken.get(column, 0) > n:
                column += 1
            cells[column] = texts.get(id(cell), "")
            width = min(1000, max(1, whole(cell, "colspan", 1)))
            height = whole(cell, "rowspan", 1) or len(rows)  # 0: all that follow
            height = min(max(1, height), len(rows) - n)
            taken |= dict.fromkeys(range(column, column + width), n + height)
            is_title = len(own) == 1 and cell.name == "th"  # of the rows below
            if height > 1 or (width > 1 and not is_title):
                grid.merged.append(Merged(n, column, height, width))
            column += width
        grid.rows.append(cells)
    first = next((n for n, row in enumerate(grid.rows) if len(row) > 1), len(rows))
    are_heads = (
        _is_head(tr) and (n <= first or len(grid.rows[n]) > 1) for n, tr in enumerate(rows)
    )
    heads = len(list(takewhile(bool, are_heads)))
    heads = heads if heads > first else _heads_by_shape(grid, first)
    if heads - first > 1 and heads < len(rows):
        _join_heads(grid, first, heads)
    return grid


# Where rows are shown, wherever they stand; others between the two.
_PLACES = {"thead": 0, "tfoot": 2}


def _is_head(tr: Tag) -> bool:
    cells = tr.find_all(["td", "th"], recursive=False)
    in_head = tr.parent is not None and tr.parent.name == "thead"
    return in_head or all(cell.name == "th" or not cell.get_text(strip=True) for cell in cells)


def _heads_by_shape(grid: Grid, first: int) -> int:
    """Return where the heads end, if the first row is merged as only heads are: down and across.

    A blank first cell above the names of the rows is as good as one merged downwards.
    """
    merged = [cell for cell in grid.merged if cell.row == first]
    tall = {cell.rows for cell in merged if cell.rows > 1 and cell.columns == 1}
    is_wide = any(cell.columns > 1 and cell.rows == 1 for cell in merged)
    if not is_wide or len(tall) > 1:
        return first
    is_blank = not grid.rows[first].get(0, "").strip()
    return first + (tall.pop() if tall else 1 + is_blank)


def _join_heads(grid: Grid, first: int, end: int) -> None:
    """Write several rows of heads as one: below "2024" stands "Load", so it is "2024 Load"."""
    said = dict[int, list[str]]()
    spans = {(cell.row, cell.column): cell for cell in grid.merged}
    for n in range(first, end):
        for column, text in grid.rows[n].items():
            span = spans.get((n, column), Merged(n, column, 1, 1))
            for covered in range(column, column + span.columns):
                above = said.setdefault(covered, [])
                above += [text.strip()] if text.strip() and text.strip() not in above else []
    grid.rows[first:end] = [{column: " ".join(texts) for column, texts in said.items()}]
    kept = [cell for cell in grid.merged if cell.row < first]
    below = [cell for cell in grid.merged if cell.row >= end]
    grid.merged = [*kept, *(cell._replace(row=cell.row - (end - first - 1)) for cell in below)]


def labelled(table: Tag) -> list[tuple[Tag, Tag]]:
    """Return name and value of each row of a table that has no other rows; else nothing."""
    pairs, named = list[tuple[Tag, Tag]](), False
    for tr in table.find_all("tr"):
        if tr.find_parent("table") is not table:
            continue
        cells = tr.find_all(["td", "th"], recursive=False)
        is_named = [cell.name for cell in cells] == ["th", "td"]
        if not (is_named or len(cells) == 1) or any(cell.has_attr("rowspan") for cell in cells):
            return []
        named = named or is_named
        pairs.append((cells[0], cells[-1]))
    return pairs if named else []


def whole(tag: Tag, attribute: str, default: int) -> int:
    """Return the whole number that an attribute holds; what is none counts as missing."""
    text = str(tag.get(attribute, "")).strip()
    return int(text) if re.fullmatch(r"-?\d{1,6}", text) else default
