"""Raised and lowered characters: they never change a number."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers.raised import subscript, superscript

DIGITS = st.text("0123456789", min_size=1, max_size=4)


@given(DIGITS, st.text("0123456789+-,.()n ", min_size=1, max_size=6), DIGITS, st.booleans())
def test_no_raised_character_makes_another_number(before, text, after, is_note):
    for write in (superscript, subscript):
        if not re.search(r"\d", text):
            continue
        options = {"is_note": is_note} if write is superscript else {}
        written = f"{before}{write(text, before, after, **options)}{after}"
        numbers = re.findall(r"\d+", written)
        assert numbers[0] == before
        assert numbers[-1] == after


@pytest.mark.parametrize(
    ("before", "text", "after", "written"),
    [("10", "6", " cycles", "^6"), ("10", "-6", "", "^-6"), ("45", "2", " bar", "^2"),
     ("20 m", "2", "", "²"), ("kg/m", "3", "", "³"), ("mol", "-1", "", "⁻¹"),
     ("Ca", "2+", "", "²⁺"),
     ("x", "n", "", "ⁿ"), ("inch", "2", "", "^2"), ("e", "-k/2", "", "^(-k/2)"),
     ("Done.", "2", " More", " [2]"), ("", "2", " At 20 degrees", "[2]"), ("", "14", "C", "¹⁴"),
     ("Done.", "1,3", "", " [1,3]"), ("word", "[7]", "", " [7]"), ("1", "st", "", "st"),
     ("M", "lle", "", "lle"), ("2", "o", "", "º"), ("Brand", "TM", "", "™"), ("5", "*", "", "*"),
     ("3", "1", "⁄2", " 1"), ("10", "6", "5", "^6 "), ("45", "a", "", "ª"), ("45", "b", "", "^b"),
     ("x", " ", "", "")],
)  # fmt: skip
def test_superscripts(before, text, after, written):
    assert superscript(text, before, after) == written


@pytest.mark.parametrize(
    ("before", "text", "after", "written"),
    [("H", "2", "O", "2"), ("101", "2", "", "_2"), ("log", "2", "8", "_2 "), ("x", "i", "1", "i")],
)
def test_subscripts(before, text, after, written):
    assert subscript(text, before, after) == written


def test_the_mark_of_a_note_is_in_brackets_even_behind_a_number():
    assert superscript("2", "1990", "", is_note=True) == " [2]"
