"""Keeps secrets out of debug logs: those that are known by value, and what looks like one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

HIDDEN = "[redacted]"
_LEAST = 4
"""A known secret that is shorter would be found in any text."""


class Redactor:
    """Replaces secrets in a text.

    Args:
        known: Secrets by value, e.g. the key of the language model.
        patterns: Replaces what looks like a secret.
    """

    def __init__(self, known: Iterable[str], patterns: Callable[[str], str]) -> None:
        self._known = sorted({value for value in known if len(value) >= _LEAST}, key=len)[::-1]
        self._patterns = patterns

    def __call__(self, text: str) -> str:
        """Return the text without secrets; nothing of it where it cannot be searched."""
        for value in self._known:
            text = text.replace(value, HIDDEN)
        try:
            return self._patterns(text)
        except Exception as error:  # what cannot be searched is not shown
            return f"[{len(text)} characters, not shown: {type(error).__name__}]"
