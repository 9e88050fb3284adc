"""`OpenMeteo`: two questions to two fixed hosts, https, no key, nothing of this machine sent along.

A city is a parameter of the first question and coordinates of the second; no address is ever made
of what a person or an answer says. Requests go through `endpoints.wire`: no redirect is followed,
no proxy of the environment used, a slow answer ends with the clock, a large one with its size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ragstream_core.endpoints.address import Endpoint, endpoint_at
from ragstream_core.endpoints.wire import http_client, whole
from ragstream_core.errors import UnknownSetting
from ragstream_core.weather.analytics import Hour
from ragstream_core.weather.answers import hours_in, places_in
from ragstream_core.weather.records import Place

GEOCODING_URL = "https://geocoding-api.open-meteo.com/v1"
FORECAST_URL = "https://api.open-meteo.com/v1"
HOSTS = frozenset({"geocoding-api.open-meteo.com:443", "api.open-meteo.com:443"})
MAX_BYTES = 1 << 20
COLUMNS = ("temperature_2m", "precipitation", "wind_speed_10m")
MAX_PLACES = 10
MAX_PLACES_OF_COUNTRY = 100


class OpenMeteo:
    """Asks Open-Meteo.

    Args:
        geocoding_url: Another one only for a test's server on this machine; no setting leads here.
        forecast_url: Likewise.
        now: The clock, in seconds.

    Raises:
        UnknownSetting: An address that is neither Open-Meteo's nor of this machine.
    """

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
        """Return the places of a name, the best known first.

        Args:
            city: The name.
            country: Its two letters or its English name; empty: any.
            limit_s: Seconds from now to the last byte.

        Raises:
            Fault: There is no answer that can be used.
        """
        count = MAX_PLACES_OF_COUNTRY if country else MAX_PLACES
        asked = {"name": city, "count": count, "language": "en", "format": "json"}
        found = places_in(self._ask(self.geocoding, "/search", asked, limit_s))
        wanted = country.casefold()
        return [p for p in found if wanted in ("", p.country_code.casefold(), p.country.casefold())]

    def hours(self, place: Place, days: int, *, limit_s: float) -> list[Hour]:
        """Return the forecast of a place by its clock, today first.

        Args:
            place: Where.
            days: 1 to 16.
            limit_s: Seconds from now to the last byte.

        Raises:
            Fault: There is no answer that can be used.
        """
        asked = {
            "latitude": f"{place.latitude:.4f}",
            "longitude": f"{place.longitude:.4f}",
            "hourly": ",".join(COLUMNS),
            "forecast_days": days,
            "timezone": "auto",
        }
        return hours_in(self._ask(self.forecast, "/forecast", asked, limit_s), place, days)

    def _ask(
        self, endpoint: Endpoint, path: str, asked: Mapping[str, Any], limit_s: float
    ) -> bytes:
        return whole(
            endpoint,
            lambda client: client.stream("GET", endpoint.base_url + path, params=dict(asked)),
            limit_s=limit_s,
            most=MAX_BYTES,
            now=self.now,
            client=http_client,
        )


def _allowed(url: str) -> Endpoint:
    endpoint = endpoint_at(url)
    if endpoint.host not in HOSTS and not endpoint.is_local:
        raise UnknownSetting(f"{endpoint.host} is not a host of Open-Meteo")
    return endpoint
