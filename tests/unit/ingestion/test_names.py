import os

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.ingestion.file_types import decode_name, encode_name


@given(st.binary(min_size=1, max_size=20).filter(lambda b: b"/" not in b and b"\0" not in b))
def test_round_trip_of_any_bytes(raw):
    name = os.fsdecode(raw)
    assert decode_name(encode_name(name)) == name
    encode_name(name).encode("utf-8")  # nothing undecodable is left


@given(st.text(alphabet="%0258AFaé\udcff\udc80", min_size=1, max_size=8))
def test_round_trip_where_it_is_ambiguous(name):
    assert decode_name(encode_name(name)) == name


@given(
    st.text(alphabet="%0258AF\udcff\udc80", min_size=1, max_size=5),
    st.text(alphabet="%0258AF\udcff\udc80", min_size=1, max_size=5),
)
def test_injective(left, right):
    assert (encode_name(left) == encode_name(right)) == (left == right)


def test_valid_names_are_their_own_text():
    for name in ("a.md", "größe.md", "100%.md", "a b\nc.md", "-x.md", "e\u0301.md", "a::b.md"):
        assert encode_name(name) == name


def test_only_undecodable_bytes_are_encoded():
    assert encode_name("a\udcff.md") == "a%FF.md"
