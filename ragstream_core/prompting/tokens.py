"""Token counters; a counter's name says whether it counts or estimates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeuristicTokenCounter:
    """Estimates tokens from characters: ⌈characters / chars_per_token⌉.

    Monotone in the length of the text; needs no tokenizer, works for every target model, and is an
    estimate: prose in English has 4 to 5 characters a token, code 3 to 4.

    Attributes:
        chars_per_token: Characters a token, > 0.
    """

    chars_per_token: float = 4.0

    @property
    def name(self) -> str:
        """Return ``estimate (n characters a token)``."""
        return f"estimate ({self.chars_per_token:g} characters a token)"

    def count(self, text: str) -> int:
        """Return the estimated number of tokens, 0 for an empty text."""
        return int(-(-len(text) // self.chars_per_token))
