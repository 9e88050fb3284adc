"""MaxSim: what asks decides, by its rare words and in one place; what tells leaves more alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.retrieval.max_sim import (
    BLOCK_TOKENS,
    COMMON,
    MaxSimScorer,
    Rarity,
    max_sim,
)
from ragstream_core.text.bm25 import build_lexical
from ragstream_core.text.terms import term_blob

EMBEDDER = HashedEmbedder()
SCORER = MaxSimScorer(EMBEDDER, EMBEDDER)
TOLD = ["The catalog holds the lock.", "The lock of the catalog is held."]
ASKED = "Who writes the journal?"
PASSAGES = ["the catalog holds the lock", "who writes the journal"]


def test_the_passage_that_answers_wins_over_the_one_that_says_the_background_again():
    background, answer = SCORER.score([TOLD[0], ASKED], PASSAGES)
    assert answer > background
    background, answer = SCORER.score([TOLD[0], ASKED.replace("?", ".")], PASSAGES)
    assert answer < background  # without its mark it is a sentence like the other


def test_the_share_falls_where_nothing_is_asked_only():
    assert SCORER.share([*TOLD, ASKED]) == SCORER.share(TOLD[:1]) == 1.0
    assert SCORER.share(TOLD) < SCORER.share(["The weather is fine.", TOLD[0]]) <= 1.0


def test_one_sentence_told_twice_leaves_all_to_retrieval():
    assert SCORER.share(TOLD[:1] * 2) == 0.0
    assert SCORER.score(TOLD[:1] * 2, PASSAGES) == SCORER.score(TOLD[:1], PASSAGES)


PIECES = st.lists(st.sampled_from([*TOLD, ASKED, "Is the gate open?", "..."]), min_size=1)


@given(PIECES)
def test_the_score_lies_between_those_of_the_pieces_and_the_order_does_not_count(pieces):
    assert 0.0 <= SCORER.share(pieces) <= 1.0
    each = [SCORER.score([piece], PASSAGES) for piece in pieces]
    found = SCORER.score(pieces, PASSAGES)
    for at, score in enumerate(found):
        assert min(e[at] for e in each) - 1e-6 <= score <= max(e[at] for e in each) + 1e-6
    assert SCORER.score(pieces[::-1], PASSAGES) == pytest.approx(found, abs=2e-6)


def rarity(*texts):
    lexical = build_lexical([[term_blob(text)] for text in texts])
    return Rarity(lambda: [lexical], EMBEDDER.token_offsets)


def test_a_rare_word_counts_more_than_a_common_one_and_both_more_than_a_sign():
    found = rarity("the lock holds", "the lock waits", "a journal").weights("Lock the journal?")
    lock, the, journal, sign = found.tolist()
    assert journal > lock > the == sign == COMMON


def test_a_word_in_two_tokens_counts_the_same_in_both():
    halves = Rarity(rarity("lock").indexes, lambda text: [(0, 3), (3, len(text))])
    assert len(set(halves.weights("locking").tolist())) == 1


def test_words_that_stand_in_no_term_count_all_alike():
    assert rarity("lock").weights("").tolist() == []
    nothing = Rarity(rarity("lock").indexes, lambda text: [])
    assert nothing.weights("lock").tolist() == []


def test_a_question_is_answered_in_one_place():
    filler = "water stone paper wood glass " * BLOCK_TOKENS
    near = f"{filler} the catalog holds the lock {filler}"
    apart = f"the catalog {filler} {filler} holds the lock"
    texts = [near, apart]
    whole = SCORER.score(["What catalog holds lock?"], texts)
    placed = replace(SCORER, rarity=rarity(*texts, filler)).score(
        ["What catalog holds lock?"], texts
    )
    assert whole[0] == whole[1]
    assert placed[0] > placed[1]


def test_what_only_tells_is_compared_with_whole_passages():
    weighed = replace(SCORER, rarity=rarity(*PASSAGES))
    assert weighed.score(TOLD, PASSAGES) == SCORER.score(TOLD, PASSAGES)
    assert weighed.score([*TOLD, ASKED], PASSAGES) != SCORER.score([*TOLD, ASKED], PASSAGES)


def test_a_model_whose_tokens_are_cut_elsewhere_counts_them_alike():
    other = Rarity(rarity(*PASSAGES).indexes, lambda text: [(0, 1)])
    alike = Rarity(lambda: [build_lexical([])], lambda text: [])
    ask = "Who writes it?"
    assert replace(SCORER, rarity=other).score([ask], PASSAGES) == replace(
        SCORER, rarity=alike
    ).score([ask], PASSAGES)


VECTORS = st.integers(1, 3 * BLOCK_TOKENS).flatmap(
    lambda n: st.integers(0, 2**32 - 1).map(
        lambda seed: np.random.default_rng(seed).standard_normal((n, 4)) / 4
    )
)


@given(VECTORS, st.lists(VECTORS, min_size=1, max_size=4))
def test_a_window_never_beats_the_passage_and_a_short_passage_is_one(query, passages):
    alike = [np.ones(len(query))]
    (windows,), (whole,) = max_sim([query], passages, alike), max_sim([query], passages)
    for passage, window, all_of_it in zip(passages, windows, whole, strict=True):
        assert window <= all_of_it + 2e-6
        if len(passage) <= 2 * BLOCK_TOKENS:
            assert window == pytest.approx(all_of_it, abs=2e-6)


@given(VECTORS, st.lists(VECTORS, min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_a_window_has_the_same_score_alone_and_among_others(query, passages, seed):
    weight = [np.random.default_rng(seed).random(len(query)) + 0.1]
    (together,) = max_sim([query], passages, weight)
    assert together == [max_sim([query], [p], weight)[0][0] for p in passages]
