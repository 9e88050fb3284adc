"""The job `weather_report`: the weather of a city; no other job, asset or sensor knows of it.

It runs when a person starts it. Where Open-Meteo cannot be reached the run succeeds and says so.
Names of places are shown as text, never as Markdown.
"""

from typing import Literal

import dagster as dg
from pydantic import Field

from ragstream_assets.charts import bar
from ragstream_assets.failures import short_errors
from ragstream_assets.metadata import Metadata, table
from ragstream_assets.resources import WorkspaceResource
from ragstream_core.services.weather import look_up
from ragstream_core.weather.records import MAX_DAYS, MIN_DAYS, DaySummary, WeatherAnalysis
from ragstream_core.weather.words import day_text

COLUMNS = ("day", "mean", "coldest", "warmest", "three_days", "rain_mm", "wind_kmh", "unusual")
UNKNOWN = "–"


class WeatherConfig(dg.Config):
    """Whose weather."""

    city: str = Field(default="Berlin", description="The name of a city or place.")
    country: str = Field(default="", description="Such as DE or Germany; empty: any.")
    days: int = Field(default=7, ge=MIN_DAYS, le=MAX_DAYS, description="How many, today first.")
    explain: Literal["text", "llm"] = Field(
        default="text", description="`llm`: the configured language model explains the figures."
    )


@dg.op(out=dg.Out(dg.Nothing))
def report_weather(
    context: dg.OpExecutionContext, config: WeatherConfig, workspace: WorkspaceResource
) -> None:
    """Asks Open-Meteo's two hosts, at most 15 seconds, and explains the figures."""
    with short_errors(context.run_id):
        found = look_up(
            workspace.open(),
            config.city,
            config.days,
            country=config.country,
            explain=config.explain,
        )
    if found.problem:
        context.log.warning(f"no weather: {found.problem}")
    context.add_output_metadata(weather_metadata(found))


def weather_metadata(found: WeatherAnalysis) -> Metadata:
    """Return the days as a table and a chart, the explanation, or what went wrong."""
    every = found.overall
    shown: Metadata = {
        "place": dg.MetadataValue.text(found.place.label if found.place else found.city),
        "explanation": dg.MetadataValue.text(found.explanation),
        "explained_by": dg.MetadataValue.text(found.explained_by),
        "problem": dg.MetadataValue.text(found.problem or "-"),
        "warnings": dg.MetadataValue.text("; ".join(found.warnings) or "-"),
        "source": dg.MetadataValue.text(found.source),
        "other_places": dg.MetadataValue.text(
            "; ".join(f"{place.label} {place.position}" for place in found.alternatives) or "-"
        ),
    }
    if every is None:
        return shown
    return {
        **shown,
        "days": table([_row(day) for day in found.daily], *COLUMNS),
        "chart": dg.MetadataValue.md(_chart(found.daily)),
        "mean_c": round(every.avg_c, 2),
        "coldest_c": every.min_c,
        "warmest_c": every.max_c,
        "volatility_c": round(every.volatility_c, 2),
        "unusual_days": len(every.anomalies),
    }


def _row(day: DaySummary) -> dict[str, str | int | float]:
    return {
        "day": day_text(day.date),
        "mean": round(day.avg_c, 1),
        "coldest": day.min_c,
        "warmest": day.max_c,
        "three_days": _known(day.rolling_avg_c),
        "rain_mm": _known(day.precipitation_mm),
        "wind_kmh": _known(day.avg_wind_kmh),
        "unusual": "unusual" if day.anomaly else "",
    }


def _chart(days: tuple[DaySummary, ...]) -> str:
    """Return a Markdown table with a bar a day: how far its mean is above the coldest hour."""
    low, high = min(day.min_c for day in days), max(day.max_c for day in days)
    lines = [
        f"| {day_text(day.date)} | {day.avg_c:.1f} | {bar(day.avg_c - low, high - low)} | "
        f"{'unusual' if day.anomaly else ''} |"
        for day in days
    ]
    return "\n".join([f"| day | mean °C | from {low:.1f} to {high:.1f} °C | |",
                      "|---|--:|---|---|", *lines])  # fmt: skip


def _known(value: float | None) -> str | float:
    return UNKNOWN if value is None else round(value, 1)


@dg.job(executor_def=dg.in_process_executor)
def weather_report() -> None:
    """The weather of a city with figures, unusual days and an explanation; asks Open-Meteo."""
    report_weather()
