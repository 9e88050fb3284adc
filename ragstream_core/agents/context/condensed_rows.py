"""The ledger's rows of A4: what became of each passage, and what is said of each query piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragstream_core.agents.context.evidence_end import ENOUGH, Beyond
from ragstream_core.agents.context.open_issues import Judged
from ragstream_core.agents.context.passage_selection import Selection
from ragstream_core.agents.history_conflicts import is_past
from ragstream_core.prompts.trail import pass_number
from ragstream_core.records import Chunk, Decision, SuperPrompt
from ragstream_core.records.s_ctx import NOT_FOUND
from ragstream_core.records.stage_results import Scores
from ragstream_core.records.super_prompt import ANSWERS

STAGE = "a4"
EVIDENCE_ENDS, WINDOW = "evidence_ends", "window"

# The documents probably do not answer: among the best passages, and behind them.
NEAREST, NOTHING_RELEVANT = "nearest", "nothing_relevant"


def passage_rows(
    prompt: SuperPrompt,
    kept: Sequence[Chunk],
    picked: Selection,
    ended: Mapping[str, Beyond],
    doubt: str = "",
    beside: Mapping[str, str] | None = None,
) -> list[Decision]:
    """Return one row a kept passage, in rank order.

    Args:
        prompt: With scores.
        kept: The candidates.
        picked: What is shown of them.
        ended: What lies behind the end of the evidence.
        doubt: Why only the best passages are shown; empty: they are not the only ones.
        beside: Passage → why it stands beside another one.
    """
    rows = []
    places = [chunk.id for chunk in kept if not is_past(chunk)]
    for rank, chunk in enumerate(kept, start=1):
        parts = ended[chunk.id]._asdict() if chunk.id in ended else {}
        rule, reason = _rule(chunk, picked, parts, doubt)
        if beside and chunk.id in beside:
            reason = f"{reason}; {beside[chunk.id]}"
        parts = {"place": places.index(chunk.id) + 1} if rule == NOTHING_RELEVANT else parts
        score = prompt.extras.scores.get(chunk.id, Scores()).score
        rows.append(
            Decision(STAGE, chunk.id, rank, score, chunk.id in picked.tokens, rule,
                     reason, tokens=picked.tokens.get(chunk.id, 0),
                     pass_no=pass_number(prompt), scores=parts)
        )  # fmt: skip
    return rows


def _rule(
    chunk: Chunk, picked: Selection, ended: Mapping[str, float], doubt: str
) -> tuple[str, str]:
    if ended:
        held = f"the passages above already hold {ended['before']:.1%} of the evidence"
        return EVIDENCE_ENDS, f"left out: {held} (limit {ENOUGH:.1%}, retrieval.evidence)"
    if chunk.id in picked.cuts:
        return "cut_at_budget", "cut at a sentence end: the budget ends here"
    if chunk.id in picked.windows:
        shown = sum(end - start for start, end in picked.windows[chunk.id])
        what = f"{shown:,} of {len(chunk.snippet):,} characters"
        return WINDOW, f"only the sentences around what is asked: {what}"
    if chunk.id in picked.tokens:
        fits = "fits the budget in rank order"
        return (NEAREST, doubt) if doubt and not is_past(chunk) else ("within_budget", fits)
    if chunk.id in picked.left:
        whole = ", measured whole: windows were cut afterwards" if picked.windows else ""
        return "over_budget", f"the token budget is used up by better ranked chunks{whole}"
    return NOTHING_RELEVANT, doubt


def nearest_only(judged: Sequence[Judged], most: int) -> str:
    """Say why only the best passages are shown: the best chance, and what is missing to it.

    Args:
        judged: What the passages say of each piece; none of them is found.
        most: So many passages are shown.
    """
    held = [row.held for row in judged if row.held is not None]
    best = max(held, key=lambda found: found.subject, default=None)
    chance = f" (about this: {best.subject:.0%}, limit {best.limit:.0%})" if best else ""
    which = f"only the best {most} are shown" if most != 1 else "only the best one is shown"
    return f"probably not answered{chance}: {which} (gate.keep_top)"


def piece_rows(judged: Sequence[Judged], pass_no: int) -> list[Decision]:
    """Return the rows about query pieces: the word, the chance and what speaks for and against.

    Args:
        judged: What is said of each piece.
        pass_no: 1, or 2 after the audit's re-run.
    """
    rows = []
    for number, (answer, held, reason) in enumerate(judged, start=1):
        scores = dict(held.signs.values) if held else {}
        kept = answer.word != NOT_FOUND
        chance = answer.chance or 0.0
        rows.append(
            Decision(ANSWERS, answer.piece_id, number, chance, kept, answer.word, reason,
                     pass_no=pass_no, scores=scores)
        )  # fmt: skip
    return rows
