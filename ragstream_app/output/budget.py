"""The bar of a prompt's budget: how many tokens each block takes, and how many are left."""

from __future__ import annotations

from collections.abc import Sequence

from ragstream_core.prompts.prompt_html import block_colour, budget_bar
from ragstream_core.text.markup import visible


def budget_html(blocks: Sequence[tuple[str, int]], budget: int) -> str:
    """Return a bar with a part for each block, and its legend.

    Args:
        blocks: Name and tokens, in the order of the prompt.
        budget: Most tokens that the prompt may have.
    """
    total = sum(tokens for _, tokens in blocks)
    left = f"{budget - total:,} left" if total <= budget else f"{total - budget:,} too many"
    legend = "".join(
        f'<span><i style="background:{block_colour(n)}"></i>{visible(name)} {tokens:,}</span>'
        for n, (name, tokens) in enumerate(blocks)
    )
    return (
        f'<div class="budget"><p>{total:,} of {budget:,} tokens · {left}</p>'
        f'{budget_bar(blocks, budget)}<div class="legend">{legend}</div></div>'
    )
