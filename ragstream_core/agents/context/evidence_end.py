"""Where the evidence for a question ends, if the attachments are to be tight.

Each kept passage is given a share of one: softmax of 4 times its reranked score plus 12 times how
near it comes to the best candidate (`a3_nli_gate.Near.both`). Passages are shown in rank order
until those before one have 98.5 % of it; the first two always, more if it is not sure that
they answer. One clear winner leaves little for the rest and ends the evidence early, many of equal
strength end it late. The numbers were chosen on one half of SQuAD 2.0 and of the sets labelled by
hand, and judged on the other: decision 102.

Scores of several pieces are joined over the pieces and say nothing of each, and what tells or
orders something has no answer that could be complete: only a single question ends early. Nor does
one whose best passage is a program or data: names answer there, which questions do not hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragstream_core.agents.context.data_lines import data_kind

RERANKED, NEAR = 4.0, 12.0
ENOUGH = 0.985
ALWAYS = 2
PIECE_COSINE = 30.0
QUESTION_MARKS = "?？؟"
_DIGITS = 6


class Beyond(NamedTuple):
    """A passage behind the end of the evidence.

    Attributes:
        before: The share of the passages before it, in [`ENOUGH`, 1].
        own: Its own share, in [0, 1].
    """

    before: float
    own: float


def shares(strengths: Sequence[float]) -> list[float]:
    """Return the softmax of some strengths: each in [0, 1], together 1; adding c changes nothing.

    Args:
        strengths: In any order and on any scale.
    """
    top = max(strengths, default=0.0)
    raw = [math.exp(strength - top) for strength in strengths]
    total = math.fsum(raw)
    return [value / total for value in raw]


def is_one_question(pieces: Sequence[str]) -> bool:
    """Return whether what is searched for is one question: one piece with one question mark."""
    return len(pieces) == 1 and sum(map(pieces[0].count, QUESTION_MARKS)) == 1


def can_end(pieces: Sequence[str], best: str) -> bool:
    """Return whether evidence can end before the budget does.

    Args:
        pieces: What is searched for.
        best: Path of the best passage.
    """
    return is_one_question(pieces) and not data_kind(best.rsplit(".", 1)[-1])


def beyond_evidence(
    ranked: Sequence[str],
    reranked: Mapping[str, float],
    near: Mapping[str, float],
    *,
    least: int = ALWAYS,
) -> dict[str, Beyond]:
    """Return the passages that lie behind the end of the evidence, in rank order.

    Args:
        ranked: Ids of the kept passages of documents, best first.
        reranked: Their reranked scores; 0 for one without.
        near: How near each comes to the best candidate, at most 1; 1 for one without.
        least: So many are not behind it in any case.
    """
    found = shares([RERANKED * reranked.get(i, 0.0) + NEAR * near.get(i, 1.0) for i in ranked])
    ended: dict[str, Beyond] = {}
    for at, (chunk_id, own) in enumerate(zip(ranked, found, strict=True)):
        before = round(math.fsum(found[:at]), _DIGITS)
        if ended or (at >= least and before >= ENOUGH):
            ended[chunk_id] = Beyond(before, round(own, _DIGITS))
    return ended


def strengths_of(
    ranked: Sequence[str],
    reranked: Mapping[str, float],
    near: Mapping[str, float],
    cosines: Mapping[str, Sequence[float]],
) -> dict[str, tuple[float, ...]]:
    """Return how strong each passage is for each piece, in [0, 1]; 1 for the strongest of a piece.

    The share of the passage, divided by the largest one; of several pieces exp(30·(c − best)) of
    its cosine c to the piece, since joined scores say nothing of one piece.

    Args:
        ranked: Ids of passages, best first.
        reranked: Their reranked scores; 0 for one without.
        near: As of `beyond_evidence`.
        cosines: Their cosines to each piece; a passage without them has no strength.

    Returns:
        Empty if no cosines are known: then nothing is known of one passage against another.
    """
    known = [i for i in ranked if cosines.get(i)]
    pieces = len(cosines[known[0]]) if known else 0
    if pieces == 1:
        raw = [[RERANKED * reranked.get(i, 0.0) + NEAR * near.get(i, 1.0)] for i in known]
    else:
        raw = [[PIECE_COSINE * c for c in cosines[i]] for i in known]
    best = [max(column) for column in zip(*raw, strict=True)]
    return {
        i: tuple(round(math.exp(s - top), _DIGITS) for s, top in zip(row, best, strict=True))
        for i, row in zip(known, raw, strict=True)
    } | {i: (0.0,) * pieces for i in ranked if known and not cosines.get(i)}
