"""Draws the table of `bench_growth` as lines over the number of chunks, both axes logarithmic.

python -m tests.benchmarks.growth_plot > docs/growth.svg
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.benchmarks.bench_growth import HEAD, kept_rows

LINES = {
    1: ("first ingest beside the model", "#1f6feb"),
    3: ("delta of ten files", "#bf8700"),
    4: ("opening", "#1a7f37"),
    6: ("question of one piece", "#8250df"),
    7: ("question of ten pieces", "#cf222e"),
}
"""Column of the table, what it is called, and the colour of its line."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 60, 230, 20, 50


def number(cell: str) -> float:
    """Return the number in a cell of the table."""
    return float(cell.replace(",", ""))


def ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten from below the lowest to above the highest value."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**n for n in range(first, last + 1)]


def svg(rows: Sequence[Sequence[str]]) -> str:
    """Return the plot of some rows of the table, ascending by chunks."""
    sizes = [number(row[0]) for row in rows]
    values = [max(number(row[column]), 1e-3) for row in rows for column in LINES]
    along, up = ticks(min(sizes), max(sizes)), ticks(min(values), max(values))

    def x(size: float) -> float:
        share = math.log10(size / along[0]) / math.log10(along[-1] / along[0])
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        share = math.log10(value / up[0]) / math.log10(up[-1] / up[0])
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#57606a">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for value in up:
        parts.append(_line(LEFT, y(value), WIDTH - RIGHT, y(value)))
        parts.append(_text(LEFT - 6, y(value) + 4, f"{value:g}", "end"))
    for size in along:
        parts.append(_line(x(size), TOP, x(size), HEIGHT - BOTTOM))
        parts.append(_text(x(size), HEIGHT - BOTTOM + 16, f"{size:,.0f}", "middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text(middle, HEIGHT - 10, "chunks; CPU seconds upwards", "middle"))
    above = float("-inf")
    for column in sorted(LINES, key=lambda column: -number(rows[-1][column])):
        name, colour = LINES[column]
        points = [(x(number(row[0])), y(max(number(row[column]), 1e-3))) for row in rows]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        label = f"{name}: {rows[-1][column]} s"
        above = max(points[-1][1] + 4, above + 15)  # labels do not lie on each other
        parts.append(_text(points[-1][0] + 8, above, label, "start", colour))
    return "\n".join([*parts, "</svg>"])


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#d0d7de"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#57606a") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


if __name__ == "__main__":
    rows = [[str(cell) for cell in row] for row in kept_rows()]
    if len(rows) < 2 or len(rows[0]) != len(HEAD):
        raise SystemExit("docs/benchmarks.md has no table of two sizes")
    print(svg(rows))
