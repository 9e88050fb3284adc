"""Reranker: one order of the retrieved candidates by a closer look at their text.

Reads ``views_by_stage["retrieval"]``, ``extras["scores"]``, the query pieces and Prompt_MD (never
System_MD, never an attachment, R-150). Writes the view ``reranked`` and one decision a candidate;
drops nothing. Cross-encoders (FlashRank's too) and fresh vectors (``reembed``) give their pure
order of the head; MaxSim is fused with the retrieval score, both min–max scaled over the head.
Behind the head the order stays. Locked or without candidates: an empty view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ragstream_core.agents.trail import advance, latest_view, pass_number, pieces_of, put_decisions
from ragstream_core.agents.trail import put_notes as notes
from ragstream_core.prompting.render import render_prompt_md
from ragstream_core.records import Decision, SuperPrompt

STAGE = "reranked"
OP = "reranker"
DIGITS = 6
Score = Callable[[str, Sequence[str], Sequence[str]], list[float]]
"""(Prompt_MD, query pieces, passages) → one score a passage, higher is better."""


def fused(retrieval: Sequence[float], closer: Sequence[float], weight: float) -> list[float]:
    """Fuse two score lists of the same candidates, both min–max scaled; rounded to 6 digits.

    A single candidate has nothing to be scaled against and keeps its score of retrieval.

    Args:
        retrieval: Scores of retrieval.
        closer: Scores of the reranker.
        weight: Share of the reranker in [0, 1].
    """
    import numpy as np

    from ragstream_core.scoring import convex, min_max

    if len(retrieval) == 1:
        return [round(float(retrieval[0]), DIGITS)]
    mixed = convex(min_max(np.array(closer)), min_max(np.array(retrieval)), weight)
    return [round(float(x), DIGITS) for x in mixed]


@dataclass(frozen=True)
class RerankerStage:
    """Stage ``reranked``.

    Attributes:
        score: The scorer; None passes through.
        kind: ``cross_encoder``, ``flashrank`` or ``reembed`` (pure order), ``maxsim`` (fused) or
            ``none``.
        name: What people see, e.g. the model.
        top_k: Length of the head that is looked at.
        weight: MaxSim's share of the fused score.
        dense_weight: Retrieval's slider; at 0 or 1 MaxSim leaves the pure ranking alone (R-133).
    """

    score: Score | None
    kind: Literal["cross_encoder", "flashrank", "maxsim", "reembed", "none"]
    name: str
    top_k: int = 20
    weight: float = 0.5
    dense_weight: float = 0.5

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Rerank the head."""
        result = advance(prompt, STAGE)
        view = latest_view(prompt, "retrieval")
        why = self._passes_through()
        head = [] if why else view[: self.top_k]
        ranked, closer = self._order(prompt, head)
        tail = view[len(head) :]
        result.views_by_stage[STAGE] = [*ranked, *tail]
        put_decisions(result, STAGE, self._decisions(prompt, [*ranked, *tail], ranked, closer, why))
        notes(result, OP, events=[why or f"{self.name} reranked the first {len(head)}"])
        return result

    def _passes_through(self) -> str:
        if self.score is None or self.kind == "none":
            return "no reranker: the retrieval order goes on"
        if self.kind == "maxsim" and self.dense_weight in (0.0, 1.0):
            return "pure ranking asked for: MaxSim is switched off"
        return ""

    def _order(
        self, prompt: SuperPrompt, head: list[str]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Return (id → deciding score in rank order, id → the reranker's own score)."""
        if not head or self.score is None:
            return {}, {}
        texts = {chunk.id: chunk.snippet for chunk in prompt.base_context_chunks}
        own = self.score(render_prompt_md(prompt.body), pieces_of(prompt), [texts[i] for i in head])
        closer = dict(zip(head, (round(float(x), DIGITS) for x in own), strict=True))
        decide = closer
        if self.kind == "maxsim":
            before = [_retrieval_score(prompt, i) for i in head]
            decide = dict(zip(head, fused(before, list(closer.values()), self.weight), strict=True))
        return dict(sorted(decide.items(), key=lambda item: (-item[1], item[0]))), closer

    def _decisions(
        self,
        prompt: SuperPrompt,
        order: list[str],
        ranked: dict[str, float],
        closer: dict[str, float],
        why: str,
    ) -> list[Decision]:
        rows = []
        for rank, chunk_id in enumerate(order, start=1):
            score = _retrieval_score(prompt, chunk_id)
            parts = {"retrieval": score}
            rule, reason = "pass_through", why
            if chunk_id in ranked:
                parts[self.kind] = closer[chunk_id]
                rule, reason = self.kind, f"ranked {rank} by {self.name}"
            elif not why:
                rule, reason = "below_head", f"not among the first {self.top_k}: keeps its order"
            score = ranked.get(chunk_id, score)
            rows.append(
                Decision(STAGE, chunk_id, rank, score, True, rule, reason,
                         pass_no=pass_number(prompt), scores=parts)
            )  # fmt: skip
        return rows


def _retrieval_score(prompt: SuperPrompt, chunk_id: str) -> float:
    return float(prompt.extras.get("scores", {}).get(chunk_id, {}).get("score", 0.0))
