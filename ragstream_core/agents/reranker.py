"""Reranker: one order of the retrieved candidates by a closer look at their text.

Reads ``views_by_stage["retrieval"]``, ``extras.scores``, the query pieces and Prompt_MD (never
System_MD, never an attachment, R-150). Writes the view ``reranked`` and one decision a candidate.
Cross-encoders (FlashRank's too) and fresh vectors (``reembed``) give their pure order of the head;
MaxSim is fused with the retrieval score, both min–max scaled over the head; if a question only
tells, it has a share of its weight. Behind the head the order stays; the first ``keep`` go on.
Another pass ranks again what the one before it kept: MaxSim is fused with the score of that pass,
scaled anew over fewer; a pure order stays as it is. Locked or without candidates: an empty view.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ragstream_core.agents.context.named_rows import meant, rows_in
from ragstream_core.prompts.render import render_prompt_md
from ragstream_core.prompts.trail import advance, latest_view, pass_number, pieces_of, put_decisions
from ragstream_core.prompts.trail import put_notes as notes
from ragstream_core.records import Decision, SuperPrompt
from ragstream_core.records.stage_results import Scores
from ragstream_core.text.exclusions import without_excluded
from ragstream_core.text.terms import terms

STAGE = "reranked"
OP = "reranker"
DIGITS = 6

# (Prompt_MD, query pieces, passages) → one score a passage, higher is better.
Score = Callable[[str, Sequence[str], Sequence[str]], list[float]]


def _all_of_it(pieces: Sequence[str]) -> float:
    return 1.0


def fused(retrieval: Sequence[float], closer: Sequence[float], weight: float) -> list[float]:
    """Fuse two score lists of the same candidates, both min–max scaled; rounded to 6 digits.

    A single candidate has nothing to be scaled against and keeps its score of retrieval.

    Args:
        retrieval: Scores of retrieval.
        closer: Scores of the reranker.
        weight: Share of the reranker in [0, 1].
    """
    import numpy as np

    from ragstream_core.retrieval.scoring import convex, min_max

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
        keep: How many go on, best first; 0: all.
        passes: How often the candidates are ranked, ≥ 1.
        share: Query pieces → how much of ``weight`` MaxSim has for them, in [0, 1].
    """

    score: Score | None
    kind: Literal["cross_encoder", "flashrank", "maxsim", "reembed", "none"]
    name: str
    top_k: int = 20
    weight: float = 0.5
    dense_weight: float = 0.5
    keep: int = 0
    passes: int = 1
    share: Callable[[Sequence[str]], float] = _all_of_it

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Rerank the head."""
        result = advance(prompt, STAGE)
        view = latest_view(prompt, "retrieval")
        why = self._passes_through()
        head = [] if why else view[: self.top_k]
        weight = self._weight(prompt) if head else self.weight
        closer = self._closer(prompt, head)
        ranked = self._ranked(prompt, head, closer, weight)
        order = list(dict.fromkeys(itertools.chain(*reversed(ranked), view)))
        order = _others_first(prompt, order[: len(head)]) + order[len(head) :]
        order = _named_first(prompt, order) if head else order
        rows = self._decisions(prompt, order, ranked, closer, why)
        result.views_by_stage[STAGE] = [row.chunk_id for row in rows if row.kept]
        put_decisions(result, STAGE, rows)
        notes(result, OP, events=[why or self._told(len(head), weight), *self._left(len(order))])
        return result

    def _weight(self, prompt: SuperPrompt) -> float:
        """Return MaxSim's share of the fused score for this prompt."""
        pieces = pieces_of(prompt)
        share = self.share(pieces) if self.kind == "maxsim" and pieces else 1.0
        return round(self.weight * share, DIGITS)

    def _told(self, head: int, weight: float) -> str:
        again = f" in {self.passes} passes" if self.passes > 1 else ""
        less = f" with weight {weight}: the question only tells" if weight < self.weight else ""
        return f"{self.name} reranked the first {head}{again}{less}"

    def _left(self, found: int) -> list[str]:
        return [f"the first {self.keep} of {found} go on"] if 0 < self.keep < found else []

    def _passes_through(self) -> str:
        if self.score is None or self.kind == "none":
            return "no reranker: the retrieval order goes on"
        if self.kind == "maxsim" and self.dense_weight in (0.0, 1.0):
            return "pure ranking asked for: MaxSim is switched off"
        return ""

    def _closer(self, prompt: SuperPrompt, head: Sequence[str]) -> dict[str, float]:
        """Return id → the reranker's own score; it is a function of the text, so one a prompt."""
        if not head or self.score is None:
            return {}
        texts = {chunk.id: chunk.in_context for chunk in prompt.base_context_chunks}
        own = self.score(render_prompt_md(prompt.body), pieces_of(prompt), [texts[i] for i in head])
        return dict(zip(head, (round(float(x), DIGITS) for x in own), strict=True))

    def _ranked(
        self, prompt: SuperPrompt, head: Sequence[str], closer: dict[str, float], weight: float
    ) -> list[dict[str, float]]:
        """Return for each pass (id → deciding score in rank order)."""
        before = {i: _retrieval_score(prompt, i) for i in head}
        passes: list[dict[str, float]] = []
        for _ in range(self.passes):
            ids = list(before)[: self.keep or None] if passes else list(before)
            scores = [closer[i] for i in ids]
            if self.kind == "maxsim":
                scores = fused([before[i] for i in ids], scores, weight)
            decide = sorted(zip(ids, scores, strict=True), key=lambda item: (-item[1], item[0]))
            before = dict(decide)
            passes.append(before)
        return passes

    def _decisions(
        self,
        prompt: SuperPrompt,
        order: list[str],
        ranked: Sequence[dict[str, float]],
        closer: dict[str, float],
        why: str,
    ) -> list[Decision]:
        rows = []
        for rank, chunk_id in enumerate(order, start=1):
            score = _retrieval_score(prompt, chunk_id)
            parts = {"retrieval": score}
            rule, reason = "pass_through", why
            if chunk_id in closer:
                parts[self.kind] = closer[chunk_id]
                rule, reason = self.kind, f"ranked {rank} by {self.name}"
            elif not why:
                rule, reason = "below_head", f"not among the first {self.top_k}: keeps its order"
            for number, scores in enumerate(ranked, start=1):
                score = scores.get(chunk_id, score)
                if self.passes > 1 and chunk_id in scores:
                    parts[f"pass_{number}"] = score
            kept = not self.keep or rank <= self.keep
            if not kept:
                rule, reason = "keep", f"rank {rank} is behind the first {self.keep}"
            rows.append(
                Decision(STAGE, chunk_id, rank, score, kept, rule, reason,
                         pass_no=pass_number(prompt), scores=parts)
            )  # fmt: skip
        return rows


