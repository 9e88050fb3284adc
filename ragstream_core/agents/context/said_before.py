"""What the documents do not answer and a conversation does: named as such, with its date.

A conversation speaks to a piece if the turns of it that are shown hold most of the weight of the
piece's words between them, questions among them: "Dis suits" is understood by the question before
it. What answers is a statement, and never a fact: it was said once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragstream_core.agents.context.coverage import Piece, Weights, coverage
from ragstream_core.agents.context.open_issues import CHUNK_SUPPORT, Judged
from ragstream_core.agents.context.quotable import Terms
from ragstream_core.records import Chunk
from ragstream_core.records.s_ctx import ANSWERED, IN_CONVERSATION, Cited, OpenIssue
from ragstream_core.text.sentences import sentence_spans

KIND = "conversation"
MOST_CHARS = 200
_LINE = re.compile(
    r"^(?:\[(?P<day>[^\],\n]{1,40})[^\]\n]{0,20}\] )?[^:\n]{1,64}: (?P<said>.*)", re.M
)


def found_in_turns(
    judged: Sequence[Judged], pieces: Sequence[Piece], turns: Sequence[Chunk],
    *, terms: Terms, weight: Weights,
) -> tuple[list[Judged], list[OpenIssue]]:  # fmt: skip
    """Return what is said of each piece, and what names the turns that answer.

    Args:
        judged: What the documents say of each.
        pieces: In the person's own words.
        turns: The pieces of turns that are shown, in rank order.
        terms: Stems a text.
        weight: Term weights.
    """
    asked = {piece.id: piece for piece in pieces}
    found: list[Judged] = []
    issues: list[OpenIssue] = []
    for row in judged:
        answer = row.answer
        piece = asked.get(answer.piece_id)
        said = None
        if answer.word != ANSWERED and piece is not None:
            said = _best(piece, turns, terms, weight)
        if said is None:
            found.append(row)
            continue
        turn, day, words = said
        cited = Cited(turn.id, turn.source)
        told = replace(answer, word=IN_CONVERSATION, nearest=cited)
        found.append(Judged(told, None, f"answered in {turn.source}, a conversation"))
        when = f" of {day}" if day else ""
        text = f"Answered in a conversation{when}, not by the documents: “{words}”"
        issues.append(OpenIssue(KIND, text, piece.id if piece else "", (cited,)))
    return found, issues


def _best(
    piece: Piece, turns: Sequence[Chunk], terms: Terms, weight: Weights
) -> tuple[Chunk, str, str] | None:
    """Return the turn, the day and the words that answer a piece; None if no conversation does."""

    def share(text: str) -> float:
        return coverage(piece, frozenset(terms(text)), frozenset(), weight)

    sessions: dict[str, list[Chunk]] = {}
    for turn in turns:
        sessions.setdefault(str(turn.meta.get("session_id", "")), []).append(turn)
    for shown in sessions.values():  # the best ranked conversation first
        if share("\n".join(turn.snippet for turn in shown)) < CHUNK_SUPPORT:
            continue
        said = [(turn, *row) for turn in shown for row in _statements(turn.snippet)]
        if said:
            return max(said, key=lambda row: share(row[2]))
    return None


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """Yield (day, words) of what is stated in a piece of a turn; a question states nothing."""
    matches = list(_LINE.finditer(text))
    for at, match in enumerate(matches):
        end = matches[at + 1].start() if at + 1 < len(matches) else len(text)
        said = text[match.start("said") : end]
        for start, stop in sentence_spans(said):
            words = " ".join(said[start:stop].split())
            if words and not words.endswith(("?", "？")):
                yield match["day"] or "", words[:MOST_CHARS]
