"""Costs: free here, from the settings, from the table, or unknown; never guessed, never fetched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.models.chat.prices import Prices
from ragstream_core.platform.endpoint_address import endpoint_at

HERE = endpoint_at("http://127.0.0.1:11434/v1")
OPENAI = endpoint_at("https://api.openai.com/v1")
OTHER = endpoint_at("https://llm.example.org/v1")


def test_a_model_on_this_machine_is_free():
    assert Prices(HERE).cost("llama3.2", 10_000, 10_000) == 0.0


def test_the_table_knows_the_large_houses():
    cost = Prices(OPENAI).cost("gpt-4o", 1_000_000, 100_000)
    assert cost is not None and 0.5 < cost < 50
    cheaper = Prices(OPENAI).cost("gpt-4o", 1_000_000, 100_000, cached_tokens=1_000_000)
    assert cheaper is not None and cheaper < cost


@pytest.mark.parametrize(
    ("where", "model"), [(OTHER, "gpt-4o"), (OPENAI, "no-such-model"), (OPENAI, "")]
)
def test_what_is_not_in_the_table_is_unknown(where, model):
    assert Prices(where).cost(model, 1000, 1000) is None


@given(
    st.floats(0, 1e3), st.floats(0, 1e3), st.integers(0, 10**9), st.integers(0, 10**9),
    st.sampled_from([HERE, OPENAI, OTHER]),
)  # fmt: skip
def test_prices_of_the_settings_come_first_and_are_linear(
    sent_price, answered_price, sent, answered, where
):
    prices = Prices(where, sent_price, answered_price)
    cost = prices.cost("gpt-4o", sent, answered)
    assert cost == pytest.approx((sent_price * sent + answered_price * answered) / 1e6)
    assert prices.cost("gpt-4o", 2 * sent, 2 * answered) == pytest.approx(2 * cost)


@given(st.integers(0, 10**7), st.integers(0, 10**6), st.integers(0, 10**7))
def test_more_tokens_never_cost_less(sent, answered, cached):
    prices = Prices(OPENAI)
    cost = prices.cost("gpt-4o", sent, answered, cached_tokens=cached)
    assert cost is not None and cost >= 0
    assert prices.cost("gpt-4o", sent + 1000, answered + 1000, cached_tokens=cached) >= cost
