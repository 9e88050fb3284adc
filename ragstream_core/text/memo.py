"""Pure functions of one text that are asked for the same passages prompt after prompt."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

REMEMBERED_CHARS = 4_000
REMEMBERED_TEXTS = 2_048

Result = TypeVar("Result")


def remembered(of: Callable[[str], Result]) -> Callable[[str], Result]:
    """Return a function that keeps its newest results, but not those of long texts.

    Args:
        of: Gives the same for the same text; its result is never changed.
    """
    kept = functools.lru_cache(maxsize=REMEMBERED_TEXTS)(of)

    @functools.wraps(of)
    def found(text: str) -> Result:
        return (kept if len(text) <= REMEMBERED_CHARS else of)(text)

    return found
