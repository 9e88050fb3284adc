"""A file of answers to be judged: one JSON object a line.

A line holds ``answer`` and one of ``prompt_key``, ``passages`` (objects with ``id``, ``source`` and
``text``) or ``question``, for which the project is asked; perhaps ``gold``, right answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragstream_core.answering.issued import Issued
from ragstream_core.errors import UsageError

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
    """Return the answers of a file with the numbers of their lines.

    Raises:
        UsageError: The file cannot be read, or a line is not such an answer; it is named.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
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
