"""What a sentence states that somebody could check."""

import pytest

from ragstream_core.testspecs.deterministic import MAX_CHARS, listed, statement


@pytest.mark.parametrize(
    ("sentence", "given", "when", "then"),
    [
        ("The ingest must stop.", "", "", "The ingest must stop."),
        ("When the lock is held, the ingest stops.", "", "When the lock is held",
         "the ingest stops."),
        ("If a file is gone, then the prompt says so.", "", "If a file is gone",
         "the prompt says so."),
        ("While the lock is on, retrieval is skipped.", "While the lock is on", "",
         "retrieval is skipped."),
        ("It returns nothing when the index is empty.", "", "when the index is empty.",
         "It returns nothing"),
        ("The command refuses links, unless they are named.", "unless they are named.", "",
         "The command refuses links"),
    ],
)  # fmt: skip
def test_given_when_then_are_the_sentences_own_words(sentence, given, when, then):
    found = statement(sentence)
    assert (found.given, found.when, found.then) == (given, when, then)
    assert all(part in sentence for part in (found.given, found.when, found.then, found.subject))


@pytest.mark.parametrize(
    "sentence",
    [
        "Scope and principles",
        "Must it stop?",
        "A touch-only change, read-only files.",
        "This page is about locks.",
        "",
        "The ingest must stop " + "x" * MAX_CHARS,
    ],
)
def test_what_states_nothing_is_nothing(sentence):
    assert statement(sentence) is None


def test_the_subject_is_what_stands_before_the_verb():
    assert statement("The second ingest must stop at once.").subject == "The second ingest"
    assert statement("One thing; another: it always holds.").subject == ""


def test_a_list_item_takes_what_opens_the_list():
    found = listed("When it rings, the door must:", "open at once")
    assert (found.when, found.then) == ("When it rings", "open at once")
    found = listed("The machine must:", "keep the counter")
    assert (found.subject, found.then) == ("The machine", "keep the counter")
    found = listed("The machine must:", "refuse to brew when it is empty")
    assert (found.when, found.then) == ("when it is empty", "refuse to brew")
    assert listed("Colours we like:", "red, and nothing else there") is None


def test_a_pronoun_goes_on_with_the_sentence_before():
    assert statement("It shall beep.").goes_on
    assert not statement("The machine shall beep.").goes_on
    assert not statement("When it rings, it shall beep.").goes_on


def test_what_is_so_afterwards_is_told_apart():
    assert statement("The old file must stay.").after
    assert not statement("The new file must appear.").after
