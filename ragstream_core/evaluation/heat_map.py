"""A heat map as PNG: coloured cells with their numbers, drawn with NumPy alone."""

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
}  # fmt: skip
_SCALE = 3
CELL = (32, 84)
"""Height and width of a cell in pixels."""
_LOW, _HIGH = (255, 247, 236), (179, 0, 0)
_LABEL, _EMPTY, _INK = (236, 239, 243), (255, 255, 255), (20, 20, 20)


def heat_map(
    values: Sequence[Sequence[float | None]],
    *,
    columns: Sequence[float],
    rows: Sequence[float],
    low: float,
    high: float,
    form: str,
) -> bytes:
    """Draw a table of numbers, the larger the darker; column and row values stand beside it.

    Args:
        values: A number a cell, row by row; None leaves it empty.
        columns: Values above the columns.
        rows: Values before the rows.
        low: Value of the lightest colour.
        high: Value of the darkest; the same as ``low`` makes all cells light.
        form: How numbers are written, e.g. ``.3f``.

    Returns:
        A PNG, 8 bits a channel, (len(rows) + 1) × (len(columns) + 1) cells of `CELL` pixels.
    """
    import numpy as np

    head = [_cell("", _LABEL), *(_cell(f"{value:g}", _LABEL) for value in columns)]
    lines = [head]
    for name, row in zip(rows, values, strict=True):
        cells = [
            _cell("", _EMPTY)
            if value is None
            else _cell(format(value, form), _colour(value, low, high))
            for value in row
        ]
        lines.append([_cell(f"{name:g}", _LABEL), *cells])
    return _png(np.vstack([np.hstack(cells) for cells in lines]))


def _colour(value: float, low: float, high: float) -> tuple[int, ...]:
    share = min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0
    return tuple(round(a + share * (b - a)) for a, b in zip(_LOW, _HIGH, strict=True))


def _cell(text: str, colour: tuple[int, ...]) -> Pixels:
    """Return one cell; its text is light where the ground is dark."""
    import numpy as np

    cell: Pixels = np.empty((*CELL, 3), dtype=np.uint8)
    cell[:] = colour
    cell[0], cell[:, 0] = _EMPTY, _EMPTY  # a hairline between cells
    if text:
        ink = _INK if sum(colour) > 380 else _EMPTY
        mask = _written(text)[:, : CELL[1]]
        top, left = (CELL[0] - mask.shape[0]) // 2, (CELL[1] - mask.shape[1]) // 2
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
