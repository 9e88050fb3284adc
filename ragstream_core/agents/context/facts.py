"""The sentences of S_ctx, chosen by the question.

A fact's score is coverage · (0.5 + 0.5·s^0.3) · form factor + small bonuses, with s the strength of
its passage for the piece, 1 for the strongest (`passage_strength`). Facts are chosen for diversity
as well, and the strongest passage gives three sentences at least if it has them: an answer often
stands beside the sentence that repeats the question's words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ragstream_core.agents.context.constraints import is_constraint
from ragstream_core.agents.context.coverage import Piece, Weights, coverage
from ragstream_core.agents.context.named_rows import meant, row_cells
from ragstream_core.agents.context.quotable import Quote
from ragstream_core.agents.context.shown import is_record
from ragstream_core.text.memo import remembered

FLOOR = 0.2
RELATIVE_FLOOR = 0.6
CONSTRAINT_EASE = 0.6
SAME = 0.7
PER_CHUNK = 5
PHRASE_BONUS = 0.15
DEFINITION_BONUS = 0.15
REDUNDANCY = 0.35
FADING = 0.6
LEANING = 0.75
WEAKEST, BEND = 0.5, 0.3
EASE_OF_STRONGEST = 0.5
FROM_STRONGEST = 3
BESIDE_BONUS = 0.15
IDENTIFIER_BONUS = 0.3

# Score of what says the like of another thing than the one that is asked for by its name.
SET_ASIDE = -1.0
# Chunk id → how strong it is for each piece, in [0, 1]; 1 for the strongest of a piece.
Strengths = Mapping[str, Sequence[float]]

_DIGITS = 9
_LEANS = re.compile(
    r"(?:this|these|those|it|its|they|here|below|above|such|that|then|also|in (?:this|the) example"
    r"|for example|otherwise|however)\b",
    re.IGNORECASE,
)

# Letters with digits or underscores: VK-247, ST0457, DEFAULT_MAX_REDIRECTS, db2.pool.
_IDENTIFIER = re.compile(r"\b(?=\w*[-_.]?\w*[\d_])(?=[\w.-]*[^\W\d_])[^\W_]\w*(?:[-.]\w+)*\b")
_WHAT_IS = re.compile(r"\s*(?:so )?what(?:'s| is| are| does)\b", re.IGNORECASE)
_DEFINES = re.compile(
    r"^[^.]{1,70}?\b(?:is|are|means|refers to|stands for|lets?|allows?|wraps?|combines?)\b"
)


def _bonus(piece: Piece, quote: Quote) -> float:
    wanted = set(zip(piece.terms, piece.terms[1:], strict=False))
    said = set(zip(quote.terms, quote.terms[1:], strict=False))
    bonus = PHRASE_BONUS * len(wanted & said) / len(wanted) if wanted else 0.0
    defines = _WHAT_IS.match(piece.text) and _DEFINES.match(quote.text)
    if defines and set(quote.terms[:4]) & set(piece.terms):
        bonus += DEFINITION_BONUS
    return bonus


@remembered
def _form_factor(text: str) -> float:
    """Prefer sentences of a handy length that do not point at a sentence before."""
    words = len(text.split())
    length = 0.85 if words < 8 else 0.9 if words > 40 else 1.0
    return length * (LEANING if _LEANS.match(text) else 1.0)


def relevance(
    piece: Piece, quote: Quote, weight: Callable[[str], float], *, strength: float = 1.0
) -> float:
    """Score one sentence for one piece, ≥ 0; 0 if it holds none of the piece's terms.

    Args:
        piece: The piece.
        quote: The sentence.
        weight: Term weights.
        strength: Of its passage for the piece, in [0, 1].
    """
    if quote.held.isdisjoint(piece.terms):
        return 0.0
    prior = WEAKEST + (1.0 - WEAKEST) * math.pow(strength, BEND)
    base = coverage(piece, quote.held, quote.context, weight) * prior * _form_factor(quote.text)
    return round(base + _bonus(piece, quote), 6)


@remembered
def identifiers(text: str) -> frozenset[str]:
    """Return the names in a text that are spelt like a code, in small letters."""
    return frozenset(name.casefold() for name in _IDENTIFIER.findall(text))


def _named(
    quotes: Sequence[Quote], pieces: Sequence[Piece], raw: Sequence[list[float]]
) -> list[list[float]]:
    """Return scores by which what names what is asked for wins over what names something else.

    If a row or a pair holds an identifier of a piece, or a row is meant by it (`named_rows`), the
    others of its kind say something of another thing, however alike their words are.
    """
    rows = [list(row) for row in raw]
    cells = [row_cells(q.verbatim) if _kind(q) == "row" else () for q in quotes]
    for p, piece in enumerate(pieces):
        wanted = identifiers(piece.text)
        named = meant(piece.text, cells, [quote.source for quote in quotes])
        if not wanted and not any(named):
            continue
        holds = [bool(row[p]) and (is_meant or not wanted.isdisjoint(identifiers(q.verbatim)))
                 for q, row, is_meant in zip(quotes, raw, named, strict=True)]  # fmt: skip
        kinds = {_kind(q) for q, held in zip(quotes, holds, strict=True) if held} - {"said"}
        for quote, row, held in zip(quotes, rows, holds, strict=True):
            if held:
                row[p] = round(row[p] + IDENTIFIER_BONUS, 6)
            elif _kind(quote) in kinds:
                row[p] = SET_ASIDE
    return rows


def _kind(quote: Quote) -> str:
    return "row" if quote.quoted or is_record(quote.text) else "said" if quote.is_said else "data"


def similarity(left: Quote, right: Quote) -> float:
    """Return the Jaccard similarity of two sentences' terms, in [0, 1]."""
    a, b = left.held, right.held
    return len(a & b) / len(a | b) if a | b else 0.0


