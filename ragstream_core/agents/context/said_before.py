"""What the documents do not answer and a conversation does: named as such, with its date.

A conversation speaks to a piece if its turns that are shown do, by the estimate that documents are
judged by (`answer_estimate`); where that knows no token vectors, if they hold most of the weight of
the piece's words between them, questions among them: "Dis suits" is understood by the question
before it. What answers is a statement, and never a fact: it was said once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragstream_core.agents.context.answer_estimate import Estimate
from ragstream_core.agents.context.coverage import Piece, Weights, coverage
from ragstream_core.agents.context.open_issues import CHUNK_SUPPORT, Judged
from ragstream_core.agents.context.quotable import Terms
from ragstream_core.records import Chunk
from ragstream_core.records.s_ctx import ANSWERED, IN_CONVERSATION, Cited, OpenIssue
from ragstream_core.records.stage_results import Scores
from ragstream_core.text.sentences import sentence_spans

KIND = "conversation"
MOST_CHARS = 200
_LINE = re.compile(
    r"^(?:\[(?P<day>[^\],\n]{1,40})[^\]\n]{0,20}\] )?[^:\n]{1,64}: (?P<said>.*)", re.M
)

# (piece, texts with their cosines) → what is estimated by token vectors; None: nothing is.
Estimated = Callable[[Piece, Sequence[tuple[str, float]]], Estimate | None]


class _Statement(NamedTuple):
    """A sentence of a turn that asks nothing, and where it ends in what was said."""

    turn: Chunk
    day: str
    words: str
    end: int


class _Turn(NamedTuple):
    """A piece of a turn: what was said, without who said it and when."""

    chunk: Chunk
    text: str
    statements: list[_Statement]


def found_in_turns(
    judged: Sequence[Judged], pieces: Sequence[Piece], turns: Sequence[Chunk],
    *, terms: Terms, weight: Weights, scores: Mapping[str, Scores], estimated: Estimated,
) -> tuple[list[Judged], list[OpenIssue]]:  # fmt: skip
    """Return what is said of each piece, and what names the turns that answer.

    Args:
        judged: What the documents say of each.
        pieces: In the person's own words.
        turns: The pieces of turns that are shown, in rank order.
        terms: Stems a text.
        weight: Term weights.
        scores: Of the turns.
        estimated: Estimates as for documents.
    """
    asked = {piece.id: (at, piece) for at, piece in enumerate(pieces)}
    sessions: dict[str, list[_Turn]] = {}
    for turn in turns:
        sessions.setdefault(str(turn.meta.get("session_id", "")), []).append(_read(turn))
    found: list[Judged] = []
    issues: list[OpenIssue] = []
    for row in judged:
        said = None
        if row.answer.word != ANSWERED and row.answer.piece_id in asked:
            at, piece = asked[row.answer.piece_id]
            near = {i: _cosine(scores.get(i), at) for i in (turn.id for turn in turns)}
            said = _best(piece, list(sessions.values()), terms, weight, near, estimated)
        if said is None:
            found.append(row)
            continue
        cited = Cited(said.turn.id, said.turn.source)
        told = replace(row.answer, word=IN_CONVERSATION, nearest=cited)
        found.append(Judged(told, None, f"answered in {said.turn.source}, a conversation"))
        when = f" of {said.day}" if said.day else ""
        text = f"Answered in a conversation{when}, not by the documents: “{said.words}”"
        issues.append(OpenIssue(KIND, text, row.answer.piece_id, (cited,)))
    return found, issues


def _cosine(scores: Scores | None, at: int) -> float:
    if scores is None:
        return 0.0
    return scores.piece_cosines[at] if at < len(scores.piece_cosines) else scores.best_cosine


def _best(
    piece: Piece, sessions: Sequence[Sequence[_Turn]], terms: Terms, weight: Weights,
    near: Mapping[str, float], estimated: Estimated,
) -> _Statement | None:  # fmt: skip
    """Return the statement that answers a piece; None if no conversation does."""

    def share(text: str) -> float:
        return coverage(piece, frozenset(terms(text)), frozenset(), weight)

    for shown in sessions:  # the best ranked conversation first
        said = [statement for turn in shown for statement in turn.statements]
        held = estimated(piece, [(turn.text, near[turn.chunk.id]) for turn in shown])
        if held is None:
            speaks = share("\n".join(turn.text for turn in shown)) >= CHUNK_SUPPORT
        else:
            speaks = held.word == ANSWERED
            _, end = held.signs.span
            behind = [s for s in shown[held.signs.passage].statements if s.end >= end]
            said = behind or said  # it, or what answers it if it is a question
        if speaks and said:
            return max(said, key=lambda statement: share(statement.words))
    return None


def _read(turn: Chunk) -> _Turn:
    """Read a piece of a turn; a question states nothing."""
    text, statements = "", []
    matches = list(_LINE.finditer(turn.snippet))
    for at, match in enumerate(matches):
        stop = matches[at + 1].start() if at + 1 < len(matches) else len(turn.snippet)
        said = turn.snippet[match.start("said") : stop].rstrip()
        for start, end in sentence_spans(said):
            words = " ".join(said[start:end].split())
            if words and not words.endswith(("?", "？")):
                row = _Statement(turn, match["day"] or "", words[:MOST_CHARS], len(text) + end)
                statements.append(row)
        text += f"{said}\n\n"
    return _Turn(turn, text, statements)
