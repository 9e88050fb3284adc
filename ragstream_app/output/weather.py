"""The weather on a terminal: a table with a bar a day, then the explanation.

Names of places are foreign text: they go through `printable` and are never Rich markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ragstream_app.output.words import printable
from ragstream_app.session import note
from ragstream_core.weather.words import day_text

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ragstream_core.weather.records import DaySummary, Place, WeatherAnalysis

BAR_WIDTH = 18
WIDTH_WITH_BARS = 79
SPARKS = "▁▂▃▄▅▆▇█"

# So much rain in a day fills its spark.
HEAVY_RAIN_MM = 20.0
UNKNOWN = "–"


def print_weather(found: WeatherAnalysis) -> None:
    """Print place, table and explanation on stdout, alternatives and warnings on stderr.

    Args:
        found: With or without figures.
    """
    from rich.text import Text

    from ragstream_app.session import console as shared

    console = shared()
    if found.place is not None:
        typer.echo(place_line(found.place))
    if found.overall is not None:
        console.print(_table(found, bars=console.width >= WIDTH_WITH_BARS))
        typer.echo(totals(found))
        typer.echo("")
    console.print(Text(printable(found.explanation)))
    for line in notes(found):
        note(line)


def place_line(place: Place) -> str:
    """Return a place in one line: name, region, country, position."""
    return printable(f"{place.label} · {place.position}")


def totals(found: WeatherAnalysis) -> str:
    """Return the figures of all days in one line; empty where there are none."""
    every = found.overall
    if every is None:
        return ""
    return (
        f"on average {every.avg_c:.1f} °C · volatility {every.volatility_c:.1f} °C · "
        f"rain {_known(every.precipitation_mm, 1)} mm · wind {_known(every.avg_wind_kmh, 0)} km/h"
    )


def notes(found: WeatherAnalysis) -> list[str]:
    """Return what else a person should know: other places, warnings, who wrote, whose data."""
    others = [f"{place.label} {place.position}" for place in found.alternatives]
    lines = [f"other places of that name: {'; '.join(others)}"] if others else []
    lines += [f"warning: {warning}" for warning in found.warnings]
    if found.explained_by != "text":
        lines.append(f"explained by {found.explained_by}: the figures are computed, its words not")
    lines += [found.source] if found.daily else []
    return [printable(line) for line in lines]


def range_bar(day: DaySummary, low: float, high: float, width: int = BAR_WIDTH) -> str:
    """Return a day's coldest to warmest hour as a line, its mean as a dot.

    Args:
        day: One of the days.
        low: °C at the left end.
        high: °C at the right end, not below ``low``.
        width: Characters, at least 1.
    """

    def place(value: float) -> int:
        share = (value - low) / (high - low) if high > low else 0.5
        return min(width - 1, max(0, round(share * (width - 1))))

    first, dot, last = place(day.min_c), place(day.avg_c), place(day.max_c)
    return "".join(
        "●" if n == dot else "─" if first <= n <= last else " " for n in range(width)
    ).rstrip()


def rain_spark(millimetres: float | None) -> str:
    """Return one block for a day's rain, blank for a dry or unknown one."""
    if not millimetres:
        return " "
    step = int(millimetres / HEAVY_RAIN_MM * len(SPARKS))
    return SPARKS[min(step, len(SPARKS) - 1)]


def _table(found: WeatherAnalysis, *, bars: bool) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("day", no_wrap=True)
    for name in ("mean", "min", "max", "3-day"):
        table.add_column(name, justify="right", no_wrap=True)
    if bars:
        table.add_column("°C", no_wrap=True, min_width=BAR_WIDTH)
    table.add_column("rain mm", justify="right", no_wrap=True)
    table.add_column("km/h", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    low, high = min(d.min_c for d in found.daily), max(d.max_c for d in found.daily)
    for day in found.daily:
        bar = [Text(range_bar(day, low, high), style="cyan")] if bars else []
        table.add_row(*_cells(day, bar), style="bold" if day.anomaly else None)
    return table


def _cells(day: DaySummary, bar: list[Text]) -> list[str | Text]:
    from rich.text import Text

    rain = f"{_known(day.precipitation_mm, 1)} {rain_spark(day.precipitation_mm)}"
    return [
        day_text(day.date),
        f"{day.avg_c:.1f}",
        f"{day.min_c:.1f}",
        f"{day.max_c:.1f}",
        _known(day.rolling_avg_c, 1),
        *bar,
        rain,
        _known(day.avg_wind_kmh, 0),
        Text("unusual", style="yellow") if day.anomaly else "",
    ]


def _known(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"
