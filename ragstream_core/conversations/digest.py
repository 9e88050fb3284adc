"""The rolling digest: the newest turns of all conversations in a few lines (R-247, C-22).

A line is made of a turn's own words, or by a language model; either way it begins with the turn's
number and date, so that what it tells of can be found, and cleared. The digest is an extra: Layer G
stays verbatim beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ragstream_core.text.sentences import sentence_spans
from ragstream_core.text.terms import terms

QUESTION_CHARS = 120
ANSWER_CHARS = 240
_NUMBER = re.compile(r"^- turn (\d{1,18}), ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DigestLine:
    """One line of the digest."""

    seq: int  # number of the turn in the journal
    date: str  # ``2026-10-05``
    text: str  # what was asked and answered, one line

    @property
    def line(self) -> str:
        """The line as Markdown."""
        return f"- turn {self.seq}, {self.date}: {self.text}"

    def worded(self, text: str) -> DigestLine:
        """Return the line in other words, or as it is if there are none."""
        return replace(self, text=text) if text else self


def extract(question: str, answer: str) -> str:
    """Return a turn in brief: the question's first sentence, and what answers it best."""
    asked = set(terms(question))
    said = [part for part in _sentences(answer) if any(c.isalnum() for c in part)]
    best = max(said, key=lambda part: len(asked.intersection(terms(part))), default="")
    first = next(iter(_sentences(question)), "")
    shown = (shortened(first, QUESTION_CHARS), shortened(best, ANSWER_CHARS))
    return " — ".join(part for part in shown if part)


def _sentences(text: str) -> list[str]:
    parts = (one_line(text[start:end]).lstrip("#>*-+ ") for start, end in sentence_spans(text))
    return [part for part in parts if part]


def one_line(text: str) -> str:
    """Return a text without line ends, gaps and controls."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def shortened(text: str, most: int) -> str:
    """Return the beginning of a text, cut at a word if it is longer than ``most``."""
    if len(text) <= most:
        return text
    cut = text[: most - 2]
    return f"{cut.rsplit(' ', 1)[0] if ' ' in cut else cut} …"


def rendered(told: Sequence[DigestLine], *, count: Callable[[str], int], budget_tokens: int) -> str:
    """Return the digest: as many of the newest lines as fit, the oldest first."""
    return fitted("\n".join(row.line for row in told), count=count, budget_tokens=budget_tokens)


def fitted(text: str, *, count: Callable[[str], int], budget_tokens: int) -> str:
    """Return a digest cut to a smaller budget; whole lines go, the oldest first."""
    lines = text.split("\n") if text else []
    while lines and count("\n".join(lines)) > budget_tokens:
        lines.pop(0)
    return "\n".join(lines)


def turns_of(text: str) -> list[int]:
    """Return the numbers of the turns that a digest tells of."""
    return [int(number) for number in _NUMBER.findall(text)]
