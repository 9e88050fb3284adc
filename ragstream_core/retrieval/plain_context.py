"""Ranked passages as one text within two budgets: the context that seed 003 describes.

Each passage stands under ``[source: path#chunk | score: N.NNN]``. The last one is cut to what is
left of the budgets instead of being left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ragstream_core.ports import TokenCounter

# A cut moves back to the end of a word that is no longer than this.
_WORD_CHARS = 60


class Passage(NamedTuple):
    """A chunk that was found.

    Attributes:
        chunk_id: Its id.
        source: Its file.
        number: Its number within the file, from 0.
        score: What it was ranked by.
        text: Its text.
    """

    chunk_id: str
    source: str
    number: int
    score: float
    text: str

    @property
    def head(self) -> str:
        """The line above it; a file name cannot break it."""
        name = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in self.source)
        return f"[source: {name}#{self.number} | score: {self.score:.3f}]"


class Part(NamedTuple):
    """What a passage adds to a context.

    Attributes:
        passage: The passage.
        text: The separator, its head and as much of its text as fits.
        whole: Whether that is all of it.
    """

    passage: Passage
    text: str
    whole: bool


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """How large a context may be.

    Attributes:
        chars: Most characters of the whole text, ≥ 0.
        tokens: Most tokens of it, ≥ 0.
        separator: Between two passages.
        head_separator: Between a passage's head and its text.
    """

    chars: int
    tokens: int
    separator: str = "\n\n"
    head_separator: str = "\n"


def context_parts(
    passages: Sequence[Passage], limits: ContextLimits, counter: TokenCounter
) -> Iterator[Part]:
    """Yield what each passage that fits adds; joined these are the context.

    Args:
        passages: In rank order.
        limits: The budgets; neither is ever exceeded.
        counter: Counts tokens; a longer text must not have fewer.
    """
    written = ""
    for passage in passages:
        lead = (limits.separator if written else "") + passage.head + limits.head_separator
        before = written + lead

        def fits(length: int, before: str = before, text: str = passage.text) -> bool:
            whole = before + text[:length]
            return len(whole) <= limits.chars and counter.count(whole) <= limits.tokens

        length = _longest(fits, len(passage.text))
        if length < len(passage.text):
            length = _word_end(passage.text, length)
        if length < min(1, len(passage.text)):
            return
        yield Part(passage, lead + passage.text[:length], length == len(passage.text))
        if length < len(passage.text):
            return
        written = before + passage.text


def _longest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number up to ``most`` that fits, -1 if not even 0 does."""
    if fits(most):
        return most
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _word_end(text: str, length: int) -> int:
    """Return where the last whole word of a cut text ends, or the cut if there is none near."""
    if length <= 0 or text[length].isspace():
        return length
    space = max(text.rfind(c, max(0, length - _WORD_CHARS), length) for c in " \n\t")
    return space if space > 0 else length
