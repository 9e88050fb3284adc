"""The order in which the lines of a PDF page are read, from where they stand.

A file may print its page in any order. Where nothing stands before what was printed before it and
nothing stands side by side, its order stays. Columns of running text are read one after the other
(cuts along white space, after Nagy and Seth 1984); what only looks like columns, the cells of a
table, is read row by row. Where the place cannot tell the two apart, the order in which the file
prints them does: what is printed column by column is read so.
"""

from __future__ import annotations

import math
import re
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from ragstream_core.ingestion.parsers.engines import runs

_DEPTH = 4  # cuts inside of cuts
_GUTTER = 6.0  # points of white space at least between two columns
_NEAR = 4.0  # points: what comes so near to the middle of a gutter crosses it
_PAUSE = 1.4  # lines so many usual distances apart have a gap between them
_WORDS, _SIGNS = 3, 12  # so many words make a line of running text, or signs where none end
_PUNCTUATION = re.compile(r"[.,;:!?](?:\s|$)|[\u060c\u061f\u3001\u3002\uff0c\uff1f]")
_END = re.compile(r"[.:!?\u061f\u3002\uff1f]\W*$")
_RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LETTER = re.compile(r"[^\W\d_]")


class Piece(NamedTuple):
    """A stretch of one line, without wide white space in it.

    Attributes:
        at: Its place in the order in which the file prints the page.
        line: Number of its line in that order.
        glue: What the file has between it and the piece before it.
        text: What it says.
        left: Its box in points, with y growing upwards, of the page as it is shown.
        bottom: Likewise.
        right: Likewise.
        top: Likewise.
    """

    at: int
    line: int
    glue: str
    text: str
    left: float
    bottom: float
    right: float
    top: float

    @property
    def height(self) -> float:
        """How high its box is, in points."""
        return self.top - self.bottom

    @property
    def middle(self) -> float:
        """The y of the middle of its box, in points."""
        return (self.top + self.bottom) / 2


# Pieces of one height, in the order in which they are read.
Row = list[Piece]


def page_text(pieces: Sequence[Piece]) -> str:
    """Return the text of a page, printed in any order, in reading order."""
    parts = list[str]()
    before: Piece | None = None
    for row in in_reading_order(pieces):
        for piece in row:
            if before is not None:
                same = piece is not row[0]
                parts.append(_glue(before, piece, same_row=same))
            parts.append(piece.text)
            before = piece
    return "".join(parts)


def _glue(before: Piece, piece: Piece, *, same_row: bool) -> str:
    if before.at + 1 == piece.at:
        return piece.glue
    if before.text.endswith("\ufffe"):
        return ""
    return " " if same_row else "\n"


def in_reading_order(pieces: Sequence[Piece]) -> list[Row]:
    """Return the lines of a page from the first to the last; lines that stand upright come last."""
    upright = [one for one in pieces if is_upright(one)]
    if len(upright) * 4 > len(pieces):
        return _as_printed(pieces)
    level = [one for one in pieces if not is_upright(one)] if upright else pieces
    layout = _Layout(right_to_left=is_right_to_left(one.text for one in pieces))
    return layout.rows(level) + _as_printed(upright)


def is_right_to_left(texts: Iterable[str]) -> bool:
    """Say whether most letters are of scripts that are read from right to left."""
    whole = "".join(texts)
    if whole.isascii():
        return False
    found = len(_RIGHT_TO_LEFT.findall(whole))
    return found > 0 and found * 2 > len(_LETTER.findall(whole))


def clusters(pieces: Iterable[Piece]) -> list[Row]:
    """Return pieces from the top down, those of one height together."""
    rows = list[Row]()
    middle = high = -math.inf
    for double, piece in sorted(((-p.top - p.bottom, p) for p in pieces), key=itemgetter(0)):
        height = piece.top - piece.bottom
        if abs(middle - double) < min(high, height):
            rows[-1].append(piece)
        else:
            rows.append([piece])
            middle, high = double, height
    return rows


def usual_distance(rows: Sequence[Row]) -> float:
    """Return the median of the distances between lines, in points; 0 where there are none."""
    return statistics.median([a[0].middle - b[0].middle for a, b in pairwise(rows)] or [0.0])


def is_upright(piece: Piece) -> bool:
    """Say whether a piece is printed from below upwards or from above down."""
    return piece.height > 2 * (piece.right - piece.left) and len(piece.text) > 3


def _beside(one: Piece, other: Piece) -> bool:
    return abs(one.middle - other.middle) < min(one.height, other.height) / 2


def _as_printed(pieces: Sequence[Piece]) -> list[Row]:
    return [list(row) for _, row in groupby(pieces, key=lambda one: one.line)]


