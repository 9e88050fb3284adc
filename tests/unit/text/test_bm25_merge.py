"""Term arrays that are merged are those of one build, whatever came and ended in between."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.text import bm25_merge
from ragstream_core.text.bm25 import Bm25, build_lexical, idf
from ragstream_core.text.bm25_merge import MergedLists, row_numbers
from ragstream_core.text.terms import term_id

WORDS = ["ash", "bolt", "cam", "dog", "elm"]
ROW = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 3), max_size=4)
ROWS = st.dictionaries(st.integers(0, 30), ROW, max_size=10)


def arrays(rows):
    """Build the term arrays of rows, by their numbers."""
    pairs = (
        sorted((term_id(word), n) for word, n in row.items()) for _, row in sorted(rows.items())
    )
    blobs = (b"".join(struct.pack("<2q", *pair) for pair in row) for row in pairs)
    return build_lexical([(blob,) for blob in blobs])


def merged(old, ended, came):
    """Merge rows that ended and came into others; each has a key that says its place."""
    keys = sorted(old)
    gaps = [sum(key < new for key in keys) for new in sorted(came)]
    rows = [keys.index(key) for key in sorted(ended)]
    numbers = row_numbers(len(old), np.array(rows, dtype="<i4"), np.array(gaps, dtype="<i4"))
    return MergedLists(arrays(old), arrays(came), *numbers)


@given(
    old=ROWS,
    came=ROWS,
    ending=st.sets(st.integers(0, 30)),
    postings=st.integers(1, 6),
    far_more=st.sampled_from([0, 1, 99]),
)
def test_they_are_those_of_one_build_to_the_last_bit(old, came, ending, postings, far_more):
    ended = [key for key in old if key in ending or key in came]
    after = {key: row for key, row in old.items() if key not in ended} | came
    whole, lists = arrays(after), merged(old, ended, came)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25_merge, "_POSTINGS", postings)
        patch.setattr(bm25_merge, "_FAR_MORE", far_more)
        assert lists.packed() == whole.packed()
        for word in [*WORDS, "unknown"]:
            assert lists.frequency(term_id(word)) == whole.frequency(term_id(word))
    assert np.array_equal(lists.lengths, whole.lengths)
    for word in [*WORDS, "unknown"]:
        assert idf([lists], term_id(word)) == idf([whole], term_id(word))
    for query in (WORDS, ["bolt", "elm", "bolt"], ["unknown"]):
        for found, wanted in (([lists], [whole]), ([whole, lists, whole], [whole] * 3)):
            assert Bm25(found).scores(query).tobytes() == Bm25(wanted).scores(query).tobytes()


def test_rows_that_come_in_one_gap_keep_their_order():
    old, new = row_numbers(3, np.array([1]), np.array([0, 1, 1, 2, 3]))
    assert old.tolist() == [1, -1, 5]
    assert new.tolist() == [0, 2, 3, 4, 6]
