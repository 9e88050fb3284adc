"""Terms are packed without loss, and those of many texts at once are those of each."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.text.term_blobs import term_blobs
from ragstream_core.text.terms import packed_terms, term_blob, unpacked_terms

_IDS = st.integers(-(2**63), 2**63 - 1)
_COUNTS = st.integers(1, 3) | st.sampled_from([254, 255, 256, 509, 510, 511, 70_000])
_TEXTS = st.text(st.sampled_from("aZß İΣσ'’_9-fooBar the"), max_size=60)


@given(st.dictionaries(_IDS, _COUNTS, max_size=40))
def test_terms_are_packed_without_loss(counts):
    blob = b"".join(struct.pack("<qq", *pair) for pair in sorted(counts.items()))
    packed = packed_terms(blob)
    assert unpacked_terms(packed) == blob
    pairs = sum((count + 254) // 255 for count in counts.values())
    assert len(packed) == 9 * pairs


@given(st.binary(max_size=200))
def test_damaged_terms_are_unpacked_without_an_error(damaged):
    unpacked_terms(damaged)


@given(st.dictionaries(_IDS, _COUNTS, min_size=1, max_size=9), st.data())
def test_a_flipped_bit_is_seen_in_what_is_unpacked(counts, data):
    blob = b"".join(struct.pack("<qq", *pair) for pair in sorted(counts.items()))
    packed = bytearray(packed_terms(blob))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert unpacked_terms(bytes(packed)) != blob


@given(st.lists(_TEXTS, max_size=8))
def test_the_terms_of_many_texts_are_those_of_each(texts):
    assert term_blobs(texts) == [term_blob(text) for text in texts]
