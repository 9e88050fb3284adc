"""What a question leaves out, and what only sounds so."""

import pytest

from ragstream_core.text.exclusions import without_excluded


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("Which services are not owned by team red?", "team red"),
        ("Which services aren't run by team red and are new?", "team red"),
        ("Which pumps other than P-3 were serviced?", "P-3"),
        ("List all services except the gateway.", "the gateway"),
        ("Which services do not belong to team red?", "team red"),
        ("Welche Dienste werden nicht von Team Rot betrieben?", "Team Rot"),
        ("Welche Dienste außer dem Gateway sind neu?", "dem Gateway"),
        ("Quels services n'appartiennent pas à l'équipe rouge ?", "l'équipe rouge"),
        ("¿Qué servicios no son del equipo rojo?", "equipo rojo"),
    ],
)
def test_what_is_left_out_is_not_searched_for(text, left_out):
    said, found = without_excluded(text)
    assert found == (left_out,)
    assert left_out not in said
    assert said.split()[0] == text.split()[0]


@pytest.mark.parametrize(
    "text",
    [
        "What is not covered by warranty?",
        "What is not allowed in the hall?",
        "Which port is not in use?",
        "Why do tests fail except on Windows?",
        "What happens if it is not owned by root?",
        "List all services that are owned by team red.",
        "Was ist nicht von der Garantie gedeckt?",
    ],
)
def test_what_a_document_may_say_with_not_is(text):
    assert without_excluded(text) == (text, ())
