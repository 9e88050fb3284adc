"""What is no answer is known by its origin, and by the words that the program says."""

import pytest

from ragstream_core.answers.answer import REFUSAL
from ragstream_core.answers.extract import CLOSEST
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.conversations.non_answers import (
    ORIGINS,
    is_evidence,
    is_non_answer,
    is_non_answer_text,
)
from ragstream_core.conversations.units import TurnChunker

LONG = " ".join(f"Sentence number {n} of an extract is long." for n in range(80))


def turn(said, **more):
    return Turn("", "s", "2026-10-01T10:00:00+00:00", "Who may restart it?", said, **more)


UNANSWERED = "No language model answered"  # what earlier versions began an extract with


def test_what_an_extract_begins_with_now_is_known_too():
    said = f"No model is running at 127.0.0.1:1, {CLOSEST} documents. Start it.\n\n- {LONG}"
    assert is_non_answer(turn(said)) and not is_non_answer(turn(f"So.\n\n{said}"))


@pytest.mark.parametrize("said", [REFUSAL, f" {REFUSAL}\n", f"{UNANSWERED} (refused).\n\n- {LONG}"])
def test_what_the_program_says_is_known_by_its_words(said):
    """Another wording of either must be added to `non_answers`, or older journals are unknown."""
    assert is_non_answer(turn(said)) and not is_evidence(turn(said))
    pieces = TurnChunker().pieces(turn(said))
    assert any(is_non_answer_text(piece.text) for piece in pieces)


@pytest.mark.parametrize("origin", ORIGINS)
def test_its_origin_alone_is_enough(origin):
    assert is_non_answer(turn("The night shift may restart it.", origin=origin))


@pytest.mark.parametrize(
    "said",
    [
        "",
        "The night shift.",
        f"“{REFUSAL}” is the refusal.",
        f"Not so: {UNANSWERED} (",
    ],
)
def test_an_answer_that_speaks_of_them_is_one(said):
    assert not is_non_answer(turn(said)) and is_evidence(turn(said))
    assert not any(is_non_answer_text(p.text) for p in TurnChunker().pieces(turn(said)))


def test_what_broke_off_is_no_evidence_either():
    assert not is_evidence(turn("The night", status="partial"))
