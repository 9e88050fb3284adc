"""The token budget of a prompt: what the settings say, within what its model can read (R-115)."""

from __future__ import annotations

from ragstream_core.models.windows import context_window
from ragstream_core.settings import ChainSettings

LEAST_TOKENS = 200


def within_window(settings: ChainSettings) -> ChainSettings:
    """Return settings whose budget leaves a quarter of the model's context window free.

    The quarter is for the answer, and for a tokenizer that counts otherwise than our estimate.

    Args:
        settings: Of the prompt. Where they name no model, or one whose window neither they nor the
            price table know, they stay as they are.
    """
    prompt = settings.prompt
    window = prompt.model_window or (prompt.model_target and context_window(prompt.model_target))
    budget = max(LEAST_TOKENS, window * 3 // 4) if window else prompt.budget_tokens
    if budget >= prompt.budget_tokens:
        return settings
    lowered = prompt.model_copy(update={"budget_tokens": budget})
    return settings.model_copy(update={"prompt": lowered})
