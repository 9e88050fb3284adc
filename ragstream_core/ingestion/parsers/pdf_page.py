"""What a PDF page prints and where: pieces of its lines, with powers marked.

Runs in the child process only. Boxes are asked for once for each stretch that the file prints at
once, never for each sign.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from ctypes import byref, c_double, create_string_buffer
from typing import Any, NamedTuple

from ragstream_core.ingestion.parsers.pdf_layout import Piece, is_right_to_left

# A page with more lines is one piece: it is read as it is printed.
MAX_LINES = 4_000

_WIDE = 0.8  # white space of so many heights divides a line
_CLOSE = 0.4  # likewise: what is not farther away is printed right beside it
_SHIFT = 0.2  # likewise: how much higher it begins if it may be a power
_SINK = 0.05  # likewise: how much lower if it may be an index
_LONG = 5.0  # likewise: what is longer is neither
_THIN = 0.15  # likewise: white space that is none inside of a word
_TOUCH = 0.5  # points that a sign may reach over a line
_RAISED, _LOWERED = 0.15, -0.08  # of the size of the print: where a power and an index begin
_SMALL = re.compile(r"[-\u2212\u2013+]?\d[\d.,]*")
_NAME = 200  # bytes of the name of a font
_BOLD = re.compile("bold|black|heavy|demi", re.IGNORECASE)

Box = tuple[float, float, float, float]
Turned = Callable[[float, float], tuple[float, float]]


class Stretch(NamedTuple):
    """Where something stands that is printed at once, in points of the page as it is shown."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def height(self) -> float:
        """How high it is, in points."""
        return self.top - self.bottom


class Walls(NamedTuple):
    """The lines of a table, which divide what stands beside, above and below them.

    Attributes:
        columns: The x of upright ones, from the left.
        rows: The y of level ones, from the top.
    """

    columns: Sequence[float]
    rows: Sequence[float]

    def inside(self, box: Stretch) -> tuple[list[float], list[float]]:
        """Return the x of lines across a box of the page, and the y of lines along it."""
        apart = box.top < self.rows[-1] or self.rows[0] < box.bottom
        if apart or box.right < self.columns[0] or self.columns[-1] < box.left:
            return [], []
        return (
            [x for x in self.columns if box.left < x < box.right],
            [y for y in self.rows if box.bottom + _TOUCH < y < box.top - _TOUCH],
        )


def turned(page: Any) -> Turned:
    """Return what gives the place on the page as it is shown, from its lower left corner."""
    left, bottom, right, top = page.get_bbox()
    wide, high = right - left, top - bottom
    places: dict[int, Turned] = {
        90: lambda x, y: (y - bottom, wide - (x - left)),
        180: lambda x, y: (wide - (x - left), high - (y - bottom)),
        270: lambda x, y: (high - (y - bottom), x - left),
    }
    return places.get(page.get_rotation(), lambda x, y: (x - left, y - bottom))


def stretch(box: Box, place: Turned) -> Stretch:
    """Return a box of the file as it is shown; at the corner if its numbers are none."""
    (a, b), (c, d) = place(box[0], box[1]), place(box[2], box[3])
    if not all(map(math.isfinite, (a, b, c, d))):
        return Stretch(0.0, 0.0, 0.0, 0.0)
    return Stretch(min(a, c), min(b, d), max(a, c), max(b, d))


def pieces_of(page: Any, layer: Any, place: Turned, walls: Sequence[Walls] = ()) -> list[Piece]:
    """Return the pieces of a page as the file prints them, none on two sides of a table's walls."""
    text = layer.get_text_range(errors="replace")
    lines = text.split("\r\n")
    if len(lines) > MAX_LINES:
        return [Piece(0, 0, "", _plain(text), 0.0, 0.0, *page.get_size())]
    reader = _Reader(layer, place, walls, exact=_units(text) == layer.count_chars())
    at = 0
    for line in lines:
        units = _units(line)
        reader.take(line, at, units)
        at += units + 2
    return reader.pieces


def is_heavier(page: Any, layer: Any, one: Piece, other: Piece) -> bool:
    """Say whether a piece is printed heavier than another; a turned page does not tell."""
    return page.get_rotation() == 0 and _weight(page, layer, one) > _weight(page, layer, other)


def is_bolder(page: Any, layer: Any, one: Piece, other: Piece) -> bool:
    """Say whether a piece is printed heavier than another, or in a font whose name says so."""
    if is_heavier(page, layer, one, other):
        return True
    bold = [_BOLD.search(_font(page, layer, piece)) is not None for piece in (one, other)]
    return page.get_rotation() == 0 and bold == [True, False]


