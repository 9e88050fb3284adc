"""Numbers with their nouns: ``1 passage``, ``2 passages``."""

from __future__ import annotations


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun.

    Args:
        number: How many.
        one: The noun for one.
        several: For any other number; default: with an s.
    """
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