@dataclass
class Choice:
    """A growing choice of sentences.

    A term that chosen sentences hold already counts 1/(1 + 0.6·n): the next sentence is one that
    says something about what is still bare, so both sides of a comparison get their facts.

    Attributes:
        quotes: All sentences.
        scores: Per sentence, its score for each piece; 0 below the piece's floor.
        asked: Terms of all pieces.
        weight: Term weights.
        chosen: Positions of the chosen ones, in the order of choice.
    """

    quotes: Sequence[Quote]
    scores: list[list[float]]
    asked: frozenset[str]
    weight: Weights
    chosen: list[int] = field(default_factory=list)
    covered: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Read each sentence's terms once."""
        self._best = [max(row, default=0.0) for row in self.scores]
        self._held = [
            sorted(self.asked & q.held) if best > 0 else []
            for q, best in zip(self.quotes, self._best, strict=True)
        ]
        self._nearest = [0.0] * len(self.quotes)

    def freshness(self, i: int) -> float:
        """Return how much of what sentence ``i`` says about the question is new, in [0, 1]."""
        held = self._held[i]
        total = sum(map(self.weight, held))
        new = sum(self.weight(t) / (1.0 + FADING * self.covered[t]) for t in held)
        return new / total if total else 0.0

    def value(self, i: int) -> float:
        """Return what sentence ``i`` would add now; ≤ 0: not to be taken."""
        best, nearest = self._best[i], self._nearest[i]
        if best <= 0 or nearest >= SAME or self.used[self.quotes[i].chunk_id] >= PER_CHUNK:
            return 0.0
        return best * self.freshness(i) * (1 - REDUNDANCY * nearest)

    def best_of(self, order: Sequence[int]) -> tuple[float, int]:
        """Return the largest value of some sentences, and the first sentence that has it.

        Args:
            order: At least one, by falling best score, which no value exceeds.
        """
        value, at = -1.0, -1
        for i in order:
            if round(self._best[i], _DIGITS) < value:
                break
            own = round(self.value(i), _DIGITS)
            if own > value or (own == value and i < at):
                value, at = own, i
        return value, at

    def take(self, i: int) -> None:
        """Choose sentence ``i``."""
        taken = self.quotes[i]
        self.chosen.append(i)
        self.used[taken.chunk_id] += 1
        self.covered.update(taken.held)
        for j, best in enumerate(self._best):
            if best > 0:
                other = self.quotes[j]
                same = other.chunk_id == taken.chunk_id and _overlap(other, taken)
                near = 1.0 if same else similarity(other, taken)
                self._nearest[j] = max(self._nearest[j], near)


