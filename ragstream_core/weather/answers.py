"""Open-Meteo's answers as checked values: of what they say nothing is taken on trust.

Not its types, its sizes, its units, its order, nor that it speaks of the place that was asked for.
"""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NaiveDatetime, ValidationError, model_validator

from ragstream_core.endpoints.attempts import Fault
from ragstream_core.weather.analytics import Hour
from ragstream_core.weather.records import MAX_DAYS, Place

MAX_HOURS = 24 * (MAX_DAYS + 1)
HOUR = dt.timedelta(hours=1)
NEAR_DEGREES = 1.0
"""A forecast is for the nearest point of a grid; none of its grids is coarser."""

_Answer = TypeVar("_Answer", bound=BaseModel)
_Temperatures = list[Annotated[float, Field(ge=-100, le=70, allow_inf_nan=False)] | None]
_Rains = list[Annotated[float, Field(ge=0, le=500, allow_inf_nan=False)] | None]
_Winds = list[Annotated[float, Field(ge=0, le=500, allow_inf_nan=False)] | None]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Places(_Strict):
    results: list[Place] = Field([], max_length=100)


class _Units(_Strict):
    temperature_2m: Literal["°C"]
    precipitation: Literal["mm"]
    wind_speed_10m: Literal["km/h"]


class _Hourly(_Strict):
    time: list[NaiveDatetime] = Field(min_length=1, max_length=MAX_HOURS)
    temperature_2m: _Temperatures
    precipitation: _Rains
    wind_speed_10m: _Winds

    @model_validator(mode="after")
    def _aligned(self) -> _Hourly:
        columns = (self.temperature_2m, self.precipitation, self.wind_speed_10m)
        if {len(column) for column in columns} != {len(self.time)}:
            raise ValueError("columns of different lengths")
        steps = [later - earlier for earlier, later in pairwise(self.time)]
        odd = [step for step in steps if step != HOUR]
        if odd and odd not in ([0 * HOUR], [2 * HOUR]):  # when the clocks change, once
            raise ValueError("hours that are not in order")
        return self


class _Forecast(_Strict):
    latitude: float = Field(ge=-90, le=90, allow_inf_nan=False)
    longitude: float = Field(ge=-180, le=180, allow_inf_nan=False)
    hourly_units: _Units
    hourly: _Hourly


def places_in(body: bytes) -> list[Place]:
    """Return the places that a geocoding answer names, best first; none where it knows none.

    Args:
        body: JSON of ``/v1/search``.

    Raises:
        Fault: It is something else.
    """
    return _checked(_Places, body, "list of places").results


def hours_in(body: bytes, place: Place, days: int) -> list[Hour]:
    """Return the hours of a forecast, ascending.

    Args:
        body: JSON of ``/v1/forecast``.
        place: Which place was asked for.
        days: How many days were.

    Raises:
        Fault: It is something else, or for another place, or for more days.
    """
    found = _checked(_Forecast, body, "forecast")
    east = abs(found.longitude - place.longitude)
    away = max(abs(found.latitude - place.latitude), min(east, 360 - east))
    if away > NEAR_DEGREES:
        raise Fault("a forecast for another place", kind="broken")
    hourly = found.hourly
    if len({time.date() for time in hourly.time}) > days:
        raise Fault("a forecast of more days than asked for", kind="broken")
    columns = (hourly.time, hourly.temperature_2m, hourly.precipitation, hourly.wind_speed_10m)
    return [Hour(*row) for row in zip(*columns, strict=True)]


def _checked(shape: type[_Answer], body: bytes, what: str) -> _Answer:
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # the place within the answer: our names and numbers, never its words
        where = ".".join(str(part) for part in first["loc"][:3])
        at = f" (at {where})" if where else ""
        raise Fault(f"an answer that is not a {what}{at}", kind="broken") from None
