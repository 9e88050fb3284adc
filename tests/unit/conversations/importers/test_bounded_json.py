"""Laws of reading strangers' JSON: cut at its brackets as a parser cuts it, and never too much."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.importers import bounded_json
from ragstream_core.conversations.importers.bounded_json import members, too_much

VALUES = st.recursive(
    st.none() | st.integers() | st.text('ab"\\[]{},: é\n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
ROWS = st.lists(st.lists(VALUES, max_size=3) | st.dictionaries(st.text(max_size=3), VALUES))


@given(ROWS, st.integers(1, 9), st.sampled_from([None, 1]), st.booleans())
def test_members_are_those_a_parser_finds_wherever_a_piece_ends(rows, chunk, indent, is_ascii):
    text = json.dumps(rows, indent=indent, ensure_ascii=is_ascii).encode()
    was, bounded_json._CHUNK = bounded_json._CHUNK, chunk
    try:
        found = list(members(io.BytesIO(text)))
    finally:
        bounded_json._CHUNK = was
    assert [(m.number, m.value, m.problem) for m in found] == [
        (number, row, "") for number, row in enumerate(rows, 1)
    ]


@given(st.binary(max_size=200) | st.text('[]{}",:1a\\ ', max_size=60).map(str.encode))
def test_whatever_the_bytes_are_each_member_is_a_value_or_a_sentence(data):
    for member in members(io.BytesIO(data)):
        assert (member.value is None) or not member.problem
        assert "(right here)" not in member.problem


@given(ROWS.filter(bool), st.integers(0, 400))
def test_a_file_that_breaks_off_gives_what_was_whole_and_says_where(rows, cut):
    text = json.dumps(rows).encode()
    part = text[: min(cut, len(text) - 1)]
    *whole, last = members(io.BytesIO(part))
    assert [m.value for m in whole if not m.problem] == rows[: len(whole)]
    assert "ends" in last.problem or last.problem == "is empty"


@pytest.mark.parametrize(
    ("bad", "limit"),
    [
        ("[" * 5000 + "]" * 5000, "is nested deeper than 200 brackets"),
        ('{"a":' * 300 + "1" + "}" * 300, "is nested deeper than 200 brackets"),
        ('["' + "x" * 5000 + '"]', "is larger than 0 MiB"),
        ("[" + "1," * 500 + "1]", "holds more than 2,000,000 values"),
        ("[" + "[]," * 500 + "1]", "holds more than 2,000,000 values"),
        ('{"a": nope}', "is not JSON at byte 6 of it"),
    ],
)
def test_a_member_that_is_too_much_is_named_with_its_limit_and_the_others_are_read(
    monkeypatch, bad, limit
):
    monkeypatch.setattr(bounded_json, "MOST_BYTES", 4000 if "x" in bad else 1 << 20)
    monkeypatch.setattr(bounded_json, "MOST_VALUES", 400)
    text = f'[{{"a": 1}},{bad},{{"b": 2}}]'
    first, wrong, last = members(io.BytesIO(text.encode()))
    assert (first.value, last.value, last.number) == ({"a": 1}, {"b": 2}, 3)
    assert wrong.problem.startswith(limit)
    assert "line 1, at byte 10" in wrong.problem


def test_a_file_of_nothing_but_too_much_is_given_up(monkeypatch):
    monkeypatch.setattr(bounded_json, "MOST_BYTES", 10)
    monkeypatch.setattr(bounded_json, "MOST_PASSED_OVER", 1000)
    text = "[" + ",".join(['["' + "x" * 300 + '"]'] * 9000) + "]"
    *_, last = members(io.BytesIO(text.encode()))
    assert "what follows is not read" in last.problem


def test_commas_in_texts_are_no_values(monkeypatch):
    monkeypatch.setattr(bounded_json, "MOST_VALUES", 10)
    assert too_much(json.dumps([',[{"\\' * 50]).encode()) == ""
    assert too_much(json.dumps([1] * 20).encode())
