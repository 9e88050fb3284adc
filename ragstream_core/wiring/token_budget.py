"""What a prompt may take of the model that it is meant for, and what counts its tokens.

The budget is what the settings say, within what the model can read (R-115).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.models.chat.prices import context_window, table_price
from ragstream_core.models.token_counters import counter_for, counter_named
from ragstream_core.prompts.inputs import pinned_settings
from ragstream_core.settings import ChainSettings
from ragstream_core.wiring import models

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.ports import TokenCounter
    from ragstream_core.records.prompt_inputs import PromptInputs
    from ragstream_core.wiring.workspace import Workspace


LEAST_TOKENS = 200  # less holds no passage beside the frame of a prompt


def within_window(settings: ChainSettings) -> ChainSettings:
    """Return settings whose budget leaves a quarter of the model's context window free.

    The quarter is for the answer, and for a tokenizer that counts otherwise than our estimate.
    Without a model, or with one whose window nobody knows, they stay as they are.
    """
    prompt = settings.prompt
    window = prompt.model_window or (prompt.model_target and context_window(prompt.model_target))
    budget = max(LEAST_TOKENS, window * 3 // 4) if window else prompt.budget_tokens
    if budget >= prompt.budget_tokens:
        return settings
    lowered = prompt.model_copy(update={"budget_tokens": budget})
    return settings.model_copy(update={"prompt": lowered})


_CHOOSE = ("token_counter", "chars_per_token", "model_target")


def counter_of(
    workspace: Workspace, inputs: PromptInputs, settings: ChainSettings | None = None
) -> TokenCounter:
    """Return the counter that a prompt is pinned to, or the other one of a stage's settings."""
    pinned = pinned_settings(inputs).prompt
    if settings is not None:
        chosen = settings.prompt
        if any(getattr(chosen, name) != getattr(pinned, name) for name in _CHOOSE):
            return counter_for(chosen, workspace.layout.models)
    return counter_named(inputs.models["counter"], workspace.layout.models)


def counter_of_settings(workspace: Workspace, settings: ChainSettings) -> TokenCounter:
    """Return the counter that settings mean now, for what belongs to no prompt yet."""
    return counter_for(settings.prompt, workspace.layout.models)


# What an answer's price is told for.
ANSWER_TOKENS = 1000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A model, and what a prompt for it may take; nobody was contacted."""

    # ``prompt.model_target``; without one the model that answers are asked of, empty where the
    # settings name none: nobody is asked for a name
    model: str
    window_tokens: int  # what it reads and writes together; 0 where nobody knows
    budget_tokens: int  # most tokens of the prompt, within that window
    # US dollars of (tokens sent, tokens answered); None where nobody knows
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
    """Estimate a prompt of these settings."""
    prompt = within_window(config.chain()).prompt
    own = config.settings.provider.model
    model = prompt.model_target or own
    window = prompt.model_window
    if prompt.model_target:
        window = window or context_window(model)
    return Estimate(model, window, prompt.budget_tokens, price_of(config, model))


def price_of(config: AppConfig, model: str) -> Callable[[int, int], float | None]:
    """Return what a model asks for (tokens sent, tokens answered), US dollars, None if not known.

    One that is not the provider's own is pasted to: its price is that of the installed table.
    """
    if model and model == config.settings.provider.model:
        return models.chat_model(config).price
    return lambda sent, answered: table_price(model, sent, answered) if model else None
