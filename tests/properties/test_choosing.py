"""Laws of the choice of facts: each is near the best for some piece, none repeats another."""

from collections import Counter
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.agents.context.constraints import is_constraint
from ragstream_core.agents.context.coverage import Piece, Weights
from ragstream_core.agents.context.facts import (
    CONSTRAINT_EASE,
    FLOOR,
    PER_CHUNK,
    RELATIVE_FLOOR,
    SAME,
    choose,
    relevance,
    similarity,
)
from ragstream_core.agents.context.quotable import quotes_of
from ragstream_core.records import Chunk
from ragstream_core.text.terms import terms

WORDS = [
    "gate",
    "index",
    "journal",
    "cache",
    "fence",
    "vector",
    "budget",
    "theta",
    "commit",
    "reader",
    "writer",
    "kernel",
]
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=3, max_size=9).map(
    lambda words: f"The {' '.join(words)} stands here."
)
LIMITED = st.one_of(SENTENCES, SENTENCES.map(lambda s: s.replace("stands", "must never stand")))
CHUNKS = st.lists(st.lists(LIMITED, min_size=1, max_size=7), min_size=1, max_size=5)
PIECES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), min_size=1, max_size=3)


@settings(max_examples=300, deadline=None)
@given(CHUNKS, PIECES, st.integers(1, 14))
def test_each_fact_is_near_the_best_and_new(chunks, asked, limit):
    quotes = [
        quote
        for n, rows in enumerate(chunks)
        for quote in quotes_of(Chunk(f"c{n}", f"d{n}.md", " ".join(rows), (0, 1), {}), n, terms)
    ]
    pieces = [Piece(f"q{n}", " ".join(w), tuple(terms(" ".join(w)))) for n, w in enumerate(asked)]
    weight = Weights.of(quotes)
    chosen = choose(quotes, pieces, limit=limit, weight=weight)
    assert len(chosen) <= limit
    assert max(Counter(q.chunk_id for q, _, _ in chosen).values(), default=0) <= PER_CHUNK
    assert all(similarity(a, b) < SAME for (a, _, _), (b, _, _) in combinations(chosen, 2))
    for quote, ids, score in chosen:
        ease = CONSTRAINT_EASE if is_constraint(quote.text) else 1.0
        spoken = [p for p in pieces if p.id in ids]
        assert spoken and score == max(relevance(p, quote, weight) for p in spoken)
        for piece in spoken:
            best = max(relevance(piece, other, weight) for other in quotes)
            assert relevance(piece, quote, weight) >= max(FLOOR, RELATIVE_FLOOR * best) * ease
    best = max((relevance(p, q, weight) for p in pieces for q in quotes), default=0.0)
    assert bool(chosen) == (best >= FLOOR) or any(is_constraint(q.text) for q, _, _ in chosen)
