"""Turns that hold no answer: an extract, a refusal, an answer given again, one that failed.

They stay in the journal with their origin. No prompt takes them for evidence: they are not
embedded, not searched, and of them RECENT HISTORY shows the question alone, since the next one may
lean on it. An answer that broke off has the status ``partial`` and is used nowhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import Turn

if TYPE_CHECKING:
    from ragstream_core.conversations.journal.journal import Journal

# Origins of answers that no model and no person gave to this question.
EXTRACT, REFUSED, CACHED, FAILED = ORIGINS = ("extract", "refused", "cached", "failed")
_BEGINNINGS = ("No language model answered (",)
_CLOSEST = ", so here are the closest sentences from your "

# Words of such answers, also of those that were kept before turns told their origin; others that
# the program learns to say are added here.
_WHOLE = (
    "I don't have enough information in your documents to answer this question.",
    "I don't have enough information in the uploaded documents to answer this question.",
)
_FORMS = [*map(re.escape, _BEGINNINGS), *(rf"{re.escape(text)}\s*\Z" for text in _WHOLE)]
_IN_UNIT = re.compile(rf"\bassistant: (?:{'|'.join(_FORMS)})")
_IN_LINE = tuple(text.encode() for text in ('"origin":"', *_BEGINNINGS, _CLOSEST, *_WHOLE))


def is_non_answer(turn: Turn) -> bool:
    """Return whether the answer of a turn says nothing that a prompt may rest on."""
    said = turn.assistant_text.strip()
    known = said in _WHOLE or said.startswith(_BEGINNINGS) or _CLOSEST in said.partition("\n\n")[0]
    return turn.origin in ORIGINS or known


def is_evidence(turn: Turn) -> bool:
    """Return whether a turn may be searched: it is whole, and says something."""
    return turn.status == "complete" and not is_non_answer(turn)


def is_non_answer_text(text: str) -> bool:
    """Return whether a piece of a turn, with its dated line, shows that the turn is no answer."""
    return bool(_IN_UNIT.search(text))


def non_answers_in(log: Journal, upto: int) -> frozenset[int]:
    """Return the numbers of such turns up to a record; other lines are passed over unread."""
    found = log.backwards(wanted=lambda raw: any(mark in raw for mark in _IN_LINE))
    return frozenset(
        entry.seq
        for entry in found
        if entry.seq <= upto and isinstance(entry.record, Turn) and is_non_answer(entry.record)
    )