def choose(
    quotes: Sequence[Quote],
    pieces: Sequence[Piece],
    *,
    limit: int,
    weight: Weights,
    strengths: Strengths | None = None,
) -> list[tuple[Quote, list[str], float]]:
    """Choose up to ``limit`` sentences so that each piece gets its best ones.

    A sentence needs 0.2, and 0.6 of the best score for the piece; down to half of both if its
    passage is the strongest one, and 0.6 of that if it is a constraint.

    Args:
        quotes: Candidates in order of rank and position.
        pieces: Query pieces.
        limit: Most sentences.
        weight: Term weights.
        strengths: How strong each passage is for each piece; None: all alike.

    Returns:
        (sentence, ids of the pieces it speaks to, best score), in the order of choice.
    """
    alike, eased = (1.0,) * len(pieces), EASE_OF_STRONGEST if strengths else 0.0
    strong = [strengths.get(q.chunk_id, alike) if strengths else alike for q in quotes]
    raw = _named(quotes, pieces, _relevances(quotes, pieces, weight, strong))
    best = [max((row[p] for row in raw), default=0.0) for p in range(len(pieces))]
    floors = [max(FLOOR, RELATIVE_FLOOR * top) for top in best]
    ease = [
        CONSTRAINT_EASE if any(row) and q.is_said and is_constraint(q.text) else 1.0
        for row, q in zip(raw, quotes, strict=True)
    ]
    scores = [
        [
            s if s >= f * e * (1.0 - eased * v) else 0.0
            for s, f, v in zip(row, floors, of, strict=True)
        ]
        if any(row)
        else row
        for row, e, of in zip(raw, ease, strong, strict=True)
    ]
    state = Choice(quotes, scores, frozenset(t for p in pieces for t in p.terms), weight)
    order = sorted((i for i, row in enumerate(scores) if any(row)), key=lambda i: -max(scores[i]))
    while order and len(state.chosen) < limit:
        value, at = state.best_of(order)
        if value <= 0:
            break
        state.take(at)
        order.remove(at)
    if strengths:
        _fill(state, raw, scores, strong, limit)
    return [
        (quotes[i], [p.id for p, s in zip(pieces, scores[i], strict=True) if s], max(scores[i]))
        for i in state.chosen
    ]


def _relevances(
    quotes: Sequence[Quote],
    pieces: Sequence[Piece],
    weight: Callable[[str], float],
    strong: Sequence[Sequence[float]],
) -> list[list[float]]:
    """Return the relevance of each sentence for each piece; most share no term."""
    speaking: dict[str, list[int]] = {}
    for at, piece in enumerate(pieces):
        for term in piece.distinct:
            speaking.setdefault(term, []).append(at)
    rows = []
    for quote, strengths in zip(quotes, strong, strict=True):
        row = [0.0] * len(pieces)
        held = quote.held.intersection(speaking)
        for at in {at for term in held for at in speaking[term]}:
            row[at] = relevance(pieces[at], quote, weight, strength=strengths[at])
        rows.append(row)
    return rows


def _fill(
    state: Choice,
    raw: Sequence[Sequence[float]],
    scores: list[list[float]],
    strong: Sequence[Sequence[float]],
    limit: int,
) -> None:
    """Choose more of the passage that is strongest for a piece, up to three sentences of it.

    What stands beside a chosen sentence comes first, even if it holds no term of the question.
    """
    for p in range(len(raw[0]) if state.chosen else 0):
        best = next(
            (q.chunk_id for q, s in zip(state.quotes, strong, strict=True) if s[p] == 1), ""
        )
        pool = [i for i, q in enumerate(state.quotes) if q.chunk_id == best]
        have = sum(i in state.chosen for i in pool)
        while 0 < have < FROM_STRONGEST and len(state.chosen) < limit:
            taken = [state.quotes[i] for i in state.chosen]
            rest = [
                (round(raw[i][p] + BESIDE_BONUS * _is_beside(i, state.chosen, state.quotes), 6), -i)
                for i in pool
                if i not in state.chosen and not any(_repeats(state.quotes[i], t) for t in taken)
            ]
            value, at = max(rest, default=(0.0, 0))
            if value <= 0:
                break
            scores[-at][p] = value
            state.chosen.append(-at)
            have += 1


def _is_beside(i: int, chosen: Sequence[int], quotes: Sequence[Quote]) -> bool:
    return any(abs(i - j) == 1 and quotes[i].chunk_id == quotes[j].chunk_id for j in chosen)


def _repeats(quote: Quote, other: Quote) -> bool:
    return _overlap(quote, other) or similarity(quote, other) >= SAME


def _overlap(quote: Quote, other: Quote) -> bool:
    """Return whether two sentences share a part of one passage."""
    return (
        quote.chunk_id == other.chunk_id
        and quote.span[0] < other.span[1]
        and other.span[0] < quote.span[1]
    )


def reading_order(
    chosen: Sequence[tuple[Quote, list[str], float]],
) -> list[tuple[Quote, list[str], float]]:
    """Order chosen sentences for reading: the source with the best one first, then as they stand.

    Args:
        chosen: As of `choose`.
    """
    best: dict[str, float] = {}
    for quote, _, score in chosen:
        best[quote.source] = max(score, best.get(quote.source, 0.0))
    return sorted(
        chosen, key=lambda row: (-best[row[0].source], row[0].source, row[0].rank, row[0].span)
    )