def _weight(page: Any, layer: Any, piece: Piece) -> int:
    """Return the weight of the print of a piece in the file's own units; -1 if it is not told."""
    import pypdfium2.raw as pdfium

    sign = _sign_in(page, layer, piece)
    return int(pdfium.FPDFText_GetFontWeight(layer, sign)) if sign >= 0 else -1


def _font(page: Any, layer: Any, piece: Piece) -> str:
    """Return the name of the font of a piece, such as ``ABCDEF+Lato-Bold``."""
    import pypdfium2.raw as pdfium

    name = create_string_buffer(_NAME)
    pdfium.FPDFText_GetFontInfo(layer, _sign_in(page, layer, piece), name, _NAME, None)
    return name.value.decode("utf-8", "replace")


def _sign_in(page: Any, layer: Any, piece: Piece) -> int:
    import pypdfium2.raw as pdfium

    left, bottom, _, _ = page.get_bbox()
    x, y, near = left + piece.left, bottom + piece.middle, piece.height / 2
    return int(pdfium.FPDFText_GetCharIndexAtPos(layer, x, y, near, near))


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


class _Reader:
    """Collects the pieces of a page, line by line."""

    def __init__(self, layer: Any, place: Turned, walls: Sequence[Walls], *, exact: bool) -> None:
        self.pieces: list[Piece] = []
        self._layer = layer.raw
        self._walls = walls
        self._place = place
        self._exact = exact
        self._glue = ""
        self._line = self._start = 0
        self._before: tuple[Stretch, int] | None = None  # and the number of the sign that ends it

    def take(self, line: str, at: int, units: int) -> None:
        """Read one line, whose first sign has the number ``at`` of the text."""
        if not line.strip():
            self._glue += "\n"
            return
        start = self._start = at if self._exact else self._sign(at)
        found = self._stretches(start, units) or [Stretch(0.0, 0.0, 0.0, 0.0)]
        goes_on = self._before is not None and _goes_on(self._before[0], found[0])
        if not goes_on:
            self._line += 1
        glue = ("" if goes_on and not line[0].isspace() else " ") if goes_on else self._glue
        self._divide(line, start, units, found, glue, goes_on=goes_on)
        self._glue = "\n"
        self._before = (found[-1], start + len(line.rstrip()) - 1)

    def _sign(self, at: int) -> int:
        import pypdfium2.raw as pdfium

        return int(pdfium.FPDFText_GetCharIndexFromTextIndex(self._layer, at))

    def _stretches(self, start: int, units: int) -> list[Stretch]:
        import pypdfium2.raw as pdfium

        left, top, right, bottom = c_double(), c_double(), c_double(), c_double()
        found = []
        for number in range(pdfium.FPDFText_CountRects(self._layer, start, units)):
            pdfium.FPDFText_GetRect(
                self._layer, number, byref(left), byref(top), byref(right), byref(bottom)
            )
            box = (left.value, bottom.value, right.value, top.value)
            found.append(stretch(box, self._place))
        return found

    def _divide(
        self, line: str, start: int, units: int, found: list[Stretch], glue: str, *, goes_on: bool
    ) -> None:
        """Add the pieces of a line: cut at wide white space, with powers marked."""
        whole = _union(found)
        plain = units != len(line) or is_right_to_left([line]) or _is_upright(whole, line)
        cuts, marks = [0], dict[int, str]()
        groups = [found[:1]]
        if goes_on and self._before is not None and not plain:
            ends = self._first(start, units, 1) if len(found) > 1 else len(line)
            if sign := self._mark(self._before[0], found[0], line[:ends], start, self._before[1]):
                marks[0] = sign
        for number in range(1, len(found)):
            one, other = found[number - 1], found[number]
            if not plain and _breaks(one, other):
                cuts.append(self._first(start, units, number))
                groups.append([])
            elif not plain and _shifted(one, other):
                here = self._first(start, units, number)
                last = number + 1 == len(found)
                ends = len(line) if last else self._first(start, units, number + 1)
                sign = ""
                if here and not line[here - 1].isspace():
                    sign = self._mark(one, other, line[here:ends], start + here, start + here - 1)
                if sign:
                    marks[here] = sign
            groups[-1].append(other)
        self._add(line, cuts, marks, groups, glue)

    def _add(
        self, line: str, cuts: list[int], marks: dict[int, str], groups: list[list[Stretch]],
        glue: str,
    ) -> None:  # fmt: skip
        for begin, end, group in zip(cuts, [*cuts[1:], len(line)], groups, strict=True):
            for first, last, box in self._between_walls(line, begin, end, _union(group)):
                parts, at = [], first
                for place in sorted(place for place in marks if first <= place < last):
                    parts += [line[at:place], marks[place]]
                    at = place
                text = _plain("".join([*parts, line[at:last]]))
                said = text.strip()
                if not said:
                    continue
                self.pieces.append(Piece(len(self.pieces), self._line, glue, said, *box))
                gap = text[len(text.rstrip()) :].replace("\n", " ")
                glue = gap if last == end else gap or " "

    def _between_walls(
        self, line: str, begin: int, end: int, box: Stretch
    ) -> list[tuple[int, int, Stretch]]:
        """Return a part of a line as the parts between the lines of a table."""
        columns, rows = list[float](), list[float]()
        for wall in self._walls:
            across, along = wall.inside(box)
            columns, rows = columns + across, rows + along
        if not (columns or rows) or len(line) != _units(line):
            return [(begin, end, box)]
        found, group = list[tuple[int, int, Stretch]](), list[Stretch]()
        at = begin
        for number in range(begin, end):
            if line[number].isspace():
                continue
            sign = self._box(self._start + number)
            if group and _divides(columns, rows, group[-1], sign, line[number - 1]):
                found.append((at, number, _union(group)))
                at, group = number, []
            group.append(sign)
        return [*found, (at, end, _union(group or [box]))]

    def _box(self, sign: int) -> Stretch:
        import pypdfium2.raw as pdfium

        left, right, bottom, top = c_double(), c_double(), c_double(), c_double()
        pdfium.FPDFText_GetCharBox(
            self._layer, sign, byref(left), byref(right), byref(bottom), byref(top)
        )
        return stretch((left.value, bottom.value, right.value, top.value), self._place)

    def _first(self, start: int, units: int, number: int) -> int:
        """Return where in the line a stretch begins."""
        import pypdfium2.raw as pdfium

        def stretches(count: int) -> int:
            return int(pdfium.FPDFText_CountRects(self._layer, start, count))

        return bisect_right(range(1, units), number, key=stretches)

    def _mark(self, one: Stretch, other: Stretch, text: str, here: int, before: int) -> str:
        """Return the sign between a number or word and small digits above or below its line."""
        import pypdfium2.raw as pdfium

        if not _shifted(one, other) or not _SMALL.fullmatch(text.strip()):
            return ""
        size = pdfium.FPDFText_GetFontSize(self._layer, before)
        rise = (self._origin(here) - self._origin(before)) / size if size > 0 else 0.0
        if rise > _RAISED:
            return "^"
        number = chr(pdfium.FPDFText_GetUnicode(self._layer, before)).isdigit()
        return "_" if rise < _LOWERED and number else ""

    def _origin(self, sign: int) -> float:
        import pypdfium2.raw as pdfium

        x, y = c_double(), c_double()
        pdfium.FPDFText_GetCharOrigin(self._layer, sign, byref(x), byref(y))
        return self._place(x.value, y.value)[1]


