"""Open-Meteo on loopback."""

from __future__ import annotations

import pytest

from tests.unit.models.conftest import raw, server  # noqa: F401
from tests.weather_api import BERLIN, forecast, places


@pytest.fixture
def open_meteo(server):  # noqa: F811
    """A server that knows Berlin; its answers can be replaced."""
    server.answers = [raw(places(BERLIN)), raw(forecast())]
    return server
