"""A language model on loopback whose waiting takes no time."""

import time

import pytest

from ragstream_core.models.chat.endpoint_chat import ChatOptions, EndpointChat, final_kinds
from ragstream_core.models.chat.prices import Prices
from ragstream_core.platform.endpoint_address import endpoint_at
from ragstream_core.platform.http import EndpointClient
from tests.model_server import KEY


@pytest.fixture
def waits():
    return []


@pytest.fixture
def chat(server, waits):
    """Makes a model whose waiting takes no time and is written down."""

    def made(*, url="", key=KEY, key_url="", timeout_s=60.0, budget_s=60.0, **options):
        url = url or server.url
        endpoint = endpoint_at(
            url, key=key, key_url=key_url or url, timeout_s=timeout_s, budget_s=budget_s
        )
        clock = [0.0]

        def sleep(seconds):
            waits.append(seconds)
            clock[0] += seconds

        client = EndpointClient(
            endpoint,
            final=final_kinds(endpoint),
            now=lambda: time.monotonic() + clock[0],
            sleep=sleep,
        )
        given = ChatOptions(**{"model": "toy", "prices": Prices(endpoint), **options},
                            endpoint=endpoint)  # fmt: skip
        return EndpointChat(given, client)

    return made
