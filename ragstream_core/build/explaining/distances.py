"""By how much a candidate missed the prompt, where one number decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ragstream_core.agents.past import is_past
from ragstream_core.agents.selection import framed_tokens
from ragstream_core.agents.trail import latest_view

if TYPE_CHECKING:
    from ragstream_core.ports import TokenCounter
    from ragstream_core.records import SuperPrompt
    from ragstream_core.settings import ChainSettings

OVER_BUDGET = "over_budget"
SCORE, COSINE, SHARE, TOKENS = "score", "cosine", "share of the best candidate", "tokens"
_DIGITS = 6


class Lack(NamedTuple):
    """What a candidate lacks.

    Attributes:
        distance: How much, above 0.
        measure: Of what: `SCORE`, `COSINE`, `SHARE`, `TOKENS`, ``entailment`` or ``relevance``.
    """

    distance: float
    measure: str


def lacks(found: Lack | None) -> dict[str, Any]:
    """Return the JSON form of what a candidate lacks; None: no number decides."""
    return found._asdict() if found else {"distance": None, "measure": ""}


def missing(
    settings: ChainSettings, step: Mapping[str, Any], ways: Sequence[Mapping[str, Any]]
) -> Lack | None:
    """Return what a candidate lacks at the stage where it ended, None where no number tells.

    Args:
        settings: As the gate saw them.
        step: Its last step, of `ways`.
        ways: All candidates.
    """
    rule, scores = step["rule"], step["scores"]
    if rule in ("top_k", "keep"):
        same = (step["stage"], step["pass"])
        kept = [
            other["score"]
            for way in ways
            for other in way["steps"]
            if other["kept"] and (other["stage"], other["pass"]) == same
        ]
        short = min(kept, default=0.0) - step["score"]
        return _lack(short, SCORE) if short >= 0 else None  # a later pass has another scale
    if rule == "min_score":
        return _lack(settings.retrieval.min_score - scores["cosine"], COSINE)
    if rule == "similarity_gate":
        return _lack(settings.gate.theta - step["score"], COSINE)
    if rule == "relative_score" and "both" in scores:
        return _lack(settings.gate.relative - scores["both"], SHARE)
    if rule in ("nli_gate", "llm_gate"):
        measure = "entailment" if rule == "nli_gate" else "relevance"
        return _lack(settings.gate.nli_theta - step["score"], measure)
    return None


def tokens_short(prompt: SuperPrompt, chunk_id: str, counter: TokenCounter) -> Lack:
    """Return by how many tokens the budget is too small for a candidate: at most so many.

    Those of the candidates of its kind that were left out before it stand in its way as well.

    Args:
        prompt: After the condenser.
        chunk_id: A candidate that was over the budget.
        counter: As the condenser counts.
    """
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    order = latest_view(prompt, "a3", "reranked", "retrieval")
    before = order[: order.index(chunk_id) + 1]
    picked, kind = set(prompt.final_selection_ids), is_past(chunks[chunk_id])
    left = [chunks[i] for i in before if i not in picked and is_past(chunks[i]) is kind]
    return Lack(sum(framed_tokens(chunk, counter) for chunk in left), TOKENS)


def _lack(distance: float, measure: str) -> Lack:
    return Lack(round(float(distance), _DIGITS), measure)
