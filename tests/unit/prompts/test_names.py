"""What people call a candidate leads back to it, in every form that is shown somewhere."""

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.prompts.citations import answer_marker
from ragstream_core.prompts.explain import named
from ragstream_core.records.identity import chunk_id, sha256_hex, short_ids, shown_name, with_names

PATHS = st.text("ab/.:#~ é", min_size=1, max_size=12)
SHAS = st.sampled_from([sha256_hex(text) for text in "abc"])
PIECES = st.builds(chunk_id, PATHS, SHAS, st.integers(0, 30))
SESSIONS = st.text("ab-.", min_size=1, max_size=6)
TURNS = st.builds(
    lambda session, n, i: f"history::{session}::{n}-{n}::{i}",
    SESSIONS, st.integers(1, 99), st.integers(0, 3),
)  # fmt: skip


@given(st.lists(PIECES | TURNS, min_size=1, max_size=12, unique=True))
def test_every_form_of_a_name_leads_back(ids):
    short = short_ids(ids)
    for identifier in ids:
        assert named(ids, identifier) == [identifier]
        assert named(ids, short[identifier]) == [identifier]
        assert named(ids, short[identifier].upper()) == [identifier]
        assert named(ids, f"see {answer_marker('a.md', short[identifier])}.") == [identifier]
        assert identifier in named(ids, shown_name(identifier)), shown_name(identifier)


@given(PIECES, st.sampled_from(["", "; it is long", ", and so on"]))
def test_a_sentence_calls_a_chunk_as_a_list_does(identifier, rest):
    told = with_names(f"all that it says stands in {identifier}{rest}")
    assert told == f"all that it says stands in {shown_name(identifier)}{rest}"
    assert with_names(told) == told


@given(st.lists(TURNS, min_size=2, max_size=12, unique=True))
def test_no_two_turns_look_the_same(ids):
    assert len(set(map(shown_name, ids))) == len(ids)


@given(st.lists(PIECES, min_size=1, max_size=6), st.text(max_size=5))
def test_a_few_digits_name_nothing(ids, text):
    assert named(ids, text) == [i for i in dict.fromkeys(ids) if shown_name(i) == text]


def test_what_is_no_chunk_is_its_own_name():
    assert shown_name("files/a.md@00ff") == "files/a.md@00ff"
    assert shown_name(chunk_id("a::b#1.md", "0" * 64, 3)) == "a::b#1.md#3"
