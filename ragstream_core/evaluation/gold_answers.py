"""Reads a file of answers to be judged, and compares answers with right ones as SQuAD defines it.

A line of the file holds ``answer`` and one of ``prompt_key``, ``passages`` (objects with ``id``,
``source`` and ``text``) or ``question``, for which the project is asked; perhaps ``gold``, the
right answers. Exact match and token F1 are those of Rajpurkar et al., "SQuAD: 100,000+ Questions
for Machine Comprehension of Text", EMNLP 2016: lower case, punctuation and the articles a, an, the
left out, white space collapsed; the best of several right answers counts. An answer of whole
sentences is never an exact match of a short right answer, so `contained` says whether one stands in
it.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragstream_core.answers.citations import Issued
from ragstream_core.errors import UsageError
from ragstream_core.platform.files import lines_of

EXAMPLE = '{"answer": "… [source: a.md, chunk: 1a2b3c4d]", "prompt_key": "…"}'
_HINT = f"write lines like {EXAMPLE}"
_Text = Annotated[str, Field(min_length=1)]


class Passage(BaseModel):
    """What an answer may cite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,80}$")]
    source: _Text
    text: _Text


class Line(BaseModel):
    """One answer of a file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    answer: str
    question: str = ""
    prompt_key: str = ""
    passages: list[Passage] = Field(default_factory=list)
    gold: _Text | list[_Text] = Field(default_factory=list)

    @property
    def right(self) -> tuple[str, ...]:
        """The right answers."""
        return (self.gold,) if isinstance(self.gold, str) else tuple(self.gold)

    @property
    def issued(self) -> dict[str, Issued]:
        """Citation id → passage, of the passages that stand in the line."""
        return {p.id: Issued(p.id, p.source, p.id, p.text) for p in self.passages}


def read_answers(path: Path) -> list[tuple[int, Line]]:
    """Return the answers of a file with the numbers of their lines."""
    try:
        lines = lines_of(path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read: {why}", hint=_HINT) from None
    found = [(n, _line(f"{path}:{n}", text)) for n, text in enumerate(lines, 1) if text.strip()]
    if not found:
        raise UsageError(f"{path} holds no answer", hint=_HINT)
    return found


def _line(where: str, text: str) -> Line:
    try:
        line = Line.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{where}: {place + ': ' if place else ''}{first['msg']}", hint=f"e.g. {EXAMPLE}"
        ) from None
    if not (line.prompt_key or line.passages or line.question):
        raise UsageError(f"{where}: neither prompt_key, passages nor question", hint=_HINT)
    return line


DIGITS = 4
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_SIGNS = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> list[str]:
    """Return the tokens of an answer as SQuAD compares them."""
    return _ARTICLES.sub(" ", text.lower().translate(_SIGNS)).split()


def f1(answer: str, right: str) -> float:
    """Return the harmonic mean of the precision and recall of tokens, in [0, 1]."""
    said, wanted = normalised(answer), normalised(right)
    if not said or not wanted:
        return float(said == wanted)
    same = sum((Counter(said) & Counter(wanted)).values())
    return 2 * same / (len(said) + len(wanted))


@dataclass(frozen=True, slots=True)
class Comparison:
    """An answer beside right ones, or the means of several."""

    exact_match: float  # whether it is one of them, 0 or 1
    f1: float  # of its tokens, in [0, 1]
    contained: float  # whether one of them stands in it, 0 or 1


def compared(answer: str, right: Sequence[str]) -> Comparison:
    """Compare an answer with right ones; the best of them counts."""
    said = normalised(answer)
    wanted = [normalised(text) for text in right]
    spoken = f" {' '.join(said)} "
    return Comparison(
        float(said in wanted),
        round(max(f1(answer, text) for text in right), DIGITS),
        float(any(f" {' '.join(text)} " in spoken for text in wanted if text)),
    )
