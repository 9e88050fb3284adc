"""Whether the kept passages answer a piece: signs, chance, the three words, and the table."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.agents.context.answer_estimate import (
    ANSWERED,
    NOT_FOUND,
    PERHAPS,
    Scale,
    Weight,
    estimate,
    weights_table,
)
from ragstream_core.agents.context.answer_signs import (
    Passage,
    Signs,
    sentences_of,
    signs_of,
    words_of,
)
from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.records.super_prompt import ANSWERS
from ragstream_core.retrieval.max_sim import MaxSimScorer, RecentProducts
from ragstream_core.retrieval.word_nearness import WordNearness
from tests.unit.agents.test_condense import COUNTER, GATE, INDEX, kept

NORMANS = (
    "The Normans came from Normandy. William led them to England in 1066. They did not conquer "
    "Norway. Twelve ships sank."
)
KNOWN = ("gate", "theta", "index", "vector", "never", "1066", "William")
WORDS = st.lists(st.sampled_from(KNOWN), min_size=1)


def passage(text, cosine=0.5):
    return Passage(text, sentences_of(text, stemmed_terms), cosine)


def signs(question, *texts, **given_):
    passages = list(map(passage, texts))
    return signs_of(question, passages, stemmed_terms, **given_)


def test_what_a_question_and_its_nearest_sentence_share_makes_the_signs():
    found = signs("When did William sail to England?", INDEX, NORMANS)
    assert found.passage == 1
    assert NORMANS[slice(*found.span)] == "William led them to England in 1066."
    assert found.farthest == "sail"
    assert 0 < found.values["sentence"] < 1 and found.values["weakest_word"] == 0
    assert found.values["fitting_sentence"] == found.values["sentence"]  # 1066 is a date


def test_a_passage_that_is_not_shown_answers_nothing_and_takes_from_the_lead():
    question, weak = "When did William sail to England?", INDEX
    alone = signs(question, weak, GATE)
    beside = signs(question, weak, GATE, beside=[passage(NORMANS, 0.9)])
    assert (beside.passage, beside.span) == (alone.passage, alone.span)
    for name in ("sentence_words", "anywhere", "fitting_sentence", "weakest_word", "cosine"):
        assert beside.values[name] == alone.values[name] == 0.5 * (name == "cosine")
    assert beside.values["margin"] < 0 <= alone.values["margin"]


@pytest.mark.parametrize(
    ("question", "name", "value"),
    [
        ("Which country did William not reach?", "negation", 1.0),
        ("Which country did they not conquer?", "negation", 0.0),  # the sentence denies it as well
        ("Who led them in 1067?", "missing_number", 1.0),
        ("Who led them in 1066?", "missing_number", 0.0),
        ("How many ships has Harald?", "missing_name", 1.0),
        ("How many ships sank?", "missing_name", 0.0),
    ],
)
def test_negation_numbers_and_names_that_do_not_fit_are_signs(question, name, value):
    assert signs(question, NORMANS).values[name] == value


def test_the_farthest_word_says_something_in_its_language():
    german = "Wann läuft die Konzession ab und wann muss die Verlängerung kommen?"
    assert signs(german, "Die Konzession läuft bis Ende 2041.").farthest == "Verlängerung"


def test_there_is_nothing_to_go_by_without_words_or_passages():
    assert signs("What is it?", NORMANS) is None
    assert signs("Who led them?") is None
    assert [w.text for w in words_of("Was misst der Öldruck in Łódź?", stemmed_terms)] == [
        "misst", "Öldruck", "in", "Łódź",
    ][:2] + ["Łódź"]  # fmt: skip


def test_a_part_that_is_not_shown_answers_nothing():
    whole = passage(NORMANS)
    cut = whole._replace(end=NORMANS.index(" William"))
    by = [signs_of("Who led them to England?", [p], stemmed_terms) for p in (whole, cut)]
    assert by[0].values["sentence"] > 0.5 > by[1].values["sentence"]


@given(WORDS, st.floats(0, 1))
def test_a_chance_is_a_share_and_its_parts_are_numbers(words, cosine):
    read = signs_of(" ".join(words), [passage(NORMANS, cosine)], stemmed_terms)
    assert read is not None
    found = estimate(read, weights_table().words)
    assert 0 <= found.chance <= 1 and found.word in (ANSWERED, PERHAPS, NOT_FOUND)
    assert all(math.isfinite(value) for value in found.parts.values())


ORDER = (NOT_FOUND, PERHAPS, ANSWERED)


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(0, 1), st.floats(0, 1))
def test_more_of_a_good_sign_never_gives_a_worse_word(one, other, not_found, perhaps):
    rows = {"sentence": Weight(0.5, 2.0)}
    scale = Scale(((0.0, rows), (1.0, rows)), not_found=not_found, perhaps=perhaps)
    low, high = (
        estimate(Signs({"sentence": x}, 0, (0, 1), ""), scale) for x in sorted((one, other))
    )
    assert low.chance <= high.chance and low.subject <= high.subject
    assert ORDER.index(low.word) <= ORDER.index(high.word)
    assert (low.word == NOT_FOUND) == (low.subject < not_found)


@given(WORDS, st.floats(-1, 1), st.lists(st.integers(0, 10**7), min_size=2))
def test_among_more_passages_the_best_one_must_come_nearer(words, cosine, searched):
    read = signs_of(" ".join(words), [passage(NORMANS, cosine)], stemmed_terms)
    scale = weights_table().meaning
    found = [estimate(read, scale, searched=n) for n in sorted(searched)]
    assert len({row.chance for row in found}) == 1
    assert [row.subject for row in found] == sorted((row.subject for row in found), reverse=True)


@given(WORDS, st.floats(0, 1))
def test_what_only_nearly_answers_is_perhaps_and_never_not_found(words, cosine):
    read = signs_of(" ".join(words), [passage(NORMANS, cosine)], stemmed_terms)
    found = estimate(read, weights_table().meaning)
    if found.subject >= found.limit:
        assert found.word in (PERHAPS, ANSWERED)


def test_the_table_holds_what_its_names_say():
    table = weights_table()
    against = {"missing_most", "missing_name", "missing_number", "negation", "question_negates"}
    for scale in (table.meaning, table.words):
        assert 0 < scale.not_found <= 0.5 and 0 < scale.perhaps < 1
        for _, rows in scale.sums:
            assert all((row.weight < 0) == (name in against) for name, row in rows.items())
    assert "cosine" not in {name for _, rows in table.words.sums for name in rows}


def test_another_table_needs_another_version_of_the_stage():
    """Change ``a4_condenser`` in `STAGE_VERSIONS` together with the digest."""
    assert weights_table().fingerprint[:16] == "51658f51507c52fd"


def test_words_come_near_to_sentences_the_same_way_however_they_are_asked():
    embedder = HashedEmbedder()
    near = WordNearness(embedder, embedder, embedder.token_offsets)
    question, spans = "William in England?", [(0, 7), (11, 18)]
    sentences = [(0, 31), (32, 68)]
    assert NORMANS[32:68] == "William led them to England in 1066."
    both = near(question, spans, [(NORMANS, sentences), (GATE, [(0, len(GATE))])])
    assert both[1] == [1.0, 1.0] and max(both[0]) < 1
    assert both[2:] == near(question, spans, [(GATE, [(0, len(GATE))])])
    assert near(question, spans, [(NORMANS, [(5, 5)])]) == [[0.0, 0.0]]


def test_nothing_changes_if_the_reranker_has_compared_the_same_words_before():
    class Once(HashedEmbedder):
        """Refuses to encode a passage; the reranker has done so."""

        def token_vectors(self, texts):
            raise AssertionError(texts)

    embedder, recent = HashedEmbedder(), RecentProducts(most=2)
    pieces, passages = ["William in England?", "Who sank ships?"], [GATE, "", NORMANS]
    scorer = MaxSimScorer(embedder, embedder, recent=recent)
    assert scorer.score(pieces, passages) == MaxSimScorer(embedder, embedder).score(
        pieces, passages
    )
    places = [(NORMANS, [(0, 31), (32, 68)]), (GATE, [(0, len(GATE))])]
    alone = WordNearness(embedder, embedder, embedder.token_offsets)
    beside = WordNearness(Once(), Once(), embedder.token_offsets, recent)
    for piece, words in zip(pieces, ([(0, 7), (11, 18)], [(0, 3), (9, 14)]), strict=True):
        assert beside(piece, words, places) == alone(piece, words, places)
    scorer.score(["Another one?"], passages)
    assert recent.of(pieces[0], NORMANS) is None  # the newest two are held
    assert recent.of(pieces[1], "") is None and recent.of(pieces[1], INDEX) is None


def test_what_the_reranker_has_compared_takes_no_more_memory_than_allowed():
    recent, row = RecentProducts(most_bytes=1_000), np.zeros((10, 4))  # 320 bytes
    for name in ("first", "second", "second", "third", "fourth"):
        recent.put(name, {NORMANS: slice(0, 10)}, row)
    held = [name for name in ("first", "second", "third", "fourth") if known(recent, name)]
    assert held == ["second", "third", "fourth"], "one that is compared again counts once"
    recent.put("large", {NORMANS: slice(0, 40)}, np.zeros((40, 4)))
    assert not any(known(recent, name) for name in (*held, "large"))
    recent.put("first", {NORMANS: slice(0, 10)}, row)
    assert known(recent, "first")


def known(recent, piece):
    return recent.of(piece, NORMANS) is not None


def test_the_ledger_says_of_each_piece_what_speaks_for_and_against_an_answer():
    prompt = Condenser(COUNTER)(kept(GATE, question="How does the gate use theta?|Who sank ships?"))
    first, second = [row for row in prompt.extras.decisions if row.stage == ANSWERS]
    assert [row.rule for row in (first, second)] == [ANSWERED, NOT_FOUND]
    assert first.score > second.score and first.kept and not second.kept
    assert first.reason.startswith(f"chance {first.score:.0%}")
    assert re.match(r"about this: \d+% \(limit \d+%\); against it: ", second.reason)
    assert not re.search(r"\d\.\d", first.reason + second.reason) and second.scores
    told = prompt.extras.answers
    assert [(a.piece_id, a.word) for a in told] == [("q0", ANSWERED), ("q1", NOT_FOUND)]
    assert told[0].nearest.source == "d0.md"
    again = Condenser(COUNTER)(kept(GATE, question="How does the gate use theta?|Who sank ships?"))
    assert again.extras.answers == told
