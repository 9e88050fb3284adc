"""`Decision`: one row of the ledger, and how stages write it into a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

HEADERS = "headers"
"""The audit's rows about headers (R-162): their ``chunk_id`` is the header's name."""


class Decision(NamedTuple):
    """What one stage decided about one candidate.

    Attributes:
        stage: The stage that decided, as in ``views_by_stage``; or ``headers``.
        chunk_id: The candidate; or the header.
        rank: 1-based rank in the stage's order.
        score: The number the stage ranked by, higher is better, rounded to 6 digits.
        kept: Whether the candidate goes on.
        rule: Name of the rule that decided, e.g. ``top_k`` or ``similarity_gate``.
        reason: One sentence for people.
        tokens: Token count of the chunk, 0 where it was not counted.
        pass_no: 1, or 2 after the audit's re-run.
        scores: The parts of the score, e.g. ``dense``, ``lexical``, ``maxsim``.
    """

    stage: str
    chunk_id: str
    rank: int
    score: float
    kept: bool
    rule: str
    reason: str
    tokens: int = 0
    pass_no: int = 1
    scores: Mapping[str, float] = MappingProxyType({})


def decision_row(decision: Decision) -> dict[str, Any]:
    """Return the JSON form of a ledger row."""
    return {**decision._asdict(), "scores": dict(decision.scores)}


def decision_from(row: Mapping[str, Any]) -> Decision:
    """Rebuild a ledger row from its JSON form.

    Raises:
        TypeError: A field is missing or unknown.
    """
    return Decision(**row)
