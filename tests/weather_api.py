"""What Open-Meteo answers, in its documented shape, and a `WeatherTool` that asks a test server."""

import datetime as dt
import json
import math

from ragstream_core.weather.open_meteo import OpenMeteo
from ragstream_core.weather.tool import WeatherTool

FIRST = dt.datetime(2026, 11, 20)
BERLIN = {
    "id": 2950159, "name": "Berlin", "latitude": 52.52437, "longitude": 13.41053,
    "elevation": 74.0, "feature_code": "PPLC", "country_code": "DE", "admin1_id": 2950157,
    "timezone": "Europe/Berlin", "population": 3426354, "country_id": 2921044,
    "country": "Germany", "admin1": "State of Berlin",
}  # fmt: skip
NEW_HAMPSHIRE = {
    "id": 5083330, "name": "Berlin", "latitude": 44.46867, "longitude": -71.18508,
    "feature_code": "PPL", "country_code": "US", "timezone": "America/New_York",
    "country": "United States", "admin1": "New Hampshire",
}  # fmt: skip
NORTHERN = {"name": "Berlin", "latitude": 39.79, "longitude": -74.93}
"""A place of which hardly anything is known: the service leaves empty fields out."""


def places(*rows):
    """The answer of ``/v1/search``; without rows that of an unknown name."""
    found = {"results": list(rows)} if rows else {}
    return {**found, "generationtime_ms": 0.7}


def forecast(days=7, *, place=BERLIN, temperature=None, rain=None, wind=None, **changes):
    """The answer of ``/v1/forecast``; the columns are functions of (day, hour) or left to it."""
    temperature = temperature or (
        lambda day, hour: round(4 + day / 2 - 3 * math.cos(hour / 24 * 6.283), 1)
    )
    rain = rain or (lambda day, hour: 0.4 if day % 3 == 1 and hour > 17 else 0.0)
    wind = wind or (lambda day, hour: 8.0 + day + hour / 10)
    hours = [(day, hour) for day in range(days) for hour in range(24)]
    stamps = [FIRST + dt.timedelta(days=day, hours=hour) for day, hour in hours]
    units = {"time": "iso8601", "temperature_2m": "°C", "precipitation": "mm"}
    return {
        "latitude": round(place["latitude"], 2) + 0.01,
        "longitude": round(place["longitude"], 2) - 0.01,
        "generationtime_ms": 0.08, "utc_offset_seconds": 3600, "timezone": "Europe/Berlin",
        "timezone_abbreviation": "GMT+1", "elevation": 38.0,
        "hourly_units": {**units, "wind_speed_10m": "km/h"},
        "hourly": {
            "time": [stamp.strftime("%Y-%m-%dT%H:%M") for stamp in stamps],
            "temperature_2m": [temperature(*each) for each in hours],
            "precipitation": [rain(*each) for each in hours],
            "wind_speed_10m": [wind(*each) for each in hours],
        },
        **changes,
    }  # fmt: skip


def body(value):
    """JSON with the numbers that JSON does not have, as a careless server writes it."""
    return json.dumps(value, ensure_ascii=False).encode()


def tool(url, **given):
    """A tool whose two hosts are one server of this machine."""
    return WeatherTool(OpenMeteo(geocoding_url=url, forecast_url=url), **given)
