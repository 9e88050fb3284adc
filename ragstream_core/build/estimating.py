"""What a prompt may take at most of the model that it is meant for, before it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.build.budgets import within_window
from ragstream_core.models.windows import context_window

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig

ANSWER_TOKENS = 1000
"""What an answer's price is told for."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A model, and what a prompt for it may take; nobody was contacted.

    Attributes:
        model: ``prompt.model_target``; without one the model that answers are asked of, empty where
            the settings name none: nobody is asked for a name.
        window_tokens: What it reads and writes together; 0 where nobody knows.
        budget_tokens: Most tokens of the prompt, within that window.
        price: US dollars of (tokens sent, tokens answered); None where nobody knows.
    """

    model: str
    window_tokens: int
    budget_tokens: int
    price: Callable[[int, int], float | None] = field(repr=False)

    @property
    def most_usd(self) -> float | None:
        """What sending a prompt that fills the budget costs."""
        return self.price(self.budget_tokens, 0)

    @property
    def answer_usd(self) -> float | None:
        """What `ANSWER_TOKENS` tokens of an answer cost."""
        return self.price(0, ANSWER_TOKENS)


def estimate(config: AppConfig) -> Estimate:
    """Estimate a prompt of these settings.

    A model that is not the provider's own is one that the prompt is pasted to: its price is that of
    the installed price table, wherever it is asked.

    Args:
        config: With everything that was asked for.

    Raises:
        RagstreamError: The provider's settings are wrong.
    """
    prompt = within_window(config.chain()).prompt
    own = config.settings.provider.model
    model = prompt.model_target or own
    window = prompt.model_window
    if prompt.model_target:
        window = window or context_window(model)
    if model and model == own:
        from ragstream_core.build.models import chat_model

        return Estimate(model, window, prompt.budget_tokens, chat_model(config).price)
    return Estimate(model, window, prompt.budget_tokens, _pasted(model))


def _pasted(model: str) -> Callable[[int, int], float | None]:
    def price(sent: int, answered: int) -> float | None:
        from ragstream_core.models.prices import table_price

        return table_price(model, sent, answered) if model else None

    return price
