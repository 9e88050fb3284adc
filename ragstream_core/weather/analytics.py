"""The arithmetic of a forecast, in plain Python: days, a rolling mean, volatility, unusual days.

Nothing here reads, asks or converts anything; the same hours give the same figures.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from ragstream_core.weather.records import DaySummary, OverallStats

ROLLING_DAYS = 3
ANOMALY_SIGMAS = 1.5

# A day of which less is known is left out: the last day often ends at noon or earlier.
MIN_HOURS = 18
# Less than this is no deviation but the rounding of the sums.
_ROUNDING_C = 1e-9


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of a forecast; None if nothing is said."""

    time: dt.datetime  # by the clock of the place
    temperature_c: float | None
    precipitation_mm: float | None = None  # sum of the hour
    wind_kmh: float | None = None  # mean of the hour


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, between the smallest and the largest value."""
    found = math.fsum(values) / len(values)
    return min(max(found, min(values)), max(values))


def population_sigma(values: Sequence[float]) -> float:
    """Return the population standard deviation √(Σ(x − mean)² / n), ≥ 0 (R-270)."""
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / len(values))


def anomalous(values: Sequence[float]) -> list[bool]:
    """Return for each value whether abs(value − mean) > 1.5 σ, strictly (R-271)."""
    middle, limit = mean(values), ANOMALY_SIGMAS * population_sigma(values)
    return [abs(value - middle) > limit + _ROUNDING_C for value in values]


def rolling(days: Sequence[dt.date], values: Sequence[float]) -> list[float | None]:
    """Return for each day the mean of it and the two days before (R-269)."""
    back = ROLLING_DAYS - 1
    found: list[float | None] = []
    for last, day in enumerate(days):
        first = last - back
        whole = first >= 0 and (day - days[first]).days == back
        found.append(mean(values[first : last + 1]) if whole else None)
    return found


def daily(hours: Iterable[Hour]) -> list[DaySummary]:
    """Return the days of some hours (R-268); one with too few known hours is left out."""
    known = [
        (day, of_day)
        for day, of_day in ((d, list(h)) for d, h in groupby(hours, lambda h: h.time.date()))
        if len(_known(h.temperature_c for h in of_day)) >= MIN_HOURS
    ]
    if not known:
        return []
    dates = [day for day, _ in known]
    temperatures = [_known(hour.temperature_c for hour in of_day) for _, of_day in known]
    averages = [mean(values) for values in temperatures]
    smooth, unusual = rolling(dates, averages), anomalous(averages)
    return [
        DaySummary(
            date=day,
            avg_c=averages[n],
            min_c=min(temperatures[n]),
            max_c=max(temperatures[n]),
            rolling_avg_c=smooth[n],
            precipitation_mm=_sum(_known(hour.precipitation_mm for hour in of_day)),
            avg_wind_kmh=_mean(_known(hour.wind_kmh for hour in of_day)),
            anomaly=unusual[n],
        )
        for n, (day, of_day) in enumerate(known)
    ]


def overall(days: Sequence[DaySummary]) -> OverallStats:
    """Return the figures of all days together."""
    averages = [day.avg_c for day in days]
    return OverallStats(
        avg_c=mean(averages),
        min_c=min(day.min_c for day in days),
        max_c=max(day.max_c for day in days),
        volatility_c=population_sigma(averages),
        precipitation_mm=_sum(_known(day.precipitation_mm for day in days)),
        avg_wind_kmh=_mean(_known(day.avg_wind_kmh for day in days)),
        anomalies=tuple(day.date for day in days if day.anomaly),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _sum(values: Sequence[float]) -> float | None:
    return math.fsum(values) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return mean(values) if values else None
