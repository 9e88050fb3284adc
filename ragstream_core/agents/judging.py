"""A3's form with a language model: how much each candidate helps to answer, from 0 to 100."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pydantic import Field

from ragstream_core.agents.asking import Answer, Ask, own, passage, question
from ragstream_core.records import Chunk

MAX_CHARS = 800
"""So much of each candidate is shown."""
_TASK = (
    "You judge passages p1, p2, … for somebody who has the questions q1, q2, …. For every passage"
    " give a score: 0 when it does not help to answer any of them, 50 when it may, 100 when it"
    " answers one. verdicts: each passage exactly once."
)


class Verdict(Answer):
    """The score of one passage."""

    passage: str = Field(max_length=16)
    score: int = Field(ge=0, le=100)


class Judged(Answer):
    """The scores of all passages."""

    verdicts: list[Verdict] = Field(max_length=1000)


def judged(
    ask: Ask, pieces: Sequence[str], chunks: Sequence[Chunk]
) -> tuple[dict[str, float], str]:
    """Ask how much each candidate helps.

    Args:
        ask: Asks the model.
        pieces: The query pieces.
        chunks: The candidates, at least one.

    Returns:
        Chunk id → score in [0, 1], and an empty text; or no scores and why there are none.
    """
    names = {f"p{number}": chunk for number, chunk in enumerate(chunks, start=1)}
    parts = [own(f"q{number}", text) for number, text in enumerate(pieces, start=1)]
    parts += [passage(n, chunk, MAX_CHARS) for n, chunk in enumerate(chunks, start=1)]
    said, missed = ask(question(_TASK, parts), Judged, lambda answer: _fault(answer, names))
    if said is None:
        return {}, missed
    return {names[row.passage].id: row.score / 100 for row in said.verdicts}, ""


def _fault(said: Judged, names: Collection[str]) -> str:
    given = [row.passage for row in said.verdicts]
    if any(name not in names for name in given):
        return "it judges a passage that was not shown"
    return "" if len(given) == len(set(given)) == len(names) else "not each passage exactly once"
