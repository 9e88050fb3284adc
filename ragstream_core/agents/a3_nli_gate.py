"""A3 · NLI Gate, in the form that needs no weights: a similarity gate on absolute cosines.

Reads the view ``reranked``, ``extras["scores"][id]["best_cosine"]`` as retrieval stored it, and
❖ FILES. Writes the view ``a3`` and exactly one decision a candidate. A candidate stays when its
best cosine over the query pieces is ≥ θ and, for some piece, its cosine is at least a share of the
best candidate's, or when its rank is ≤ ``keep_top``; text that an injected file or an earlier
candidate already holds is dropped. Locked: an empty view, reason ``locked``. Raising
θ never keeps more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstream_core.agents.trail import advance, latest_view, pass_number, put_decisions, put_notes
from ragstream_core.prompting.compose import HISTORY_PREFIX, is_locked
from ragstream_core.records import Chunk, Decision, SuperPrompt

STAGE = "a3"
OP = "a3_nli_gate"
MIN_FRAGMENT = 40


def fold(text: str) -> str:
    """Return a text with all white space collapsed: the form in which texts are compared."""
    return " ".join(text.split())


def suppressed_by_files(chunk: Chunk, files: Sequence[dict[str, object]]) -> str:
    """Say which injected file makes a candidate superfluous, or return an empty text.

    ❖ FILES > newer > older: every chunk of an injected file goes (the file itself is shown), and
    every fragment of the conversation whose text stands in one (R-160, C-55).

    Args:
        chunk: The candidate.
        files: ``extras["files"]``.
    """
    for row in files:
        home = row.get("home") or [chunk.meta.get("project"), row["path"]]
        same = isinstance(home, (list, tuple)) and chunk.source == home[1]
        if same and chunk.meta.get("project", home[0]) == home[0]:  # type: ignore[index]  # narrowed by `same`
            return str(row["path"])
        text = fold(chunk.snippet)
        if (
            chunk.id.startswith(HISTORY_PREFIX)
            and len(text) >= MIN_FRAGMENT
            and text in fold(str(row["text"]))
        ):
            return str(row["path"])
    return ""


def nearness(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return how near each candidate comes to the best one, by absolute cosines.

    For each piece the candidate's cosine as a share of the best candidate's; the largest counts,
    since a passage may answer one piece alone. At most 1, and 1 where no cosines are stored.

    Args:
        scores: ``extras["scores"]``: chunk id → ``piece_cosines``.
    """
    rows = {i: s["piece_cosines"] for i, s in scores.items() if s.get("piece_cosines")}
    best = [max(column) for column in zip(*rows.values(), strict=True)]
    return {
        i: max((c / top for c, top in zip(row, best, strict=True) if top > 0), default=1.0)
        for i, row in rows.items()
    }


@dataclass(frozen=True)
class NliGate:
    """Stage ``a3``.

    Attributes:
        theta: Least best cosine in [-1, 1].
        keep_top: So many best-ranked candidates stay whatever their scores.
        relative: Least cosine for some piece as a share of the best candidate's, in [0, 1].
        enabled: Off: every candidate stays that ❖ FILES does not hold.
    """

    theta: float
    keep_top: int = 3
    relative: float = 0.0
    enabled: bool = True

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Gate the candidates."""
        result = advance(prompt, STAGE)
        view = [] if is_locked(prompt) else latest_view(prompt, "reranked", "retrieval")
        chunks = {chunk.id: chunk for chunk in prompt.base_context_chunks}
        files = prompt.extras.get("files", [])
        rows: list[Decision] = []
        shares = nearness(prompt.extras.get("scores", {}))
        first: dict[str, str] = {}
        for rank, chunk_id in enumerate(view, start=1):
            chunk = chunks[chunk_id]
            owner = suppressed_by_files(chunk, files)
            twin = chunk_id if owner else first.setdefault(fold(chunk.snippet), chunk_id)
            if owner or twin != chunk_id:
                rows.append(self._duplicate(prompt, chunk_id, rank, owner=owner, twin=twin))
            else:
                rows.append(self._decide(prompt, chunk_id, rank, share=shares.get(chunk_id, 1.0)))
        result.views_by_stage[STAGE] = [row.chunk_id for row in rows if row.kept]
        put_decisions(result, STAGE, rows)
        dropped = sum(not row.kept for row in rows)
        event = f"kept {len(rows) - dropped} of {len(rows)}" if view else "no candidate"
        put_notes(result, OP, events=["locked" if is_locked(prompt) else event])
        return result

    def _duplicate(
        self, prompt: SuperPrompt, chunk_id: str, rank: int, *, owner: str, twin: str
    ) -> Decision:
        rule, reason = "duplicate_text", f"same text as {twin}"
        if owner:
            rule, reason = "duplicates_files", f"{owner} is injected as a whole"
        return _row(prompt, chunk_id, rank, decided=(False, rule, reason))

    def _decide(self, prompt: SuperPrompt, chunk_id: str, rank: int, *, share: float) -> Decision:
        if not self.enabled:
            decided = (True, "pass_through", "the gate is switched off")
        else:
            decided = self._gate(_best_cosine(prompt, chunk_id), share, rank)
        return _row(prompt, chunk_id, rank, decided=decided)

    def _gate(self, cosine: float, share: float, rank: int) -> tuple[bool, str, str]:
        """Decide by the numbers; return kept, rule and reason."""
        far, weak = cosine < self.theta, share < self.relative
        if (far or weak) and rank <= self.keep_top:
            return True, "keep_top", f"rank {rank} is among the first {self.keep_top}"
        if weak and not far:
            reason = f"cosine is {share:.2f} of the best candidate's, below {self.relative:g}"
            return False, "relative_cosine", reason
        sign = "<" if far else "≥"
        return not far, "similarity_gate", f"best cosine {cosine:.3f} {sign} θ {self.theta:g}"


def _best_cosine(prompt: SuperPrompt, chunk_id: str) -> float:
    return float(prompt.extras.get("scores", {}).get(chunk_id, {}).get("best_cosine", 0.0))


def _row(
    prompt: SuperPrompt, chunk_id: str, rank: int, *, decided: tuple[bool, str, str]
) -> Decision:
    cosine = round(_best_cosine(prompt, chunk_id), 6)
    kept, rule, reason = decided
    return Decision(
        STAGE, chunk_id, rank, cosine, kept, rule, reason,
        pass_no=pass_number(prompt), scores={"best_cosine": cosine},
    )  # fmt: skip