def _others_first(prompt: SuperPrompt, order: list[str]) -> list[str]:
    """Put the passages that speak of what the question leaves out behind the others."""
    raw = prompt.extras.raw_text
    left_out = [
        frozenset(terms(what))
        for piece in prompt.extras.query_pieces
        for what in without_excluded(raw[slice(*piece.span)])[1]
    ]
    if not any(left_out):
        return order
    texts = {chunk.id: frozenset(terms(chunk.snippet)) for chunk in prompt.base_context_chunks}
    return sorted(order, key=lambda i: any(words and words <= texts[i] for words in left_out))


def _named_first(prompt: SuperPrompt, order: list[str]) -> list[str]:
    """Put the passages with a row of a table that a piece names before the others."""
    chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
    rows = [(chunks[i], cells) for i in order for cells in rows_in(chunks[i].snippet)]
    cells, sources = [cells for _, cells in rows], [chunk.source for chunk, _ in rows]
    first = {
        chunk.id
        for piece in pieces_of(prompt)
        for (chunk, _), named in zip(rows, meant(piece, cells, sources), strict=True)
        if named
    }
    return sorted(order, key=lambda i: i not in first)


def _retrieval_score(prompt: SuperPrompt, chunk_id: str) -> float:
    return prompt.extras.scores.get(chunk_id, Scores()).score
