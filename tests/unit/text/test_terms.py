"""Terms are packed without loss, and those of many texts at once are those of each."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.text.term_blobs import term_blobs
from ragstream_core.text.terms import (
    located_terms,
    packed_terms,
    term_blob,
    terms,
    unpacked_terms,
)

_IDS = st.integers(-(2**63), 2**63 - 1)
_COUNTS = st.integers(1, 3) | st.sampled_from([254, 255, 256, 509, 510, 511, 70_000])
_TEXTS = st.text(st.sampled_from("aZß İΣσ'’_9-‑.4fooBar the端口です人々ก็\U00020000"), max_size=60)
_DENSE = st.text("端口網関のポート々", min_size=1, max_size=9)


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


@given(_DENSE, _DENSE, _DENSE)
def test_words_are_found_within_a_clause_without_blanks(before, word, behind):
    clause = set(terms(f"Port 8503：{before}{word}{behind}。"))
    assert set(terms(word)) <= clause or len(word) == 1
    assert {"port", "8503"} <= clause
    assert terms(f"{word}8503{behind}") == [*terms(word), "8503", *terms(behind)]


def test_each_letter_is_located_by_the_pair_that_it_begins():
    assert located_terms("端口は8503 the猫") == [
        (0, 1, "端口"), (1, 2, "口は"), (2, 3, "口は"), (3, 7, "8503"), (8, 11, ""), (11, 12, "猫")
    ]  # fmt: skip


@given(st.lists(st.integers(0, 300), min_size=2, max_size=5), st.sampled_from(["", "v", "rel-"]))
def test_a_number_with_dots_is_one_name_wherever_it_stands(numbers, before):
    written = ".".join(map(str, numbers))
    assert terms(f"since {before}{written}.").count(written) == 1
    shorter = ".".join(map(str, numbers[1:]))
    assert len(numbers) == 2 or shorter not in terms(f"({written})")


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("E-4042", "e4042"),
        ("E4042", "(E-4042)"),
        ("E\u20114042", "E-4042"),
        ("4042", "E4042"),
        ("80070057", "0x80070057"),
        ("8007000e", "0x8007000E"),
        ("20261128", "2026-11-28"),
        ("PN-AB-12", "PNAB12"),
    ],
)
def test_a_code_is_found_as_others_write_it(asked, written):
    assert set(terms(asked)) & set(terms(f"see {written}"))


def test_words_that_are_no_codes_stay_as_they_are():
    assert terms("well-known end. Next") == ["well", "known", "end", "next"]
    assert "v2" in terms("v2") and "2" not in terms("v2")


def test_a_long_run_is_read_in_one_pass():
    assert len(terms("a9" * 200_000 + "-" + "1." * 100_000)) > 100_000
