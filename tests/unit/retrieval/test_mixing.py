"""The weight of the reading as a whole, and of each piece."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.retrieval.max_sim import weights_of_pieces
from ragstream_core.retrieval.retriever import Fusion
from ragstream_core.retrieval.scoring import coherence, telling, weight_of_whole
from tests.unit.retrieval.test_retriever import View, corpus, search

EMBEDDER = HashedEmbedder()
LOCKS = ["The lock is held by one writer.", "A writer waits for the lock.", "Who holds the lock?"]
WORDS = st.sampled_from(["lock", "writer", "catalog", "gate", "journal", "replay"])
SENTENCE = st.builds(lambda said, end: " ".join(said) + end, st.lists(WORDS, min_size=1),
                     st.sampled_from(".?"))  # fmt: skip
UNIT = st.floats(0, 1)


def weight(pieces, mix_a=0.25, mix_coherence=1.5):
    return weight_of_whole(pieces, EMBEDDER.embed_queries(pieces), mix_a, mix_coherence)


def test_a_list_of_questions_has_mix_a_however_near_they_are():
    assert weight(["Who holds the lock?", "Who waits for the lock?"]) == 0.25
    assert weight(["谁持有锁？", "谁等待锁？"]) == 0.25  # noqa: RUF001


def test_what_is_told_at_length_about_one_thing_is_read_more_as_a_whole():
    apart = ["The weather is fine.", "My sister bakes bread.", "Who holds the lock?"]
    assert weight(LOCKS) > weight(apart) >= 0.25
    assert weight(LOCKS, mix_coherence=0.0) == 0.25


@given(st.lists(SENTENCE, min_size=2, max_size=10), UNIT, st.floats(0, 10))
def test_the_weight_lies_between_mix_a_and_one_and_the_order_does_not_count(pieces, mix_a, more):
    found = weight(pieces, mix_a, more)
    assert round(mix_a, 6) <= found <= 1 or found == mix_a
    assert weight(pieces[::-1], mix_a, more) == found
    queries = EMBEDDER.embed_queries(pieces)
    assert 0 <= coherence(queries, telling(pieces)) <= coherence(queries) <= 1


def test_a_question_beside_what_is_told_does_not_make_it_tell_more():
    told, asked = LOCKS[:2], LOCKS[2:]
    pairs = [weight([sentence, *asked]) for sentence in told]
    assert pairs == [0.25, 0.25]  # one that tells: no two of them tell one thing
    both = round(1.5 * coherence(EMBEDDER.embed_queries(told)), 6)
    assert weight([*told, *asked]) == pytest.approx(0.25 + both / 3, abs=3e-6)


@given(st.lists(SENTENCE, min_size=1, max_size=10))
def test_what_asks_counts_in_full_and_what_tells_counts_as_far_as_it_stands_by_itself(pieces):
    found = weights_of_pieces(pieces, EMBEDDER.token_vectors(pieces)).tolist()
    if len(pieces) == 1:
        assert found == [1.0]
        return
    alone = 1 - coherence(EMBEDDER.embed_queries(pieces))
    for piece, count in zip(pieces, found, strict=True):
        assert count == (1.0 if "?" in piece else pytest.approx(alone, abs=1e-3))


def test_a_piece_without_a_word_is_no_error():
    assert weights_of_pieces(["...", "!"], EMBEDDER.token_vectors(["...", "!"])).tolist() == [1, 1]


def test_one_sentence_told_twice_is_all_coherent():
    assert coherence(EMBEDDER.embed_queries(LOCKS[:1] * 2)) == 1.0
    assert weight(LOCKS[:1] * 2) == 1.0


def test_the_ledger_tells_the_weight():
    view = View("p", corpus(140))
    pieces = ["catalog replay.", "catalog replay gate.", "gate ledger?"]
    hits = search([view], " ".join(pieces), pieces=pieces, fusion=Fusion())
    found = weight(pieces)
    assert 0.25 < found < 1
    assert {h.scores["weight_a"] for h in hits} == {found}
    a, b = (np.array([h.scores[name] for h in hits]) for name in "ab")
    span = [(x - x.min()) / (x.max() - x.min()) for x in (a, b)]
    assert np.allclose([h.score for h in hits], found * span[0] + (1 - found) * span[1], atol=5e-6)
    assert all("weight_a" not in h.scores for h in search([view], "catalog replay"))
