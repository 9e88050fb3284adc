"""A model's own tokenizer, in a copy that never truncates and never pads.

Engines switch truncation on in the tokenizer they share; a counter or splitter given that one
silently sees the first 256 tokens only. Hence the copy.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SURROGATES = re.compile("[\ud800-\udfff]")


class ModelTokenizer:
    """Token ids, offsets and counts of texts, special tokens not included."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Copy a tokenizer; what others do to the original has no effect here."""
        copy = type(tokenizer).from_str(tokenizer.to_str())
        copy.no_truncation()
        copy.no_padding()
        self._tokenizer = copy

    @classmethod
    def from_file(cls, path: Path) -> ModelTokenizer:
        """Load a ``tokenizer.json`` (verified by the caller)."""
        from tokenizers import Tokenizer

        return cls(Tokenizer.from_file(str(path)))

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text of any length."""
        encoding = self._tokenizer.encode(clean(text), add_special_tokens=False)
        return list(encoding.ids)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each token, in characters of the text."""
        encoding = self._tokenizer.encode(clean(text), add_special_tokens=False)
        return list(encoding.offsets)

    def count(self, text: str) -> int:
        """Return the number of tokens, ≥ 0."""
        return len(self._tokenizer.encode(clean(text), add_special_tokens=False).ids)

    def token_id(self, token: str) -> int:
        """Return the id of a token.

        Raises:
            KeyError: The vocabulary does not hold it.
        """
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise KeyError(token)
        return int(found)


def even_windows(ids: list[int], window: int) -> list[list[int]]:
    """Cut token ids into as few windows as possible, equally long within one token.

    Equal lengths, because the windows' vectors are averaged with equal weight: a short rest would
    count as much as a full window.

    Args:
        ids: Token ids without special tokens.
        window: Largest length of a window, ≥ 1.

    Returns:
        At least one window (empty for an empty text); concatenated they are ``ids``.
    """
    parts = max(1, -(-len(ids) // window))
    cuts = [len(ids) * i // parts for i in range(parts + 1)]
    return [ids[a:b] for a, b in pairwise(cuts)]


def clean(text: str) -> str:
    """Return a text that can be encoded: a lone surrogate is replaced, so offsets stay right."""
    return _SURROGATES.sub("\ufffd", text)
