"""How much of a query piece a text covers.

coverage = Σ_t w(t)·m(t) / Σ_t w(t) over the distinct terms t of the piece, in [0, 1];
w(t) = ln(1 + (N − df + 0.5)/(df + 0.5)) over the N quotable sentences of the candidates, 0.3 of it
for words that say little in a question; m(t) = 1 in the text, 0.4 in its context (headings, path,
sentence before), else 0.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ragstream_core.agents.context.quotable import Quote

IN_CONTEXT = 0.4
VAGUE_WEIGHT = 0.3
_VAGUE_STEMS = (
    "use work need want like way good best help know question exampl explain describ mean happen "
    "get make tell pleas show give thing differ possibl right correct see look find one new "
    "understand understood ask also even still much mani sever multipl often hold exact actual "
    "must shall might "
    "wie wer wo wann warum wieso welch quel quell pourquoi quand cómo cuál cuándo dónde "
    "什么 怎么 多少 哪里 哪个 为什 是否 如何 请问 是多 どう どこ です ます すか 何で ですか"
)
VAGUE = frozenset(_VAGUE_STEMS.split())


@dataclass(frozen=True)
class Piece:
    """A query piece as the extractor sees it.

    Attributes:
        id: Id of the piece.
        text: Its words.
        terms: Its stemmed terms in order.
        searched: Whether these words are those that were searched for; the cosines of other ones
            say nothing about them.
    """

    id: str
    text: str
    terms: tuple[str, ...]
    searched: bool = True

    @functools.cached_property
    def distinct(self) -> tuple[str, ...]:
        """Its terms, each once, sorted."""
        return tuple(sorted(set(self.terms)))


@dataclass(frozen=True)
class Weights:
    """Term weights over a set of sentences.

    Attributes:
        documents: Number of sentences.
        df: Term → number of sentences that hold it.
    """

    documents: int
    df: Mapping[str, int]
    _known: dict[str, float] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, quotes: Sequence[Quote], asked: frozenset[str] | None = None) -> Weights:
        """Count the sentences and their terms; what two sentences share of a text counts once.

        Args:
            quotes: The sentences.
            asked: The only terms that will be weighed; None: any.
        """
        said = _said_once(quotes)
        counted = said if asked is None else map(asked.intersection, said)
        return cls(len(quotes), Counter(chain.from_iterable(counted)))

    def __call__(self, term: str) -> float:
        """Return the weight of a term, > 0; a term that no sentence holds weighs most."""
        known = self._known.get(term)
        if known is None:
            df = min(self.df.get(term, 0), self.documents)
            idf = math.log1p((self.documents - df + 0.5) / (df + 0.5))
            known = self._known[term] = idf * (VAGUE_WEIGHT if term in VAGUE else 1.0)
        return known


def _said_once(quotes: Sequence[Quote]) -> Iterator[frozenset[str]]:
    """Yield the terms of each sentence, without those that it shares as a text with the last."""
    end, chunk_id, held = 0, "", frozenset[str]()
    for quote in quotes:
        start, last = quote.span
        again = start < end and quote.chunk_id == chunk_id
        yield quote.held - held if again else quote.held
        end, chunk_id, held = last, quote.chunk_id, quote.held


def coverage(piece: Piece, held: set[str] | frozenset[str], context: frozenset[str],
             weight: Callable[[str], float]) -> float:  # fmt: skip
    """Return the weighted share of a piece's terms that a text holds, in [0, 1]; see above."""
    total = sum(map(weight, piece.distinct))
    if total <= 0:
        return 0.0
    hit = sum(
        weight(t) * (1.0 if t in held else IN_CONTEXT if t in context else 0.0)
        for t in piece.distinct
    )
    return hit / total
