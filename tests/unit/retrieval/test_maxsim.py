"""MaxSim of several pieces: what asks decides, and what only tells leaves more to retrieval."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.retrieval.scoring import MaxSimScorer

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
