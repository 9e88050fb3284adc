"""Wording of ours that a person may replace: a text with one named place in it."""

from __future__ import annotations

import functools
import re
from typing import Annotated

from pydantic import AfterValidator

REFUSAL_PLACE = "{refusal}"
MAX_CHARS = 4_000
_PLACES = re.compile(r"\{\w*\}")


@functools.lru_cache(maxsize=64)  # settings are validated for every stage of a prompt
def _wording(text: str) -> str:
    """Return a wording as it stands; the empty one stands for ours.

    Raises:
        ValueError: It is too long, lacks the sentence of refusal, or names another place.
    """
    if not text.strip():
        return ""
    unknown = sorted(set(_PLACES.findall(text)) - {REFUSAL_PLACE})
    if unknown:
        raise ValueError(f"{', '.join(unknown)} is no place; the only one is {REFUSAL_PLACE}")
    if REFUSAL_PLACE not in text:
        raise ValueError(f"write {REFUSAL_PLACE} where the sentence of refusal belongs")
    if len(text) > MAX_CHARS:
        raise ValueError(f"{len(text):,} characters are more than {MAX_CHARS:,}")
    return text


Wording = Annotated[str, AfterValidator(_wording)]
"""Empty, or a text that holds ``{refusal}`` and no other place in braces."""
