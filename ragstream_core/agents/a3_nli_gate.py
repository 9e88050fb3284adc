"""A3 · NLI Gate, in the form that needs no weights: a similarity gate on absolute cosines.

Reads the view ``reranked``, ``extras["scores"][id]["best_cosine"]`` as retrieval stored it, and
❖ FILES. Writes the view ``a3`` and exactly one decision a candidate. A candidate stays when its
best cosine over the query pieces is ≥ θ and its retrieval score is at least a share of the best
one, or when its rank is ≤ ``keep_top``; text that an injected file or an earlier candidate already
holds is dropped. Locked: an empty view, reason ``locked``. Raising
θ never keeps more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class NliGate:
    """Stage ``a3``.

    Attributes:
        theta: Least best cosine in [-1, 1].
        keep_top: So many best-ranked candidates stay whatever their scores.
        relative: Least retrieval score as a share of the best candidate's, in [0, 1].
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
        seen: dict[str, str] = {}
        for rank, chunk_id in enumerate(view, start=1):
            rows.append(self._decide(prompt, chunks[chunk_id], rank, files=files, seen=seen))
        result.views_by_stage[STAGE] = [row.chunk_id for row in rows if row.kept]
        put_decisions(result, STAGE, rows)
        dropped = sum(not row.kept for row in rows)
        event = f"kept {len(rows) - dropped} of {len(rows)}" if view else "no candidate"
        put_notes(result, OP, events=["locked" if is_locked(prompt) else event])
        return result

    def _decide(
        self,
        prompt: SuperPrompt,
        chunk: Chunk,
        rank: int,
        *,
        files: Sequence[dict[str, object]],
        seen: dict[str, str],
    ) -> Decision:
        scores = prompt.extras.get("scores", {})
        cosine = float(scores.get(chunk.id, {}).get("best_cosine", 0.0))
        owner = suppressed_by_files(chunk, files)
        twin = "" if owner else seen.setdefault(fold(chunk.snippet), chunk.id)
        if owner:
            kept, rule, reason = False, "duplicates_files", f"{owner} is injected as a whole"
        elif twin != chunk.id:
            kept, rule, reason = False, "duplicate_text", f"same text as {twin}"
        elif not self.enabled:
            kept, rule, reason = True, "pass_through", "the gate is switched off"
        else:
            best = max((float(s.get("score", 0.0)) for s in scores.values()), default=0.0)
            share = float(scores.get(chunk.id, {}).get("score", 0.0)) / best if best > 0 else 1.0
            kept, rule, reason = self._gate(cosine, share, rank)
        return Decision(
            STAGE, chunk.id, rank, round(cosine, 6), kept, rule, reason,
            pass_no=pass_number(prompt), scores={"best_cosine": round(cosine, 6)},
        )  # fmt: skip

    def _gate(self, cosine: float, share: float, rank: int) -> tuple[bool, str, str]:
        """Decide by the numbers; return kept, rule and reason."""
        far, weak = cosine < self.theta, share < self.relative
        if (far or weak) and rank <= self.keep_top:
            return True, "keep_top", f"rank {rank} is among the first {self.keep_top}"
        if weak and not far:
            reason = f"score is {share:.2f} of the best, below {self.relative:g}"
            return False, "relative_score", reason
        sign = "<" if far else "≥"
        return not far, "similarity_gate", f"best cosine {cosine:.3f} {sign} θ {self.theta:g}"
