"""What the JSON form of records takes back: what was written, and nothing of another type."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.records.json_form import fields_of, json_of, read_as
from ragstream_core.records.stage_results import Decision


@dataclass(frozen=True)
class Inner:
    name: str
    at: int


@dataclass(frozen=True)
class Outer:
    text: str
    number: float
    flag: bool
    maybe: int | None
    names: tuple[str, ...]
    inner: Inner | None
    rows: tuple[Inner, ...]
    shares: Mapping[str, float]


TEXT = st.text('a1 "\nü', max_size=6)
INNER = st.builds(Inner, TEXT, st.integers())
OUTER = st.builds(
    Outer,
    text=TEXT,
    number=st.floats(allow_nan=False) | st.integers(),
    flag=st.booleans(),
    maybe=st.none() | st.integers(),
    names=st.lists(TEXT).map(tuple),
    inner=st.none() | INNER,
    rows=st.lists(INNER).map(tuple),
    shares=st.dictionaries(TEXT, st.floats(allow_nan=False)),
)
WRONG = {
    "text": [None, 1, ["a"]],
    "number": ["1", None, True],
    "flag": [1, "true", None],
    "maybe": ["1", 1.5, True],
    "names": ["abc", [1], {"a": "b"}],
    "inner": ["abc", {"name": 1, "at": 1}, {"name": "a", "at": True}, ["a", 1]],
    "rows": [{"name": "a", "at": 1}, [{"name": "a", "at": "1"}], "ab"],
    "shares": [["a"], {"a": "b"}, {"a": None}],
}


@given(OUTER)
def test_what_was_written_is_read_again(record):
    row = json_of(record)
    given_back = {"maybe": None, "inner": None, **row}  # what is None is not written
    assert read_as(Outer, given_back) == record
    assert fields_of(record) == row


@given(OUTER, st.data())
def test_a_value_of_another_type_is_refused(record, data):
    name = data.draw(st.sampled_from([field.name for field in fields(Outer)]))
    row = {"maybe": None, "inner": None, **json_of(record)}
    with pytest.raises(TypeError):
        read_as(Outer, {**row, name: data.draw(st.sampled_from(WRONG[name]))})


@pytest.mark.parametrize("data", ["abc", 1, None, [], ["a", 1]])
def test_what_is_no_object_is_no_record(data):
    with pytest.raises(TypeError):
        read_as(Inner, data)


def test_a_field_too_many_or_too_few_is_refused():
    for row in ({"name": "a"}, {"name": "a", "at": 1, "more": 1}):
        with pytest.raises(TypeError):
            read_as(Inner, row)


def test_a_row_of_the_ledger_is_read_with_its_scores():
    row = Decision("a3", "a.md::x::0", 1, 0.5, True, "gate", "near", scores={"cosine": 0.5})
    assert read_as(Decision, json_of(row)) == row
    with pytest.raises(TypeError, match=r"Decision\.rank is a str"):
        read_as(Decision, {**json_of(row), "rank": "1"})


def test_what_is_no_record_has_no_fields():
    with pytest.raises(TypeError, match="no record"):
        fields_of("text")
