"""A map as PNG, drawn with Pillow: dots coloured by file or project, a legend, what it shows.

The largest groups have a colour of their own, all others are grey. Drawn three times as large and
scaled down, which smooths the edges; the same map gives the same pixels.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.maps.chunk_map import ChunkMap, labels, largest
from ragstream_core.platform import extras

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont
    from PIL.ImageFont import ImageFont as BitmapFont

    Font = FreeTypeFont | BitmapFont

# Colours of the largest groups, the largest first.
PALETTE = (
    "#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f",
    "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#17becf",
)  # fmt: skip
OTHERS = "#c4c8cd"
_PAPER, _INK, _FAINT, _LINE = "#ffffff", "#22272e", "#6a737d", "#e3e6ea"
_FINER = 3
_LEGEND, _MARGIN, _HEAD, _FOOT = 300, 24, 66, 44

# So many colours are kept: a third of the bytes, no visible difference.
_COLOURS = 128


@dataclass(frozen=True, slots=True)
class _Frame:
    """The plot's area in pixels of the finished picture."""

    left: float
    top: float
    width: float
    height: float

    def fitted(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """Return points in pixels: one scale for both directions, upwards is up."""
        xs, ys = [x for x, _ in points], [y for _, y in points]
        spans = (max(xs) - min(xs), max(ys) - min(ys))
        scales = [room / span for room, span in zip((self.width, self.height), spans, strict=True)
                  if span > 0]  # fmt: skip
        scale = min(scales, default=0.0)
        middle = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
        across, down = self.left + self.width / 2, self.top + self.height / 2
        return [
            (across + (x - middle[0]) * scale, down - (y - middle[1]) * scale) for x, y in points
        ]


def draw(found: ChunkMap, *, by: str = "", size: tuple[int, int] = (1200, 820)) -> bytes:
    """Draw a map."""
    extras.require("a picture of a map", "maps", "PIL")
    from PIL import Image, ImageDraw

    names = labels(found.places, by or found.by)
    legend = largest(names, len(PALETTE))
    colours = dict(zip(legend, PALETTE, strict=False))
    image = Image.new("RGB", (size[0] * _FINER, size[1] * _FINER), _PAPER)
    pen = ImageDraw.Draw(image)
    frame = _Frame(
        _MARGIN, _HEAD, size[0] - _LEGEND - 2 * _MARGIN, size[1] - _HEAD - _FOOT - _MARGIN
    )
    _dots(pen, found, [colours.get(name, OTHERS) for name in names], frame)
    _text(pen, (_MARGIN, 14), found.title, 19, _INK, size[0] - 2 * _MARGIN)
    near = "Dots that lie together are passages with similar texts."
    _text(pen, (_MARGIN, 41), near, 13, _FAINT, size[0] - 2 * _MARGIN)
    foot = " · ".join(found.notes)
    _text(pen, (_MARGIN, size[1] - 30), foot, 13, _FAINT, size[0] - 2 * _MARGIN)
    _legend(pen, legend, names, (size[0] - _LEGEND, _HEAD))
    return _png(image, size)


def _dots(pen: ImageDraw, found: ChunkMap, colours: Sequence[str], frame: _Frame) -> None:
    """Draw the dots: grey ones below, the others in an order that favours no group."""
    import numpy as np

    radius = min(6.0, max(2.2, 110 / len(found.places) ** 0.5)) * _FINER
    inner = radius / _FINER + 1
    room = _Frame(frame.left + inner, frame.top + inner,
                  frame.width - 2 * inner, frame.height - 2 * inner)  # fmt: skip
    points = room.fitted([(place.x, place.y) for place in found.places])
    order = np.random.default_rng(0).permutation(len(points)).tolist()
    for at in sorted(order, key=lambda i: colours[i] != OTHERS):
        x, y = (value * _FINER for value in points[at])
        pen.ellipse(
            (x - radius, y - radius, x + radius, y + radius),
            fill=colours[at], outline=_PAPER, width=max(1, round(radius / 7)),
        )  # fmt: skip


def _legend(
    pen: ImageDraw, legend: dict[str, int], names: Sequence[str], at: tuple[float, float]
) -> None:
    left, top = at
    pen.line(
        [((left - 12) * _FINER, y * _FINER) for y in (top, top + 24 * (len(legend) + 1))],
        fill=_LINE, width=_FINER,
    )  # fmt: skip
    rows = [(name, count, colour) for (name, count), colour in zip(legend.items(), PALETTE,
                                                                   strict=False)]  # fmt: skip
    rest = len(names) - sum(legend.values())
    rows += [(f"{len(set(names)) - len(legend)} others", rest, OTHERS)] if rest else []
    for number, (name, count, colour) in enumerate(rows):
        y = top + 24 * number
        box = [value * _FINER for value in (left, y + 4, left + 12, y + 16)]
        pen.ellipse(box, fill=colour)
        _text(pen, (left + 20, y + 1), name, 13, _INK, _LEGEND - 20 - 64, middle=True)
        shown = f"{count:,}"
        width = _font(13).getlength(shown) / _FINER
        _text(pen, (left + _LEGEND - _MARGIN - width, y + 1), shown, 13, _FAINT, 80)


def _text(
    pen: ImageDraw,
    at: tuple[float, float],
    text: str,
    height: int,
    colour: str,
    room: float,
    *,
    middle: bool = False,
) -> None:
    """Write one line; what does not fit is left out at its end, or in the middle."""
    font = _font(height)
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)[:1000]
    kept = len(shown)
    fitting = shown
    while kept > 3 and font.getlength(fitting) > room * _FINER:
        kept -= 1
        head = kept // 2 if middle else kept
        fitting = f"{shown[:head]}…{shown[len(shown) - (kept - head) :]}"
    pen.text((at[0] * _FINER, at[1] * _FINER), fitting, font=font, fill=colour)


def _font(height: int) -> Font:
    from PIL import ImageFont

    return ImageFont.load_default(height * _FINER)


def _png(image: Image, size: tuple[int, int]) -> bytes:
    from PIL.Image import Dither, Resampling

    small = image.resize(size, Resampling.LANCZOS)
    out = io.BytesIO()
    small.quantize(_COLOURS, dither=Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()
