"""What tells the reader to do something is no term that could be missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.instructions import what_is_asked


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Write a mail about the pump.", "a mail about the pump."),
        ("Please explain the seal and set theta to 0.3", "Please the seal and theta to 0.3"),
        ("Could you please summarise it, translate it and send it?",
         "Could you please it, it and send it?"),
        ("The seal leaks. Describe why; propose a fix!", "The seal leaks. why; a fix!"),
        ("Schreibe eine E-Mail und erkläre die Dichtung.", "eine E-Mail und die Dichtung."),
        ("Kannst du mir die Pumpe zeigen? Setz den Wert auf 3",
         "Kannst du mir die Pumpe zeigen? den Wert auf 3"),
        ("Écrivez un résumé de la pompe", "un résumé de la pompe"),
        ("Explica la bomba y escribe un informe", "la bomba y un informe"),
        ("1. List the seals\n- Fix the pump", "1. the seals - the pump"),
        ("请解释一下水泵的密封。", "水泵的密封。"),
        ("ポンプの密封を説明してください。", "ポンプの密封 。"),
        ("How do I set theta?", "How do I set theta?"),
        ("What does the write lock guard?", "What does the write lock guard?"),
        ("Where are set and list defined?", "Where are set and list defined?"),
    ],
)  # fmt: skip
def test_instructions_stand_at_the_head_of_a_sentence_or_are_joined_to_one(text, left):
    assert " ".join(what_is_asked(text).split()) == left


@given(st.text(max_size=80) | st.lists(st.sampled_from(
    ["write ", "Set ", "and ", "please ", "the pump", ", ", ". ", "\n", "schreibe ", "请写", "?"]
), max_size=12).map("".join))  # fmt: skip
def test_nothing_but_blanks_comes_in_and_twice_is_once_more_of_it(text):
    left = what_is_asked(text)
    assert len(left) == len(text)
    assert all(a == b or b == " " for a, b in zip(text, left, strict=True))