def _divides(
    columns: Sequence[float], rows: Sequence[float], one: Stretch, other: Stretch, between: str
) -> bool:
    """Say whether a line of a table stands between two signs, and white space."""
    low, high = min(one.right, other.right), max(one.left, other.left)
    wide = between.isspace() or high - low > max(one.height, other.height) * _THIN
    if wide and any(low - _TOUCH <= x <= high + _TOUCH for x in columns):
        return True
    below, above = sorted(((one.bottom + one.top) / 2, (other.bottom + other.top) / 2))
    return any(below < y < above for y in rows)


def _union(found: list[Stretch]) -> Stretch:
    if len(found) == 1:
        return found[0]
    return Stretch(
        min(one.left for one in found), min(one.bottom for one in found),
        max(one.right for one in found), max(one.top for one in found),
    )  # fmt: skip


def _is_upright(box: Stretch, line: str) -> bool:
    return box.height > 2 * (box.right - box.left) and len(line) > 3


def _breaks(one: Stretch, other: Stretch) -> bool:
    """Say whether there is wide white space between two stretches, or the end of a line."""
    high = max(one.height, other.height)
    lower = other.left < one.right - high and other.top < one.bottom + high * _CLOSE
    return lower or other.left - one.right > high * _WIDE


def _shifted(one: Stretch, other: Stretch) -> bool:
    """Say whether something short stands right after another, and higher or lower."""
    high = one.height
    higher = other.bottom - one.bottom
    if not (higher > high * _SHIFT or (higher < -high * _SINK and other.height < one.height)):
        return False
    beside = abs(other.left - one.right) < high * _CLOSE
    return beside and other.right - other.left < high * _LONG


def _goes_on(one: Stretch, other: Stretch) -> bool:
    """Say whether what is printed as a new line is a power, or goes on after one."""
    high = max(one.height, other.height)
    beside = abs(other.left - one.right) < high * _CLOSE
    overlap = other.bottom < one.top and one.bottom < other.top
    return beside and overlap and abs(other.bottom - one.bottom) > high * _SHIFT
