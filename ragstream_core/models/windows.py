"""Context windows of language models, as far as the installed price table knows them."""

from __future__ import annotations

import functools


@functools.lru_cache(maxsize=64)
def context_window(model: str) -> int:
    """Return how many tokens a model reads and writes together; 0 where that is unknown.

    The table is the data of `genai-prices` as installed; nothing is fetched.

    Args:
        model: Its name, as its provider knows it.
    """
    from genai_prices import data_snapshot

    try:
        _, found = data_snapshot.get_snapshot().find_provider_model(model, None, None, None)
    except LookupError:
        return 0
    return found.context_window or 0
