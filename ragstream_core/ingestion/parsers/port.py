"""What a parser gives, and what a parser may use; stdlib only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

PAGE_BREAK = "\f"
"""Stands between two pages in a document's text; no page holds one."""


class Parsed(NamedTuple):
    """The text of a file.

    Attributes:
        pages: (page number, text); number 0 where the type has no pages. None: refused.
        note: How it was read, or why it was refused; one phrase.
    """

    pages: tuple[tuple[int, str], ...] | None
    note: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may cost.

    Attributes:
        memory_bytes: Address space of the child process, beyond that of the engines.
        cpu_s: CPU seconds, not those of the import of the engines.
        wall_s: Seconds until it is killed.
        pages: More pages are refused.
        text_bytes: More text (UTF-8) is refused.
    """

    memory_bytes: int = 1_000_000_000
    cpu_s: int = 60
    wall_s: int = 180
    pages: int = 2_000
    text_bytes: int = 20_000_000


DEFAULT_LIMITS = Limits()


class Parser(Protocol):
    """Reads one type of file."""

    def __call__(self, data: bytes, *, file_type: str, limits: Limits) -> Parsed:
        """Return the pages of a file; never raises for what the file holds."""
        ...


class Refusal(Exception):
    """Raised inside a parser: the file cannot be taken; the message is the reason."""
