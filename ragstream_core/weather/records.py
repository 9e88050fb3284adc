"""What a look-up of the weather gives: a `WeatherAnalysis`, checked before it is shown.

Foreign words (names of places) are one line without control characters. Figures are °C, mm and
km/h, finite and possible on Earth; JSON shows them to a hundredth.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

MIN_DAYS, MAX_DAYS = 1, 16
MAX_NAME = 100
MAX_ALTERNATIVES = 5

# What wrote an explanation, if it was no language model.
TEXT = "text"

ATTRIBUTION = "weather data by Open-Meteo.com (CC BY 4.0)"

_hundredths = PlainSerializer(lambda value: round(value, 2), return_type=float, when_used="json")


def one_line(text: object) -> object:
    """Return a text as one line without control characters; None as empty."""
    if text is None:
        return ""
    if not isinstance(text, str):
        return text
    flat = " ".join(text.split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in flat)


Name = Annotated[str, BeforeValidator(one_line), Field(max_length=MAX_NAME)]
Degrees = Annotated[float, Field(ge=-100, le=70, allow_inf_nan=False), _hundredths]
Rain = Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False), _hundredths]
Wind = Annotated[float, Field(ge=0, le=500, allow_inf_nan=False), _hundredths]

# Half of the widest range that `Degrees` can have: no standard deviation is larger.
Spread = Annotated[float, Field(ge=0, le=85, allow_inf_nan=False), _hundredths]


class Record(BaseModel):
    """A frozen value that converts nothing."""

    model_config = ConfigDict(frozen=True, strict=True)


class Place(Record):
    """A place as the geocoding service knows it."""

    name: Annotated[Name, Field(min_length=1)]  # for example ``Berlin``
    # for example ``New Hampshire``; may be empty
    region: Name = Field("", validation_alias=AliasChoices("region", "admin1"))
    country: Name = ""
    # ISO 3166-1, two capital letters; may be empty
    country_code: Annotated[Name, Field(pattern="^([A-Z]{2})?$")] = ""
    latitude: float = Field(ge=-90, le=90, allow_inf_nan=False)
    longitude: float = Field(ge=-180, le=180, allow_inf_nan=False)

    @property
    def label(self) -> str:
        """Name, region and country in one line."""
        more = ", ".join(part for part in (self.region, self.country) if part)
        return f"{self.name} ({more})" if more else self.name

    @property
    def position(self) -> str:
        """Where it is, such as ``52.52° N 13.41° E``."""
        north = "N" if self.latitude >= 0 else "S"
        east = "E" if self.longitude >= 0 else "W"
        return f"{abs(self.latitude):.2f}° {north} {abs(self.longitude):.2f}° {east}"


class DaySummary(Record):
    """One day of a forecast, by the clock of the place."""

    date: dt.date
    avg_c: Degrees  # mean of its hours, °C
    min_c: Degrees  # coldest hour, °C
    max_c: Degrees  # warmest hour, °C
    # mean of this day and the two before it; None if they are not all there
    rolling_avg_c: Degrees | None = None
    precipitation_mm: Rain | None = None  # sum of its hours; None if nothing is said about it
    avg_wind_kmh: Wind | None = None  # mean of its hours; None likewise
    # whether its mean is more than 1.5 standard deviations from that of all days
    anomaly: bool = False


class OverallStats(Record):
    """All days of a forecast together."""

    avg_c: Degrees  # mean of the days' means, °C
    min_c: Degrees  # coldest hour, °C
    max_c: Degrees  # warmest hour, °C
    volatility_c: Spread  # population standard deviation of the days' means, °C
    precipitation_mm: Rain | None = None  # sum; None if nothing is said about it
    avg_wind_kmh: Wind | None = None  # mean of the days' means; None likewise
    anomalies: tuple[dt.date, ...] = ()


class WeatherAnalysis(Record):
    """The weather of some days at one place, or why there is none."""

    city: str
    days: int
    place: Place | None = None  # which place was taken; None if none was found
    alternatives: tuple[Place, ...] = Field((), max_length=MAX_ALTERNATIVES)
    # in order, one a day; empty if there is a problem
    daily: tuple[DaySummary, ...] = Field((), max_length=MAX_DAYS)
    overall: OverallStats | None = None
    explanation: str = Field(min_length=1, max_length=8_000)  # for people, plain text in paragraphs
    explained_by: str = TEXT  # ``text``, or the language model that wrote the explanation
    problem: str = ""  # why there are no figures; empty if there are
    warnings: tuple[str, ...] = ()  # what else went otherwise than asked
    source: str = ATTRIBUTION  # whose data it is; their licence wants it to be said

    @model_validator(mode="after")
    def _whole_or_empty(self) -> WeatherAnalysis:
        there = (self.place is not None, bool(self.daily), self.overall is not None)
        if self.problem and any(there[1:]):
            raise ValueError("a problem and figures")
        if not self.problem and not all(there):
            raise ValueError("neither a problem nor figures")
        return self
