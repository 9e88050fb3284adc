"""The ledger's rows of A4: what became of each passage, and what is said of each query piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragstream_core.agents.context.answer_estimate import NOT_FOUND
from ragstream_core.agents.context.evidence_end import ENOUGH, Beyond
from ragstream_core.agents.context.open_issues import Judged
from ragstream_core.agents.context.passage_selection import Selection
from ragstream_core.prompts.trail import pass_number
from ragstream_core.records import Chunk, Decision, SuperPrompt
from ragstream_core.records.stage_results import Scores
from ragstream_core.records.super_prompt import ANSWERS

STAGE = "a4"
EVIDENCE_ENDS, WINDOW = "evidence_ends", "window"


def passage_rows(
    prompt: SuperPrompt,
    kept: Sequence[Chunk],
    picked: Selection,
    ended: Mapping[str, Beyond],
) -> list[Decision]:
    """Return one row a kept passage, in rank order.

    Args:
        prompt: With scores.
        kept: The candidates.
        picked: What is shown of them.
        ended: What lies behind the end of the evidence.
    """
    rows = []
    for rank, chunk in enumerate(kept, start=1):
        parts = ended[chunk.id]._asdict() if chunk.id in ended else {}
        rule, reason = _rule(chunk, picked, parts)
        score = prompt.extras.scores.get(chunk.id, Scores()).score
        rows.append(
            Decision(STAGE, chunk.id, rank, score, chunk.id in picked.tokens, rule,
                     reason, tokens=picked.tokens.get(chunk.id, 0),
                     pass_no=pass_number(prompt), scores=parts)
        )  # fmt: skip
    return rows


def _rule(chunk: Chunk, picked: Selection, ended: Mapping[str, float]) -> tuple[str, str]:
    if ended:
        before = f"{ended['before']:.1%} of the evidence ≥ {ENOUGH:.1%}"
        return EVIDENCE_ENDS, f"those before it are {before}"
    if chunk.id in picked.cuts:
        return "cut_at_budget", "cut at a sentence end: the budget ends here"
    if chunk.id in picked.windows:
        shown = sum(end - start for start, end in picked.windows[chunk.id])
        what = f"{shown:,} of {len(chunk.snippet):,} characters"
        return WINDOW, f"only the sentences around what is asked: {what}"
    if chunk.id in picked.tokens:
        return "within_budget", "fits the budget in rank order"
    if chunk.id in picked.left:
        whole = ", measured whole: windows were cut afterwards" if picked.windows else ""
        return "over_budget", f"the token budget is used up by better ranked chunks{whole}"
    return "nothing_relevant", "no candidate is relevant to the task"


def piece_rows(judged: Sequence[Judged], pass_no: int) -> list[Decision]:
    """Return the rows about query pieces: the word, the chance and what speaks for and against.

    A word without a chance was not estimated: a model, a file, or words alone decided.

    Args:
        judged: What is said of each piece.
        pass_no: 1, or 2 after the audit's re-run.
    """
    rows = []
    for number, (answer, held) in enumerate(judged, start=1):
        scores = dict(held.signs.values) if held else {}
        reason = held.reason if held else "not estimated: judged by a model, by files or by words"
        kept = answer.word != NOT_FOUND
        chance = answer.chance or 0.0
        rows.append(
            Decision(ANSWERS, answer.piece_id, number, chance, kept, answer.word, reason,
                     pass_no=pass_no, scores=scores)
        )  # fmt: skip
    return rows