class _Layout(NamedTuple):
    """Orders the pieces of one page."""

    right_to_left: bool

    def rows(self, pieces: Sequence[Piece], depth: int = 0) -> list[Row]:
        """Return the lines of a part of a page."""
        found = clusters(pieces)
        gutter = None
        if depth < _DEPTH and any(len(row) > 1 for row in found):
            gutter = _gutter(pieces)
        if gutter is None:
            return self._one_column(pieces)
        parts = list[_Part]()
        for crossed, band in groupby(found, key=lambda row: _crosses(row, gutter)):
            rows = list(band)
            parts += [_part(rows, gutter)] if crossed else self._parts(rows, gutter)
        if not any(part.columns for part in parts):
            return self._one_column(pieces)
        return [row for part in parts for row in self._of_part(part, depth)]

    def _of_part(self, part: _Part, depth: int) -> list[Row]:
        if not part.columns:
            return self._one_column([*part.left, *part.right])
        sides = (part.right, part.left) if self.right_to_left else (part.left, part.right)
        return [row for side in sides for row in self.rows(side, depth + 1)]

    def _one_column(self, pieces: Sequence[Piece]) -> list[Row]:
        printed = sorted(pieces, key=lambda one: one.at)
        if not any(self._goes_back(a, b) for a, b in pairwise(printed)):
            return _as_printed(printed)
        rows = clusters(printed)
        for row in rows:
            row.sort(key=lambda one: -one.right if self.right_to_left else one.left)
        return rows

    def _goes_back(self, one: Piece, other: Piece) -> bool:
        """Say whether what is printed next stands before what was printed last."""
        if one.line == other.line:
            return False
        first, second = (other, one) if self.right_to_left else (one, other)
        return other.middle > one.top or (_beside(one, other) and second.right <= first.left)

    def _parts(self, rows: Sequence[Row], gutter: float) -> list[_Part]:
        """Cut a band where both sides have a gap and the kind of what they hold changes."""
        whole = _part(rows, gutter)
        white = min((p.left for p in whole.right), default=0.0)
        white -= max((p.right for p in whole.left), default=0.0)
        if not whole.left or not whole.right or white < _GUTTER:
            return [whole]
        if self._printed_apart(whole):
            return [whole._replace(columns=True)]
        pause = usual_distance(rows) * _PAUSE
        groups = runs(rows, lambda above, row: above[0].middle - row[0].middle > pause)
        parts = [_part(group, gutter) for group in groups]
        kinds = _settled([self._kind(part) for part in parts])
        in_rows = len(parts) > 2 and not any(_has_gap(part, pause) for part in parts)
        return _merged(parts, kinds, apart=in_rows)

    def _kind(self, part: _Part) -> bool | None:
        """Say whether the sides of a part are columns; None where it is too little to tell."""
        left, right = clusters(part.left), clusters(part.right)
        if self._printed_apart(part) and len(left) + len(right) > 2:
            return True
        if len(left) < 2 or len(right) < 2:
            return None
        return is_prose(left) and is_prose(right)

    def _printed_apart(self, part: _Part) -> bool:
        first, second = (part.right, part.left) if self.right_to_left else (part.left, part.right)
        if not first or not second:
            return False
        labels = sum(one.text.rstrip().endswith(":") for one in first) * 2 > len(first)
        return not labels and max(p.line for p in first) < min(p.line for p in second)


class _Part(NamedTuple):
    """What stands on the two sides of a gutter; ``columns``: to be read one after the other."""

    left: list[Piece]
    right: list[Piece]
    columns: bool = False


def _part(rows: Iterable[Row], gutter: float) -> _Part:
    pieces = [one for row in rows for one in row]
    left = [one for one in pieces if one.left + one.right < 2 * gutter]
    return _Part(left, [one for one in pieces if one.left + one.right >= 2 * gutter])


def _merged(parts: Sequence[_Part], kinds: Sequence[bool], *, apart: bool) -> list[_Part]:
    """Return the parts with those of one kind together; ``apart``: they are rows of a table."""
    found = list[_Part]()
    for part, columns in zip(parts, kinds, strict=True):
        if found and found[-1].columns == columns and not (columns and apart):
            found[-1].left.extend(part.left)
            found[-1].right.extend(part.right)
        else:
            found.append(part._replace(columns=columns))
    return found


def _settled(kinds: Sequence[bool | None]) -> list[bool]:
    """Give what is too little to tell the kind of what is above it, else of what is below it."""
    known = next((kind for kind in kinds if kind is not None), False)
    settled = list[bool]()
    for kind in kinds:
        known = known if kind is None else kind
        settled.append(known)
    return settled


def _has_gap(part: _Part, pause: float) -> bool:
    pairs = [*pairwise(clusters(part.left)), *pairwise(clusters(part.right))]
    return any(above[0].middle - row[0].middle > pause for above, row in pairs)


def _crosses(row: Row, gutter: float) -> bool:
    return any(one.left - _NEAR < gutter < one.right + _NEAR for one in row)


def _gutter(pieces: Sequence[Piece]) -> float | None:
    """Return the x that fewest pieces cross, with some on both sides; the middle of the widest."""
    starts, ends = sorted(p.left for p in pieces), sorted(p.right for p in pieces)
    ranks = []
    for here, after in pairwise(sorted({*starts, *ends})):
        begun, ended = bisect_right(starts, here), bisect_right(ends, here)
        if ended > 0 and begun < len(pieces) and after - here >= _GUTTER / 2:
            ranks.append((begun - ended, here - after, (here + after) / 2))
    crossing, _, middle = min(ranks, default=(len(pieces), 0.0, 0.0))
    return middle if crossing * 2 < len(pieces) else None


def is_prose(rows: Sequence[Row]) -> bool:
    """Say whether lines are running text: words enough, punctuation, and sentences that go on."""
    texts = [" ".join(one.text for one in row).strip() for row in rows]
    words = statistics.median(len(text.split()) for text in texts) >= _WORDS
    signs = statistics.median(map(len, texts)) >= _SIGNS and not any(" " in t for t in texts)
    if not (words or signs) or not any(map(_PUNCTUATION.search, texts)):
        return False
    going_on = sum(_goes_on(above, text) for above, text in pairwise(texts))
    return going_on * 3 >= len(texts) - 1


def _goes_on(above: str, text: str) -> bool:
    letter = _LETTER.search(text[:4])
    if letter is None or letter[0].islower() or letter[0].isupper():
        return letter is not None and letter[0].islower()
    return not _END.search(above)  # a script without capital letters
