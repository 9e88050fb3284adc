"""What tells the reader to do something is no term that could be missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.context.coverage import Piece
from ragstream_core.agents.context.open_issues import missing_words
from ragstream_core.text.task_words import only_tells, small_words, what_is_asked
from ragstream_core.text.terms import terms


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Write a mail about the pump.", "a about the pump."),
        ("Please explain the seal and set theta to 0.3", "Please the seal and theta to 0.3"),
        ("Could you please summarise it, translate it and send it?",
         "Could you please it, it and send it?"),
        ("The seal leaks. Describe why; propose a fix!", "The seal leaks. why; a fix!"),
        ("Schreibe eine E-Mail und erkläre die Dichtung.", "eine und die Dichtung."),
        ("Kannst du mir die Pumpe zeigen? Setz den Wert auf 3",
         "Kannst du mir die Pumpe zeigen? den Wert auf 3"),
        ("Écrivez un résumé de la pompe", "un de la pompe"),
        ("Explica la bomba y escribe un informe", "la bomba y un"),
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


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Write an email", "an"),
        ("Please write me a short, polite email to Bob", "Please me a to Bob"),
        ("Create a table and a list of the pumps.", "a and a of the pumps."),
        ("Write a pump report", "a pump"),
        ("Write tests for parser.py", "for parser.py"),
        ("Could you draft the letter to the vendor?", "Could you the to the vendor?"),
        ("Give me a list of the seals", "me a of the seals"),
        ("Schreibe mir eine kurze E-Mail über die Pumpe", "mir eine über die Pumpe"),
        ("Erstelle eine Tabelle der Grenzwerte", "eine der Grenzwerte"),
        ("Rédige un résumé d'une page", "un d'une page"),
        ("Écris-moi une lettre à l'usine", "-moi une à l'usine"),
        ("Escribe un correo sobre la bomba", "un sobre la bomba"),
        ("Scrivi una lettera sulla pompa", "una sulla pompa"),
        ("Escreva um relatório sobre a bomba", "um sobre a bomba"),
        ("Schrijf een brief over de pomp", "een over de pomp"),
        # the subject, not what is made
        ("What does the email module do?", "What does the email module do?"),
        ("Write an email module", "an email module"),
        ("Schreibe ein E-Mail-Modul", "ein E-Mail-Modul"),
        ("Create table users", "table users"),
        ("Write a function for email.", "a function for email."),
        ("Give me the email of the vendor", "me the email of the vendor"),
        ("Fix the email", "the email"),
        ("Explain the table of limits", "the table of limits"),
    ],
)
def test_what_an_instruction_makes_belongs_to_it(text, left):
    assert " ".join(what_is_asked(text).split()) == left


KINDS = ["email", "summary", "table", "poem", "letter", "report", "essay", "checklist"]


@given(
    st.sampled_from(KINDS),
    st.sampled_from(["Write a", "Draft the", "Please create a short", "Could you make one"]),
    st.sampled_from(["about", "for", "of", "on"]),
)
def test_a_kind_is_missing_as_a_subject_only(kind, makes, behind):
    def missing(text):
        piece = Piece("q1", text, terms(text))
        return [word.lower() for word in missing_words(piece, frozenset(), terms)]

    assert missing(f"{makes} {kind} {behind} pumps") == ["pumps"]
    assert kind in missing(f"What does the {kind} module do?")
    assert kind in missing(f"{makes} {kind} module")


@given(st.text(max_size=80) | st.lists(st.sampled_from(
    ["write ", "Set ", "and ", "please ", "the pump", ", ", ". ", "\n", "schreibe ", "请写", "?",
     "a ", "short ", "email ", "table ", "about "]
), max_size=12).map("".join))  # fmt: skip
def test_nothing_but_blanks_comes_in_and_twice_is_once_more_of_it(text):
    left = what_is_asked(text)
    assert len(left) == len(text)
    assert all(a == b or b == " " for a, b in zip(text, left, strict=True))


@pytest.mark.parametrize(
    "text",
    ["We had an outage last night.", "The database did not answer and the phone rang at 3 am.",
     "Gestern ist die Pumpe ausgefallen.", "Hier, la pompe est tombée en panne.",
     "I am new here. My predecessor left no notes!"],
)  # fmt: skip
def test_what_is_told_asks_nothing(text):
    assert only_tells(text)


@pytest.mark.parametrize(
    "text",
    ["Who may wake a second person?", "I want to know when we fail over.", "We need the port.",
     "The tests fail. Repair them.", "Extend the parser so that it handles nulls.",
     "the retry policy of the collector", "Wir suchen den Anschluss der Pumpe.",
     "I wonder whether the lock is held.", ""],
)  # fmt: skip
def test_a_question_a_wish_and_an_order_do_not_only_tell(text):
    assert not only_tells(text)


@given(st.text())
def test_a_question_mark_always_asks(text):
    assert not only_tells(f"We had an outage. {text}?")


def test_words_that_say_little_are_those_of_the_texts_own_language():
    german = "Wie viel Wasser verlangt die Gemeinde, und was geschieht, wenn es fehlt?"
    assert {"viel", "wenn", "geschieht", "es"} <= small_words(german)
    assert small_words("When did the man die in the war?") == frozenset()
    piece = Piece("q1", german, tuple(terms(german)))
    assert missing_words(piece, frozenset(), terms) == ["Wasser", "verlangt", "Gemeinde", "fehlt"]
