"""What is printed on each page of a PDF only because it is a page: headers, footers, page numbers.

Content is never worth less than a clean text, so a line goes only where nothing tells it apart from
one of these: it stands in the margin, apart from the text; and it is a page number, or what stands
at the same place of all pages, or of all left or all right ones, where no page has anything else.
The first of each kind stays. What may be a result, a warning or the head of a table stays on all.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple

from ragstream_core.ingestion.parsers.engines import runs
from ragstream_core.ingestion.parsers.pdf_layout import Piece, Row, clusters, usual_distance

# Running lines are among so many outer lines of a page, within this share of its height.
MARGIN, EDGE_LINES = 0.15, 4

# At least so many pages have one: so much of all pages, or of all left or right ones; page numbers
# stand on so much of all pages.
MIN_PAGES, MOST, NUMBERED = 3, 0.75, 0.5

_APART = 1.3  # so many usual distances lie between the margin's lines and the text
_DOUBLE = 2.5  # heights of a line: the usual distance is never taken for more
_FAR = 0.12  # of the height of a page: what stands farther away in a line is judged by itself
_SAME = 4.0  # points: what stands no farther away is at the same place
_NEAR = range(-2, 3)  # of these: what stands no farther away is on the same line
_GAP = 2  # pages from one page number to the next
_PAGE_WORDS = frozenset(
    ["page", "pages", "pag", "pág", "página", "p", "pp", "seite", "s", "blatt", "sheet", "of",
     "von", "de", "di", "aus", "sur", "av", "van", "第", "页", "頁", "ページ", "共", "стр", "из"]
)  # fmt: skip
_SIGNAL_WORDS = frozenset(  # of safety signs (ISO 3864, ANSI Z535)
    ["danger", "warning", "caution", "notice", "important", "gefahr", "warnung", "vorsicht",
     "achtung", "hinweis", "wichtig", "avertissement", "attention", "avis", "prudence",
     "peligro", "advertencia", "precaución", "atención", "aviso", "pericolo", "avvertenza"]
)  # fmt: skip
_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_NUMBER = re.compile(r"\d{1,5}|[ivxlc]{1,8}")
_NO_PAGE = re.compile(r"\d[.,]\d|^[-\u2212]\d+$|[^\w\s./|()\[\]:\u00b7\u2022\u2013\u2014-]")
_DIVIDED = re.compile(r"\s{3,}|\s[|\u00b7\u2022\u2013\u2014]\s")
_VALUE = re.compile(r"[^\W\d][^:\d]*:\s+\S")
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


class PrintedPage(NamedTuple):
    """A page as it is printed.

    Attributes:
        number: From 1.
        height: In points.
        pieces: In the order in which the file prints them.
    """

    number: int
    height: float
    pieces: list[Piece]


class _Edge(NamedTuple):
    """Pieces in the margin of a page that belong together.

    Attributes:
        page: Its number.
        line: The edge of the page, and how far away: the same for all of one line.
        text: Its words without a page number; may be empty.
        left: Where it begins; equal texts at equal places are equal lines.
        numbers: What may be page numbers.
        pieces: What it is made of.
    """

    page: int
    line: tuple[str, int]
    text: str
    left: int
    numbers: tuple[int, ...]
    pieces: Row

    @property
    def key(self) -> tuple[str, tuple[str, int], int]:
        """Equal for what is the same at the same place."""
        return self.text, self.line, self.left


def without_running_lines(pages: Sequence[PrintedPage]) -> tuple[list[list[Piece]], list[str]]:
    """Return the pieces of each page without its running lines, and one of each that was left out.

    Of a page that holds nothing else, nothing is returned.
    """
    edges = [edge for page in pages for edge in _edges(page)]
    recurring = _recurring(edges, {page.number for page in pages if page.pieces})
    counting = _counting(edges, len(pages))
    gone: defaultdict[int, set[int]] = defaultdict(set)
    left_out, seen = dict[str, str](), set[str]()
    for _, found in groupby(edges, key=lambda edge: (edge.page, edge.line)):
        line = list(found)
        texts = {edge.text for edge in line if edge.text}
        known = all(edge.key in recurring for edge in line if edge.text) and texts <= seen
        seen |= texts
        for edge in line:
            counted = all((edge.page, number) in counting for number in edge.numbers)
            if counted and (known or not edge.text):
                gone[edge.page] |= {piece.at for piece in edge.pieces}
                whole = " ".join(piece.text for piece in edge.pieces)
                left_out.setdefault(edge.text or "#", whole)
    kept = [[one for one in page.pieces if one.at not in gone[page.number]] for page in pages]
    return kept, list(left_out.values())


def _edges(page: PrintedPage) -> list[_Edge]:
    """Return what stands in the margins of a page, apart from its text."""
    rows = clusters(page.pieces)
    high = median(row[0].height for row in rows) * _DOUBLE if rows else 0.0
    apart = _APART * min(usual_distance(rows) or high, high)
    found = list[_Edge]()
    for edge, order in (("top", rows), ("bottom", rows[::-1])):
        count = 0
        for at, row in enumerate(order[:EDGE_LINES]):
            if _distance(page, row, edge) > MARGIN * page.height:
                break
            below = order[at + 1] if at + 1 < len(order) else None
            if below is None or abs(row[0].middle - below[0].middle) > apart:
                count = at + 1
        for row, below in zip(order[:count], [*order[1 : count + 1], []][:count], strict=True):
            if edge == "bottom" or not _is_head(row, below):
                found += _divided(page, row, edge)
    return found


def _distance(page: PrintedPage, row: Row, edge: str) -> float:
    return page.height - row[0].middle if edge == "top" else row[0].middle


def _is_head(row: Row, below: Row) -> bool:
    """Say whether each of several texts stands over one of the line below it, as in a table."""
    if len(row) < 2 or any(_page_number(one.text) is not None for one in row):
        return False
    return all(any(_over(one, other) for other in below) for one in row)


def _over(one: Piece, other: Piece) -> bool:
    left, right = one.left - other.left, one.right - other.right
    return min(abs(left), abs(right), abs(left + right) / 2) < _SAME


def _divided(page: PrintedPage, row: Row, edge: str) -> list[_Edge]:
    """Return the parts of a line that stand far from each other."""
    pieces, far = sorted(row, key=lambda one: one.left), _FAR * page.height
    groups = runs(pieces, lambda one, other: other.left - one.right > far)
    line = (edge, round(_distance(page, row, edge) / _SAME))
    found = []
    for group in groups:
        parts = _DIVIDED.split(" ".join(piece.text for piece in group))
        numbers = [_page_number(part) for part in parts]
        words = [part for part, number in zip(parts, numbers, strict=True) if number is None]
        text = " ".join(" ".join(words).split()).casefold()
        counts = tuple(number for number in numbers if number is not None)
        found.append(_Edge(page.number, line, text, round(group[0].left / _SAME), counts, group))
    return found


def _page_number(text: str) -> int | None:
    """Return the number of a text that may be a page number, alone or with ``page`` and ``of``."""
    words = text.casefold().strip()
    if len(words) > 30 or _NO_PAGE.search(words):
        return None
    tokens = _TOKEN.findall(words)
    others = [token for token in tokens if token not in _PAGE_WORDS]
    if not 1 <= len(others) <= 2 or not _NUMBER.fullmatch(others[0]):
        return None
    return _value(others[0]) if all(map(str.isdecimal, others[1:])) else None


def _value(number: str) -> int:
    if number.isdecimal():
        return int(number)
    values = [_ROMAN[letter] for letter in number]
    return sum(-a if a < b else a for a, b in pairwise([*values, 0]))


def _recurring(edges: Sequence[_Edge], pages: set[int]) -> set[tuple[str, tuple[str, int], int]]:
    """Return the keys of texts that stand on nearly all pages, or nearly all left or right ones."""
    where: defaultdict[tuple[str, tuple[str, int], int], set[int]] = defaultdict(set)
    lines: defaultdict[tuple[str, int], set[tuple[int, str]]] = defaultdict(set)
    for edge in edges:
        if edge.text:
            where[edge.key].add(edge.page)
            lines[edge.line].add((edge.page, edge.text))
    found = set()
    for key, on in where.items():
        side, away = key[1]
        near = (lines.get((side, away + step), set()) for step in _NEAR)  # boxes fit their letters
        others = set[tuple[int, str]]().union(*near)
        sides = {number % 2 for number in on}
        due = {number for number in pages if number % 2 in sides}
        differs = any(page in due - on for page, _ in others)
        varied = len({text for page, text in others if page not in due}) > 1
        enough = len(on) >= max(MIN_PAGES, MOST * len(due))
        if enough and not differs and not varied and not _says(key[0]):
            found.add(key)
    return found


def _says(text: str) -> bool:
    """Say whether a text may be a value or a warning, which is worth something on each page."""
    first = _TOKEN.search(text)
    return "!" in text or bool(_VALUE.match(text)) or bool(first and first[0] in _SIGNAL_WORDS)


def _counting(edges: Iterable[_Edge], pages: int) -> set[tuple[int, int]]:
    """Return (page, number) of the numbers that count the pages, on pages close to each other."""
    by_offset: defaultdict[int, set[int]] = defaultdict(set)
    for edge in edges:
        for number in edge.numbers:
            by_offset[number - edge.page].add(edge.page)
    found = set[tuple[int, int]]()
    for offset, on in by_offset.items():
        for run in runs(sorted(on), lambda page, other: other - page > _GAP):
            found |= {(page, page + offset) for page in run if len(run) >= MIN_PAGES}
    return found if len({page for page, _ in found}) >= NUMBERED * pages else set()
