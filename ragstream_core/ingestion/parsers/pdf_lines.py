"""The ruling lines of a PDF page: level and upright ones, from the paths that it draws.

Runs in the child process only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ctypes import byref, c_float, c_int
from typing import Any, NamedTuple

from ragstream_core.ingestion.parsers.pdf_page import Turned

# A page with more objects or segments of paths is a drawing, of which no lines are read.
MAX_SEGMENTS = 20_000

# Points: lines no farther apart are one, and ends no farther apart meet.
SNAP = 3.0

_DEPTH = 3  # forms inside of forms
_SLANT = 1.0  # points that a line may rise and still be level
_UNIT = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)

Matrix = tuple[float, float, float, float, float, float]
Point = tuple[float, float]


class Line(NamedTuple):
    """A line in points of the page as it is shown.

    Attributes:
        at: Its y if it is level, its x if it is upright.
        start: Its smaller end.
        end: Its larger end.
    """

    at: float
    start: float
    end: float


class Drawn(NamedTuple):
    """What a page holds besides text.

    Attributes:
        anything: Whether there is something at all, such as a picture.
        level: Level lines, from the lowest.
        upright: Upright lines, from the left.
    """

    anything: bool
    level: list[Line]
    upright: list[Line]


class _TooMuch(Exception):
    """Raised where a page is a drawing."""


def drawn_on(page: Any, place: Turned) -> Drawn:
    """Return what a page holds besides text, and its ruling lines, each whole."""
    reader = _Reader(place)
    try:
        reader.read(page, _UNIT, 0)
    except _TooMuch:
        return Drawn(True, [], [])
    return Drawn(reader.anything, _joined(reader.level), _joined(reader.upright))


class _Reader:
    """Collects the lines of a page."""

    def __init__(self, place: Turned) -> None:
        self.anything = False
        self.level: list[Line] = []
        self.upright: list[Line] = []
        self._place = place
        self._left = MAX_SEGMENTS

    def read(self, holder: Any, matrix: Matrix, depth: int) -> None:
        """Read the objects of a page, or of a form on it."""
        import pypdfium2.raw as pdfium

        count = pdfium.FPDFFormObj_CountObjects if depth else pdfium.FPDFPage_CountObjects
        get = pdfium.FPDFFormObj_GetObject if depth else pdfium.FPDFPage_GetObject
        kind_of, text = pdfium.FPDFPageObj_GetType, pdfium.FPDF_PAGEOBJ_TEXT
        objects = count(holder)
        self._take(objects)
        for number in range(objects):
            one = get(holder, number)
            kind = kind_of(one)
            if kind == text:
                continue
            self.anything = True
            if kind == pdfium.FPDF_PAGEOBJ_PATH:
                self._path(one, _times(_matrix(one), matrix))
            elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth < _DEPTH:
                self.read(one, _times(_matrix(one), matrix), depth + 1)

    def _take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _TooMuch

    def _path(self, path: Any, matrix: Matrix) -> None:
        import pypdfium2.raw as pdfium

        fill, stroke = c_int(), c_int()
        pdfium.FPDFPath_GetDrawMode(path, byref(fill), byref(stroke))
        if not fill.value and not stroke.value:
            return
        a, b, c, d, e, f = matrix
        count = pdfium.FPDFPath_CountSegments(path)
        self._take(count)
        x, y = c_float(), c_float()
        first = before = (0.0, 0.0)
        for number in range(count):
            segment = pdfium.FPDFPath_GetPathSegment(path, number)
            pdfium.FPDFPathSegment_GetPoint(segment, byref(x), byref(y))
            here = self._place(a * x.value + c * y.value + e, b * x.value + d * y.value + f)
            kind = pdfium.FPDFPathSegment_GetType(segment)
            if kind == pdfium.FPDF_SEGMENT_MOVETO:
                first = here
            elif kind == pdfium.FPDF_SEGMENT_LINETO:
                self._line(before, here)
            if pdfium.FPDFPathSegment_GetClose(segment):
                self._line(here, first)
            before = here

    def _line(self, one: Point, other: Point) -> None:
        (x, y), (u, v) = one, other
        if abs(y - v) <= _SLANT and abs(x - u) > SNAP:
            self.level.append(Line((y + v) / 2, min(x, u), max(x, u)))
        elif abs(x - u) <= _SLANT and abs(y - v) > SNAP:
            self.upright.append(Line((x + u) / 2, min(y, v), max(y, v)))


def _matrix(one: Any) -> Matrix:
    import pypdfium2.raw as pdfium

    found = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(one, byref(found)):
        return _UNIT
    return (found.a, found.b, found.c, found.d, found.e, found.f)


def _times(one: Matrix, other: Matrix) -> Matrix:
    """Return the matrix that stands for one, then the other."""
    if other is _UNIT:
        return one
    a, b, c, d, e, f = one
    g, h, i, j, k, m = other
    return (
        a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j,
        e * g + f * i + k, e * h + f * j + m,
    )  # fmt: skip


def _joined(lines: Iterable[Line]) -> list[Line]:
    """Return lines at one place as one each, and those that meet end to end as one."""
    found = []
    for at, group in _snapped(lines):
        start, end = group[0].start, group[0].end
        for line in group[1:]:
            if line.start > end + SNAP:
                found.append(Line(at, start, end))
                start, end = line.start, line.end
            end = max(end, line.end)
        found.append(Line(at, start, end))
    return found


def _snapped(lines: Iterable[Line]) -> Iterator[tuple[float, list[Line]]]:
    """Yield the place of lines that lie at one, with them from their start."""
    groups = list[list[Line]]()
    for line in sorted(lines):
        if not groups or line.at > groups[-1][0].at + SNAP:
            groups.append([])
        groups[-1].append(line)
    for group in groups:
        yield sum(line.at for line in group) / len(group), sorted(group, key=lambda one: one.start)
