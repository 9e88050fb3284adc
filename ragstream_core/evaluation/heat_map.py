"""A heat map as PNG: coloured cells with their numbers, names and legend, with NumPy alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

_GLYPHS = {  # five rows of three pixels, an octal digit a row
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717",
    "6": "74757", "7": "71111", "8": "75757", "9": "75717", ".": "00002", "-": "00700",
    "A": "25755", "E": "74647", "G": "34553", "H": "55755", "I": "72227", "K": "55655",
    "L": "44447", "N": "65555", "O": "25552", "P": "65644", "R": "65655", "S": "34216",
    "T": "72222", "V": "55552", "W": "55775", " ": "00000",
}  # fmt: skip
_SCALE = 3
CELL = (32, 84)
"""Height and width of a cell in pixels; what stands before a row is two cells wide."""
_LEGEND = 4
"""Cells of the legend: the least value, the colours between, the greatest value."""
_LOW, _HIGH = (255, 247, 236), (179, 0, 0)
_LABEL, _EMPTY, _INK = (236, 239, 243), (255, 255, 255), (20, 20, 20)


def heat_map(
    values: Sequence[Sequence[float | None]],
    *,
    names: tuple[str, str, str],
    columns: Sequence[float],
    rows: Sequence[float],
    low: float,
    high: float,
    form: str,
) -> bytes:
    """Draw a table of numbers, the larger the darker, with its axes, and a legend below.

    Args:
        values: A number a cell, row by row; None leaves it empty.
        names: What the numbers are, what grows to the right, and what grows downwards: up to
            thirteen of the letters that this module draws, in capitals whatever their case.
        columns: Values above the columns.
        rows: Values before the rows.
        low: Value of the lightest colour.
        high: Value of the darkest; the same as ``low`` makes all cells light.
        form: How numbers are written, e.g. ``.3f``.

    Returns:
        A PNG, 8 bits a channel, in cells of `CELL` pixels: a line of names, a line of column
        values, the rows, an empty line, the legend; two cells more than columns, at least four.
    """
    import numpy as np

    wide = (2, max(2, len(columns)), 2)
    name, across, down = (
        _cell(each.upper(), _LABEL, wide=cells) for each, cells in zip(names, wide, strict=True)
    )
    heads = [_cell(f"{value:g}", _LABEL) for value in columns]
    lines = [[name, across], [down, *heads]]
    for value, row in zip(rows, values, strict=True):
        cells = [_number(each, low, high, form) for each in row]
        lines.append([_cell(f"{value:g}", _LABEL, wide=2), *cells])
    lines += [[], _legend(low, high, form)]
    drawn = np.empty((len(lines), CELL[0], max(_LEGEND, len(columns) + 2) * CELL[1], 3), np.uint8)
    drawn[:] = _EMPTY
    for strip, line in zip(drawn, lines, strict=True):
        if line:
            strip[:, : sum(cell.shape[1] for cell in line)] = np.hstack(line)
    return _png(drawn.reshape(-1, *drawn.shape[2:]))


def _number(value: float | None, low: float, high: float, form: str) -> Pixels:
    if value is None:
        return _cell("", _EMPTY)
    return _cell(format(value, form), _colour(value, low, high))


def _legend(low: float, high: float, form: str) -> list[Pixels]:
    """Return the least and the greatest value with the colours between; one where they agree."""
    import numpy as np

    if high <= low:
        return [_number(low, low, high, form)]
    between = _cell("", _EMPTY, wide=_LEGEND - 2)
    shades = np.linspace(low, high, between.shape[1])
    between[1:] = [_colour(float(shade), low, high) for shade in shades]
    return [_number(low, low, high, form), between, _number(high, low, high, form)]


def _colour(value: float, low: float, high: float) -> tuple[int, ...]:
    share = min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0
    return tuple(round(a + share * (b - a)) for a, b in zip(_LOW, _HIGH, strict=True))


def _cell(text: str, colour: tuple[int, ...], *, wide: int = 1) -> Pixels:
    """Return one cell, or several in one; its text is light where the ground is dark."""
    import numpy as np

    cell: Pixels = np.empty((CELL[0], wide * CELL[1], 3), dtype=np.uint8)
    cell[:] = colour
    cell[0], cell[:, 0] = _EMPTY, _EMPTY  # a hairline between cells
    if text:
        ink = _INK if sum(colour) > 380 else _EMPTY
        mask = _written(text)[:, : cell.shape[1]]
        top, left = ((cell.shape[at] - mask.shape[at]) // 2 for at in (0, 1))
        cell[top : top + mask.shape[0], left : left + mask.shape[1]][mask] = ink
    return cell


def _written(text: str) -> NDArray[np.bool_]:
    import numpy as np

    gap = np.zeros((5, 1), dtype=bool)
    parts = []
    for letter in text:
        rows = [[bool(int(digit) >> bit & 1) for bit in (2, 1, 0)] for digit in _GLYPHS[letter]]
        parts += [np.array(rows), gap]
    return np.kron(np.hstack(parts), np.ones((_SCALE, _SCALE), dtype=bool)).astype(bool)


def _png(pixels: Pixels) -> bytes:
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, data) for kind, data in parts)


def _part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
