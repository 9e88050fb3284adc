"""What the turns around it and its speaker add to the score of a turn that was found.

What answers a question about a conversation often stands beside the turn that has its words, in
the same sitting, is said by the person whom the question names or of the day that it names, or
shares rare words with the turns that fit best. So the scores of what was found are carried over: a
second hop, without a second search.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragstream_core.conversations.columns import HistoryColumns
from ragstream_core.conversations.dates import Days, days_named
from ragstream_core.records import Hit
from ragstream_core.text.terms import is_stop_word, terms, words

I64 = npt.NDArray[np.int64]

DIGITS = 6
# These were chosen over LoCoMo's five conversations, all by one maker: `BESIDE` and `SITTING` in
# decision 106 (a grid judged by leaving one conversation out), the others in 112.
# Share of the better neighbour's score.
BESIDE = 0.4
# Share of the best score in the same sitting.
SITTING = 1.2
# Added if the question names the person who speaks.
SPEAKER = 1.0
# Added if a turn was said on a day that the question names, or names such a day itself.
DAY = 0.4
# What a turn names counts up to this length, or up to that of what the question names.
MONTH_DAYS = 31
# Added at most for the rare words that a turn has in common with one of the best turns.
SHARED = 0.3
# So many turns are the best ones.
BEST = 8
# Least idf of a rare word: about one turn in twenty has it or stands beside one that has.
RARE = 3.0
# Sum of idf of the rare words in common that counts in full.
ENOUGH = 10.0
# A silence of four hours ends a sitting.
PAUSE_NS = 4 * 3_600_000_000_000
# Speakers without a name of their own.
ROLES = frozenset({"user", "assistant"})
_SPEAKER = re.compile(r"^(?:\[(?P<date>[^\]\n]{1,40})\] )?(?P<name>[^:\n]{1,64}): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Order:
    """Where each row stands in its conversation."""

    places: I64  # number of its turn, one up from that of the turn before
    sittings: I64  # number of its sitting: turns of one conversation without a long pause


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
    names = {word for head in _SPEAKER.finditer(text) for word in words(head["name"])}
    return {word for word in names - ROLES if not is_stop_word(word)}


def days_of(text: str) -> list[Days]:
    """Return the days of a turn: those before its lines, and those that it names.

    Those that it counts from its own day are left out if no date stands before its first line. A
    date without a year is the one nearest to that day, since turns speak of plans too.
    """
    heads = {head["date"]: _days_of_head(head["date"]) for head in _SPEAKER.finditer(text)}
    first = _SPEAKER.match(text)
    own = heads[first["date"]] if first else ()
    for date, days in heads.items():
        text = text.replace(f"[{date}] ", " ") if days else text

    def said() -> dt.date:
        return dt.date.fromordinal(own[0].first) if own else _no_day()

    return [
        *(day for days in heads.values() for day in days),
        *days_named(text, said, nearest=True),
    ]


@functools.lru_cache(maxsize=1024)
def _days_of_head(date: str | None) -> tuple[Days, ...]:
    """Return the days before a line: turns of one sitting have few of them."""
    return tuple(days_named(date or "", _no_day))


def _no_day() -> dt.date:
    raise ValueError("nobody knows when it was said")


@dataclass(frozen=True, slots=True)
class Found:
    """The turns that were found for a question."""

    hits: Sequence[Hit]  # their hits
    rows: Sequence[int]  # their rows
    texts: Sequence[str]  # their texts, with the speaker before each line


def _never(term: str) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about conversations."""

    text: str  # the question
    # returns the day on which it is asked; called only if it counts from that day
    today: Callable[[], dt.date] = _no_day
    # returns the idf of a term in the turns that are searched
    rarity: Callable[[str], float] = _never


def ranked(found: Found, order: Order, asked: Asked) -> list[Hit]:
    """Rank turns by their scores and by what is around them; each place keeps its score.

    So what was found beside the turns, a document, has as many turns before it as it had. The
    columns of the hits gain ``own``, the score before, and what was added to it, if anything.
    """
    hits, parts = found.hits, _added(found, order, asked)
    by_total = _by_total(hits, parts)
    for i, shared in _in_common(found, order, asked, by_total).items():
        parts[i]["shared"] = shared
    scores = sorted((hit.score for hit in hits), reverse=True)
    return [
        hits[i]._replace(score=score, scores={**hits[i].scores, "own": hits[i].score, **parts[i]})
        for i, score in zip(_by_total(hits, parts), scores, strict=True)
    ]


def _by_total(hits: Sequence[Hit], parts: Sequence[dict[str, float]]) -> list[int]:
    totals = [
        round(hit.score + sum(part.values()), DIGITS) for hit, part in zip(hits, parts, strict=True)
    ]
    return sorted(range(len(hits)), key=lambda i: (-totals[i], hits[i].chunk_id))


def _places(found: Found, order: Order) -> list[tuple[int, int]]:
    """Return (sitting, place) of each turn."""
    rows = np.asarray(found.rows, dtype=np.int64)
    return list(zip(order.sittings[rows].tolist(), order.places[rows].tolist(), strict=True))


def _added(found: Found, order: Order, asked: Asked) -> list[dict[str, float]]:
    """Return what is added to the score of each turn, by the reason."""
    places, names = _places(found, order), _words_of(asked.text)
    days = days_named(asked.text, asked.today)
    of_place: dict[tuple[int, int], float] = {}
    of_sitting: dict[int, float] = {}
    for place, hit in zip(places, found.hits, strict=True):
        of_place[place] = max(of_place.get(place, 0.0), hit.score)
        of_sitting[place[0]] = max(of_sitting.get(place[0], 0.0), hit.score)
    added = []
    for (sitting, number), text in zip(places, found.texts, strict=True):
        near = (of_place.get((sitting, number + step), 0.0) for step in (-1, 1))
        reasons = {
            "beside": round(BESIDE * max(near), DIGITS),
            "sitting": round(SITTING * of_sitting[sitting], DIGITS),
            "speaker": 0.0 if names.isdisjoint(speakers_in(text)) else SPEAKER,
            "day": DAY if days and _meets(days, days_of(text)) else 0.0,
        }
        added.append({name: value for name, value in reasons.items() if value})
    return added


def _words_of(question: str) -> frozenset[str]:
    """Return the words of a question; "Gina's" has "gina" too."""
    said = words(question)
    return frozenset(said).union(re.split("['’]", word)[0] for word in said)


def _meets(asked: Sequence[Days], named: Sequence[Days]) -> bool:
    return any(
        day.meets(other) and other.last - other.first < max(MONTH_DAYS, day.last - day.first + 1)
        for day in asked
        for other in named
    )


def _in_common(found: Found, order: Order, asked: Asked, ranked: Sequence[int]) -> dict[int, float]:
    """Return what turns have for words in common with one of the best, which the question lacks."""
    places, known = _places(found, order), frozenset(terms(asked.text))
    said = [frozenset(terms(_SPEAKER.sub("", text))) for text in found.texts]
    worth: dict[int, float] = {}
    for best in ranked[:BEST]:
        rare = {term: asked.rarity(term) for term in sorted(said[best] - known)}
        rare = {term: idf for term, idf in rare.items() if idf >= RARE}
        for i, own in enumerate(said):
            if places[i] != places[best] and (both := rare.keys() & own):
                worth[i] = max(worth.get(i, 0.0), sum(rare[term] for term in sorted(both)))
    return {i: round(SHARED * min(1.0, sum_ / ENOUGH), DIGITS) for i, sum_ in worth.items()}
