"""What an answer costs and how much a model can read.

Costs are 0 on this machine, else from the settings or from the price table: the data of
`genai-prices` as installed. Nothing is fetched, so a price may be out of date. If a host or a model
is not in it, the cost is unknown, never guessed.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ragstream_core.platform.endpoint_address import Endpoint

PER_MTOK = 1e-6
FROM_TABLE = -1.0


@functools.lru_cache(maxsize=64)
def context_window(model: str) -> int:
    """Return how many tokens a model reads and writes together; 0 if that is unknown."""
    from genai_prices import data_snapshot

    try:
        _, described = data_snapshot.get_snapshot().find_provider_model(model, None, None, None)
    except LookupError:
        return 0
    return described.context_window or 0


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of one model at one endpoint."""

    endpoint: Endpoint
    # US dollars a million tokens sent; negative: from the table
    input_usd_per_mtok: float = FROM_TABLE
    output_usd_per_mtok: float = FROM_TABLE

    def cost(
        self, model: str, input_tokens: int, output_tokens: int, *, cached_tokens: int = 0
    ) -> float | None:
        """Return the cost in US dollars, ≥ 0; None if no price is known."""
        sent, answered = self.input_usd_per_mtok, self.output_usd_per_mtok
        if sent >= 0 and answered >= 0:
            return PER_MTOK * (sent * input_tokens + answered * output_tokens)
        if self.endpoint.is_local:
            return 0.0
        return table_price(
            model,
            input_tokens,
            output_tokens,
            cached_tokens=cached_tokens,
            base_url=self.endpoint.base_url,
        )


def table_price(
    model: str,
    input_tokens: int,
    output_tokens: int,
    *,
    cached_tokens: int = 0,
    base_url: str | None = None,
) -> float | None:
    """Return what a model costs in US dollars by the table; None if no price is known."""
    from genai_prices import Usage, calc_price

    try:
        usage = Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=min(cached_tokens, input_tokens),
        )
        return float(calc_price(usage, model, provider_api_url=base_url).total_price)
    except (LookupError, ValueError, ArithmeticError):
        return None
