"""Open-Meteo on loopback."""

import pytest

from tests.model_server import raw
from tests.weather_api import BERLIN, forecast, places


@pytest.fixture
def open_meteo(server):
    """A server that knows Berlin; its answers can be replaced."""
    server.answers = [raw(places(BERLIN)), raw(forecast())]
    return server
