"""Which texts are surely not English."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.text.languages import other_than_english


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wann endet die Garantie der Pumpe?", "German"),
        ("Quand la garantie prend-elle fin ?", "French"),
        ("¿Cuándo termina la garantía?", "Spanish"),
        ("Quando finisce la garanzia della pompa?", "Italian"),
        ("Wanneer eindigt de garantie van de pomp?", "Dutch"),
        ("保修什么时候结束？", "Chinese"),
        ("保証はいつ終わりますか", "Japanese"),
        ("보증은 언제 끝납니까?", "Korean"),
        ("Когда заканчивается гарантия?", "a language in Cyrillic letters"),
    ],
)
def test_other_languages_are_known_by_script_and_small_words(text, language):
    assert other_than_english(text) == language
    assert other_than_english(f"{text} " * 9) == language


@pytest.mark.parametrize(
    "text",
    ["When does the warranty end?", "Is the pump in a van on the road to La Paz?", "pump no. 5",
     "What does 'der Hund' mean?", "def f(x): return x", "What was the score?", "μ = 5 of π",
     "Who comments on El Niño in Los Angeles?", "", "42", "README.md"],
)  # fmt: skip
def test_english_and_what_is_not_sure_is_none_of_them(text):
    assert other_than_english(text) == ""


@given(st.text(max_size=80))
def test_any_text_has_an_answer(text):
    assert isinstance(other_than_english(text), str)
