"""Words and signs as tokens: the counter for when no model's tokenizer is at hand."""

from __future__ import annotations

import re

# Limited, so that a run without spaces is not one word of any length.
WORD = re.compile(r"\w{1,32}|[^\w\s]")


def word_offsets(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of every word and every sign, in characters; linear time."""
    return [match.span() for match in WORD.finditer(text)]
