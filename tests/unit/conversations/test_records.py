import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.conversations.journal.records import (
    Asked,
    Cleared,
    TagEdit,
    Turn,
    checked_session,
    record_from,
    record_json,
)
from ragstream_core.errors import IntegrityError, UsageError

words = st.text(max_size=12)
labels = st.lists(words, max_size=3).map(tuple)
mappings = st.lists(st.dictionaries(words, words | st.booleans(), max_size=3), max_size=2)
turns = st.builds(
    Turn,
    words, words, words, words, words,
    tags=labels, projects=labels, active_dbs=labels, source=words,
    importance=st.floats(0, 1), versions=mappings.map(tuple), prompt_key=words, asked=words,
    status=words, speakers=st.tuples(words, words), citations=mappings.map(tuple),
)  # fmt: skip
numbers = st.integers(1, 10**9)
anything = (
    turns
    | st.builds(Asked, words, words, words, words, labels, words)
    | st.builds(TagEdit, words, words, words, labels, labels)
    | st.builds(
        Cleared, words, words, st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple),
        words, st.booleans(), numbers,
    )
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(anything)
def test_every_record_comes_back_equal_through_json(record):
    assert record_from(json.loads(json.dumps(record_json(record)))) == record


def test_the_json_form_has_the_fields_of_the_requirement():
    turn = Turn("id", "s", "2026-10-05T14:07:09+02:00", "q", "a", ("GOLD",), ("p",), ("db",))
    assert record_json(turn) == {
        "kind": "turn",
        "id": "id",
        "session_id": "s",
        "timestamp": "2026-10-05T14:07:09+02:00",
        "user_text": "q",
        "assistant_text": "a",
        "tags": ["GOLD"],
        "projects": ["p"],
        "active_dbs": ["db"],
    }


@pytest.mark.parametrize(
    "row", [{}, {"kind": "other"}, {"kind": "turn"}, {"kind": "asked", "id": "1", "nonsense": 2}]
)
def test_what_is_no_record_is_refused(row):
    with pytest.raises(IntegrityError):
        record_from(row)


@pytest.mark.parametrize("name", ["a", "20261005-140709", "A.b_c-9", "x" * 64])
def test_session_names(name):
    assert checked_session(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a..b", "-a", "a/b", "a\n", "ä", "x" * 65, "../x", "a b", "a::b"]
)
def test_no_session_names(name):
    with pytest.raises(UsageError):
        checked_session(name)
