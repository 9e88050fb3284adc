"""Follow-up questions are read with what was asked before; others are left as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.follow_ups import FollowUp, follow_up, may_lean

PUMP = ("What is the warranty of the K-20 pump?", "The warranty of the K-20 is five years.")
FOLLOWING = ("And its weight?", "How much does it cost?", "And how heavy is it?", "And the price?")


@pytest.mark.parametrize(
    "question", [*FOLLOWING, "How heavy?", "How old is that one?", "Thanks. And its weight?"]
)
def test_a_question_without_a_subject_is_read_with_the_one_before(question):
    found = follow_up(question, [PUMP])
    assert found.about == "K-20 pump" and "K-20 pump" in found.query
    assert "warranty" not in found.query


@pytest.mark.parametrize(
    ("before", "question", "query"),
    [
        ("Wie lang ist die Garantie der Pumpe K-20?", "Und ihr Gewicht?", "Pumpe K-20 Gewicht?"),
        ("Wie lang ist die Garantie der Pumpe K-20?", "Was kostet sie?", "Was kostet Pumpe K-20?"),
        ("Quelle est la garantie du four F2 ?", "Combien pèse-t-il ?", "Combien pèse four F2 ?"),
        ("Quelle est la garantie du four F2 ?", "Et le prix ?", "le prix four F2?"),
        ("¿Cuál es la garantía de la bomba B5?", "¿Y su peso?", "bomba B5 peso?"),
        ("¿Cuál es la garantía de la bomba B5?", "¿Cuánto cuesta?", "Cuánto cuesta bomba B5?"),
    ],
)
def test_it_is_so_in_other_languages(before, question, query):
    assert follow_up(question, [(before, "")]).query == query


def test_another_name_takes_the_place_of_the_one_before():
    assert follow_up("What about the K-30?", [PUMP]).query == "warranty K-30?"
    chain = [PUMP, ("And its weight?", "18 kg")]
    assert follow_up("And the K-30?", chain).query == "weight K-30?"
    assert follow_up("And the price?", [*chain, ("And the K-30?", "25 kg")]).about == "K-30"


def test_a_chain_keeps_its_subject_and_a_new_one_begins_anew():
    chain = [PUMP, ("And its weight?", "18 kg"), ("And the price?", "249 euros")]
    assert follow_up("How old is it?", chain).about == "K-20 pump"
    chain.append(("Who runs the canteen?", "Nobody."))
    assert "K-20" not in follow_up("And its price?", chain).query


def test_the_answer_names_what_the_question_did_not():
    before = [("Which pump is the heaviest?", "The K-30, at 25 kg. The K-20 is lighter.")]
    assert "K-30" in follow_up("And its price?", before).about.split()


@pytest.mark.parametrize(
    "question",
    [
        "What is the weight of the K-30?",
        "And what is the price of the K-30?",
        "Who wrote the migration guide?",
        "Is it possible to pump oil?",
        "How long does it take to fill the tank?",
        "Why did the church lose its lands?",
        "How do I install the service?",
        "Wie viele Tage gibt es im Februar?",
        "Y a-t-il une garantie pour les fours ?",
        "Compare the pumps. Then tell me the price.",
        "TASK: And its weight?\nCONTEXT: the K-10",
    ],
)
def test_a_question_with_a_subject_stands_by_itself(question):
    assert follow_up(question, [PUMP]) is None


@given(st.text(max_size=300))
def test_nothing_leans_on_nothing(question):
    assert follow_up(question, []) is None
    assert follow_up(question, [("", "")]) is None


@given(st.sampled_from(FOLLOWING), st.lists(st.tuples(st.text(), st.text()), max_size=4))
def test_what_is_read_is_pinned_to_the_letter_and_could_lean(question, before):
    found = follow_up(question, before)
    if found:
        assert may_lean(question)
        assert FollowUp.of_pinned(found.pinned()) == found
