"""Records are written at once as they would be in two steps, byte for byte."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.records.canonical import canonical_text
from ragstream_core.records.identity import canonical_json, digest_of, sha256_hex
from ragstream_core.records.json_form import json_of

TEXT = st.text('a%s{"\n\\ü\ud800😀', max_size=5)
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


class Row(NamedTuple):
    name: str
    rank: int
    kept: bool
    score: float
    scores: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Record:
    text: str
    maybe: int | None = None
    rows: tuple[Row, ...] = ()
    more: Mapping[str, object] = field(default_factory=dict)


class Own(NamedTuple):
    name: str

    def to_json(self):
        return {"said otherwise": [self.name]}


SCORES = st.dictionaries(TEXT, NUMBER, max_size=9)
ROW = st.builds(Row, TEXT, st.integers(), st.booleans(), NUMBER, SCORES.map(MappingProxyType))
LEAF = TEXT | NUMBER | st.booleans() | st.none() | ROW | st.builds(Own, TEXT)
RECORD = st.builds(
    Record, TEXT, st.none() | st.integers(), st.lists(ROW, max_size=3).map(tuple), SCORES
)
VALUE = st.recursive(
    LEAF | RECORD,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@given(VALUE)
def test_the_text_is_that_of_the_json_form(value):
    assert canonical_text(value) == canonical_json(json_of(value))
    assert sha256_hex(canonical_text(value)) == digest_of(json_of(value))


@pytest.mark.parametrize("value", [{1: "a", 2: "b"}, {}, [], (), "", {"a": {3: None}}])
def test_keys_that_are_no_texts_and_nothing_at_all(value):
    assert canonical_text(value) == canonical_json(json_of(value))


def test_numbers_whose_sum_is_too_large_are_written():
    assert canonical_text([1e308, 1e308]) == "[1e+308,1e+308]"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", [lambda x: x, lambda x: {"a": x}, lambda x: Row("", 0, True, x)])
def test_what_json_cannot_hold_is_refused(number, place):
    with pytest.raises(ValueError):
        canonical_text(place(number))


def test_what_has_no_json_form_is_refused():
    for value in (object(), [object()], {"a": {1, 2}}):
        with pytest.raises(TypeError):
            canonical_text(value)
