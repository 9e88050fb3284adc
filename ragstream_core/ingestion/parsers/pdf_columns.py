"""Tables of a PDF without ruling lines: short cells in columns under a head.

Runs in the child process only. A head shows by what is below it: values, or lighter print. What may
be something else, such as columns of text, lists, contents, addresses, code or formulas, stays
running text.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ragstream_core.ingestion.parsers.pdf_layout import (
    Piece,
    Row,
    clusters,
    is_prose,
    is_right_to_left,
    is_upright,
)
from ragstream_core.ingestion.parsers.pdf_lines import SNAP
from ragstream_core.ingestion.parsers.pdf_tables import Place, Table, cell_text
from ragstream_core.ingestion.parsers.tables import Grid, has_digits

_GAP = 5.0  # points of white space between two columns at least
_NEAR = 0.5  # points: distances that differ by no more are equal
_FAR, _PAUSE = 4.0, 2.2  # heights of print and least distances of rows that end a table
_ROWS = 3  # below the head at least; one more where only its print tells it
_LONGEST = 60  # characters of a cell
_FEW_WORDS = 3  # a cell on average, where only the print of the head tells a table
_TRIES = 40  # blocks of a page that are looked at: one with more is a drawing
_VALUE = re.compile(
    r"(?:[A-Z]{3} ?|[^\w\s]{1,2} ?)?[^\s\d]*\d\S*(?: \S+){0,2}|[A-Z][a-z]{2,8}\.? \d{1,2}, \d{4}"
)
_NUMBER = re.compile(r"[^\w\s]{0,2} ?\d[\d.,:/\u2019' -]*(?: ?[^\W\d]{1,4}| ?%)?")
_YEAR = re.compile(r"(?:\D* )?(?:(?:19|20)\d\d|[A-Z][1-4])(?: \D*|[/ -]\d\d(?:\d\d)?)?")
_NONE = re.compile(r"[-\u2013\u2014]|n/?a|N/?A|")
_OTHER = re.compile(  # leaders, marks of a list, labels, code and formulas
    r"\.{3}|(?:\. ){2}|\u2026|^(?:\(?\w{1,2}[.)]|[\u2022\u25aa\u25cf\u2023*])(?:\s|$)"
    r"|:$|[;{}=]|//|/\*"
)


class _Block(NamedTuple):
    """Rows of a page whose pieces stand in columns; what goes on in a cell is with its row."""

    rows: list[dict[int, list[Piece]]]
    spans: list[tuple[float, float]]


def tables_in_columns(
    pieces: Sequence[Piece], heavier: Callable[[Piece, Piece], bool]
) -> list[Table]:
    """Return the tables, from the top, among what a page prints outside of ruled ones."""
    rows = clusters(one for one in pieces if not is_upright(one))
    if sum(len(row) > 1 for row in rows) <= _ROWS or is_right_to_left(p.text for p in pieces):
        return []
    found, start, tries = list[Table](), 0, 0
    while start < len(rows) - _ROWS and tries < _TRIES:
        block, count = _block(rows, start)
        tries += len(block.rows) > _ROWS
        table = _table(block, heavier) if len(block.rows) > _ROWS else None
        found += [table] if table else []
        start += count if table else 1
    return found


def _block(rows: Sequence[Row], start: int) -> tuple[_Block, int]:
    """Return the rows from one on that stand in its columns, and how many lines they take."""
    head = sorted(rows[start], key=lambda one: one.left)
    spans = [(one.left, one.right) for one in head]
    block, count, least = [{n: [one] for n, one in enumerate(head)}], 1, math.inf
    if len(head) < 2 or any(b[0] - a[1] < _GAP for a, b in pairwise(spans)):
        return _Block(block, spans), count
    for number in range(start + 1, len(rows)):
        row, distance = rows[number], _distance(rows, number)
        least = min(least, distance)
        if distance > min(row[0].height * _FAR, least * _PAUSE):
            break
        first = min(row, key=lambda one: one.left)
        if count == 1 and first.right + _GAP <= spans[0][0]:  # the head has no name for the first
            spans.insert(0, (first.left, first.right))
            block = [{n + 1: cell for n, cell in block[0].items()}]
        cells = {_column(spans, one): one for one in row}
        if -1 in cells or len(cells) < len(row):
            break
        goes_on = 0 not in cells and not any(_VALUE.fullmatch(p.text) for p in cells.values())
        if goes_on:
            if not set(cells) <= set(block[-1]) or distance > _distance(rows, number + 1) + _NEAR:
                break  # it may belong to the row below it
        elif len(cells) < 2 or len(cells) * 2 < len(spans):
            break
        else:
            block.append({})
        for column, one in cells.items():
            block[-1].setdefault(column, []).append(one)
            spans[column] = min(spans[column][0], one.left), max(spans[column][1], one.right)
        count += 1
    if count > 1 and _distance(rows, start + 1) > least * _PAUSE:
        return _Block(block[:1], spans), 1  # such as the title of a page
    return _Block(block, spans), count


def _distance(rows: Sequence[Row], number: int) -> float:
    """Return how far below the line before it a line stands."""
    if number == len(rows):
        return math.inf
    return rows[number - 1][0].middle - rows[number][0].middle


def _column(spans: Sequence[tuple[float, float]], piece: Piece) -> int:
    """Return the one column that a piece stands in, else -1."""
    near = [
        number for number, (left, right) in enumerate(spans)
        if piece.left < right + _GAP and left - _GAP < piece.right
    ]  # fmt: skip
    return near[0] if len(near) == 1 else -1


def _table(block: _Block, heavier: Callable[[Piece, Piece], bool]) -> Table | None:
    rows = [{c: cell_text([one] for one in row[c]) for c in sorted(row)} for row in block.rows]
    if any(len(t) > _LONGEST or _OTHER.search(t) for row in rows for t in row.values()):
        return None
    below, texts = defaultdict[int, list[Piece]](list), defaultdict[int, list[str]](list)
    for row, said in zip(block.rows[1:], rows[1:], strict=True):
        for column, text in said.items():
            below[column] += row[column]
            texts[column] += [] if _NONE.fullmatch(text) else [text]
    if not set(rows[0]) <= set(texts) or len(rows[0]) < 2:
        return None
    values = {c for c, found in texts.items() if found and all(map(_VALUE.fullmatch, found))}
    in_rows = max(p.line for p in below[0]) >= min(p.line for p in below[1])
    apart = any(not _aligned(cells) for c, cells in below.items() if c not in values)
    if not in_rows or apart or any(is_prose([[p] for p in cells]) for cells in below.values()):
        return None
    first, last = min(block.rows[0].items())[1][0], min(block.rows[-1].items())[1][0]
    if not _has_head(rows[0], texts, values, heavy=heavier(first, last), count=len(rows) - 1):
        return None
    own = [one for row in block.rows for cell in row.values() for one in cell]
    edges = [*(left for left, _ in block.spans), block.spans[-1][1]]
    ends = [max(one.top for one in own), min(one.bottom for one in own)]
    return Table(Place(edges, ends, []), Grid(rows), frozenset(p.at for p in own), heavy=True)


def _aligned(cells: Sequence[Piece]) -> bool:
    """Say whether the cells of a column begin, end or have their middle at one x."""
    sides = [[p.left, p.right, (p.left + p.right) / 2] for p in cells]
    return any(max(side) - min(side) <= SNAP for side in zip(*sides, strict=True))


def _has_head(
    head: dict[int, str], texts: dict[int, list[str]], values: set[int], *, heavy: bool, count: int
) -> bool:
    """Say whether the first row names the columns."""
    if len(texts) == 2:
        values = {c for c in values if all(map(_NUMBER.fullmatch, texts[c]))}
    values = {c for c in values if c in head and len(texts[c]) >= _ROWS}
    dated = {c for c, text in head.items() if has_digits(text)}
    named = any(not _NONE.fullmatch(head[c]) for c in values - dated)
    if not dated:
        names = heavy and len(texts) > 2 and count > _ROWS
        return named or (names and all(map(_is_names, texts.values())))
    if heavy and named:
        return True
    below = [text for c in dated for text in texts[c]]
    years = all(_YEAR.fullmatch(head[c]) for c in dated) and not any(map(_YEAR.fullmatch, below))
    return years and len(dated & values) > 1


def _is_names(texts: Sequence[str]) -> bool:
    """Say whether the cells of a column are of one kind and of few words, as no address is."""
    words = sum(len(text.split()) for text in texts)
    return len(set(map(has_digits, texts))) < 2 and words <= _FEW_WORDS * len(texts)
