"""`OpenMeteo`: two questions to two fixed hosts, https, no key, nothing of this machine sent along.

A city is a parameter of the first question and coordinates of the second; no address is ever made
of what a person or an answer says. Of an answer nothing is taken on trust: not its types, its
sizes, its units, its order, nor that it speaks of the place that was asked for.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NaiveDatetime, ValidationError, model_validator

from ragstream_core.errors import UnknownSetting
from ragstream_core.platform.endpoint_address import Endpoint, endpoint_at
from ragstream_core.platform.http import EndpointClient, RequestError, http_client
from ragstream_core.weather.analytics import Hour
from ragstream_core.weather.records import MAX_DAYS, Place

MAX_HOURS = 24 * (MAX_DAYS + 1)
HOUR = dt.timedelta(hours=1)

# A forecast is for the nearest point of a grid; none of its grids is coarser.
NEAR_DEGREES = 1.0

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
    """Return the places that a geocoding answer names, best first; none if it knows none."""
    return _checked(_Places, body, "list of places").results


def hours_in(body: bytes, place: Place, days: int) -> list[Hour]:
    """Return the hours of a forecast, ascending."""
    found = _checked(_Forecast, body, "forecast")
    east = abs(found.longitude - place.longitude)
    away = max(abs(found.latitude - place.latitude), min(east, 360 - east))
    if away > NEAR_DEGREES:
        raise RequestError("a forecast for another place", kind="broken")
    hourly = found.hourly
    if len({time.date() for time in hourly.time}) > days:
        raise RequestError("a forecast of more days than asked for", kind="broken")
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
        raise RequestError(f"an answer that is not a {what}{at}", kind="broken") from None


GEOCODING_URL = "https://geocoding-api.open-meteo.com/v1"
FORECAST_URL = "https://api.open-meteo.com/v1"
HOSTS = frozenset({"geocoding-api.open-meteo.com:443", "api.open-meteo.com:443"})
MAX_BYTES = 1 << 20
COLUMNS = ("temperature_2m", "precipitation", "wind_speed_10m")
MAX_PLACES = 10
MAX_PLACES_OF_COUNTRY = 100


class OpenMeteo:
    """Asks Open-Meteo; other addresses are for a test's server on this machine alone."""

    def __init__(
        self,
        *,
        geocoding_url: str = GEOCODING_URL,
        forecast_url: str = FORECAST_URL,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.geocoding = _allowed(geocoding_url)
        self.forecast = _allowed(forecast_url)
        self.now = now

    def places(self, city: str, *, country: str = "", limit_s: float) -> list[Place]:
        """Return the places of a name, the best known first; ``country``: two letters or a name."""
        count = MAX_PLACES_OF_COUNTRY if country else MAX_PLACES
        asked = {"name": city, "count": count, "language": "en", "format": "json"}
        found = places_in(self._ask(self.geocoding, "/search", asked, limit_s))
        wanted = country.casefold()
        return [p for p in found if wanted in ("", p.country_code.casefold(), p.country.casefold())]

    def hours(self, place: Place, days: int, *, limit_s: float) -> list[Hour]:
        """Return the forecast of a place by its clock, today first."""
        asked = {
            "latitude": f"{place.latitude:.4f}",
            "longitude": f"{place.longitude:.4f}",
            "hourly": ",".join(COLUMNS),
            "forecast_days": days,
            "timezone": "auto",
        }
        return hours_in(self._ask(self.forecast, "/forecast", asked, limit_s), place, days)

    def _ask(
        self, endpoint: Endpoint, path: str, asked: Mapping[str, object], limit_s: float
    ) -> bytes:
        return EndpointClient(endpoint, library=http_client, now=self.now).body(
            lambda client: client.stream("GET", endpoint.base_url + path, params=dict(asked)),
            limit_s=limit_s,
            most=MAX_BYTES,
        )


def _allowed(url: str) -> Endpoint:
    endpoint = endpoint_at(url)
    if endpoint.host not in HOSTS and not endpoint.is_local:
        raise UnknownSetting(f"{endpoint.host} is not a host of Open-Meteo")
    return endpoint
