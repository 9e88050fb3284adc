"""The form that asks a language model: what it is asked, and what its answer says (R-253).

Small models wrap their JSON in fences, talk around it, or give one object where several were asked
for. All of that is read; what does not fit is left out, and nothing it says is believed unchecked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragstream_core.conversations.facts.candidate import Candidate

MOST = 8
TASK = (
    "Decide what of the user's message is worth remembering in later conversations: their job or"
    " role, preferences they state, facts about their company, workflows that recur. Never secrets,"
    " guesses, plans, moods, questions, or what they quote from somebody else."
    " Answer with a JSON array, one object a fact, [] where there is none. Each object:"
    ' {"should_write": true, "target": "user" | "company" | "none", "summary": one short standalone'
    ' sentence that begins with "The user" or "The company" and uses the words of the message,'
    ' "confidence": 0.0 to 1.0, "quote": the words of the message that say it, copied exactly}.'
)


class MemoryDecision(BaseModel):
    """What a model decides about one fact."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    should_write: bool  # whether it is to be remembered
    target: Literal["user", "company", "none"]  # ``user``, ``company`` or ``none``
    summary: str = ""  # one concise standalone sentence
    confidence: float = Field(0.0, ge=0, le=1, allow_inf_nan=False)  # in [0, 1]
    quote: str = ""  # the user's words, verbatim


def decisions(text: str) -> list[MemoryDecision] | None:
    """Return the decisions in an answer, at most `MOST`; None if it holds no JSON at all."""
    found: list[MemoryDecision] = []
    any_json = False
    for value in _values(text):
        any_json = True
        for row in value if isinstance(value, list) else [value]:
            try:
                found.append(MemoryDecision.model_validate(row))
            except ValidationError:
                continue
    return found[:MOST] if any_json else None


def candidate_of(decision: MemoryDecision) -> Candidate | None:
    """Return what a decision proposes; None if it says that nothing is to be written."""
    summary = " ".join(decision.summary.removeprefix("- ").split())
    if not decision.should_write or decision.target == "none" or not summary:
        return None
    return Candidate(decision.target, summary, decision.quote.strip(), decision.confidence, "llm")


def _values(text: str) -> Iterator[Any]:
    """Yield every whole JSON array or object of a text that lies in no other."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        begins = [found for found in (text.find("{", at), text.find("[", at)) if found >= 0]
        if not begins:
            return
        at = min(begins)
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
        else:
            yield value
