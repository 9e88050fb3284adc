"""What the turns around it and its speaker add to the score of a turn that was found.

What answers a question about a conversation often stands beside the turn that has its words, in
the same sitting, or is said by the person whom the question names. So the scores of what was found
are carried over to its neighbours and its sitting: a second hop, without a second search.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragstream_core.conversations.columns import HistoryColumns
from ragstream_core.records import Hit
from ragstream_core.text.terms import is_stop_word, words

I64 = npt.NDArray[np.int64]

DIGITS = 6
BESIDE = 0.4
"""Share of the better neighbour's score."""
SITTING = 1.2
"""Share of the best score in the same sitting."""
SPEAKER = 0.45
"""Added if the question names the person who speaks."""
PAUSE_NS = 4 * 3_600_000_000_000
"""A silence of four hours ends a sitting."""
ROLES = frozenset({"user", "assistant"})
"""Speakers without a name of their own."""
_SPEAKER = re.compile(r"^(?:\[[^\]\n]{1,40}\] )?([^:\n]{1,64}): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Order:
    """Where each row stands in its conversation.

    Attributes:
        places: Number of its turn, one up from that of the turn before.
        sittings: Number of its sitting: turns of one conversation without a long pause.
    """

    places: I64
    sittings: I64


def order_of(columns: HistoryColumns) -> Order:
    """Return the order of all rows; those of one turn have one place."""
    sessions = np.asarray(columns.sessions.codes, dtype=np.int64)
    order = np.lexsort((columns.seq_last, columns.seq, sessions))
    fresh = np.ones((3, len(order)), dtype=bool)  # another conversation, turn, time
    for row, values in enumerate((sessions[order], columns.seq[order])):
        fresh[row, 1:] = values[1:] != values[:-1]
    times = columns.timestamp_ns[order]
    fresh[2, 1:] = np.abs(times[1:] - times[:-1]) > PAUSE_NS
    places, sittings = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    places[order] = np.cumsum(fresh[0] | fresh[1])
    sittings[order] = np.cumsum(fresh[0] | fresh[2])
    return Order(places, sittings)


def speakers_in(text: str) -> set[str]:
    """Return the words of the names before the lines of a turn's text, without mere roles."""
    names = {word for name in _SPEAKER.findall(text) for word in words(name)}
    return {word for word in names - ROLES if not is_stop_word(word)}


@dataclass(frozen=True, slots=True)
class Found:
    """The turns that were found for a question.

    Attributes:
        hits: Their hits.
        rows: Their rows.
        texts: Their texts, with the speaker before each line.
    """

    hits: Sequence[Hit]
    rows: Sequence[int]
    texts: Sequence[str]


def ranked(found: Found, order: Order, asked: str) -> list[Hit]:
    """Rank turns by their scores and by what is around them; each place keeps its score.

    So what was found beside the turns, a document, has as many turns before it as it had.

    Args:
        found: The turns, one or more.
        order: Of all rows.
        asked: The question.

    Returns:
        The same hits, best first. Their columns gain ``own``, the score before, and what was added
        to it to rank them: ``beside``, ``sitting`` and ``speaker``, if it is not 0.
    """
    hits, parts = found.hits, _added(found, order, frozenset(words(asked)))
    totals = [
        round(hit.score + sum(part.values()), DIGITS) for hit, part in zip(hits, parts, strict=True)
    ]
    by_total = sorted(range(len(hits)), key=lambda i: (-totals[i], hits[i].chunk_id))
    scores = sorted((hit.score for hit in hits), reverse=True)
    return [
        hits[i]._replace(score=score, scores={**hits[i].scores, "own": hits[i].score, **parts[i]})
        for i, score in zip(by_total, scores, strict=True)
    ]


def _added(found: Found, order: Order, asked: frozenset[str]) -> list[dict[str, float]]:
    """Return what is added to the score of each turn, by the reason."""
    rows = np.asarray(found.rows, dtype=np.int64)
    places = list(zip(order.sittings[rows].tolist(), order.places[rows].tolist(), strict=True))
    of_place: dict[tuple[int, int], float] = {}
    of_sitting: dict[int, float] = {}
    for place, hit in zip(places, found.hits, strict=True):
        of_place[place] = max(of_place.get(place, 0.0), hit.score)
        of_sitting[place[0]] = max(of_sitting.get(place[0], 0.0), hit.score)
    added = []
    for (sitting, place), text in zip(places, found.texts, strict=True):
        near = (of_place.get((sitting, place + step), 0.0) for step in (-1, 1))
        terms = {
            "beside": round(BESIDE * max(near), DIGITS),
            "sitting": round(SITTING * of_sitting[sitting], DIGITS),
            "speaker": 0.0 if asked.isdisjoint(speakers_in(text)) else SPEAKER,
        }
        added.append({name: value for name, value in terms.items() if value})
    return added
