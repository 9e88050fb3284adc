"""The file of term arrays, written block by block."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.index import term_files
from ragstream_core.platform import array_file
from ragstream_core.text import bm25
from ragstream_core.text.bm25 import build_lexical

STAMP = {"digest": "d", "lexical": "v"}
TERMS = st.dictionaries(
    st.integers(-4, 4).map(lambda n: n << 60), st.integers(1, 3), max_size=6
)  # fmt: skip


def blob(terms):
    """Return stored terms."""
    return b"".join(struct.pack("<2q", *pair) for pair in sorted(terms.items()))


def small_blocks(monkeypatch, rows, lists, postings):
    """Let a few rows be many blocks."""
    monkeypatch.setattr(term_files, "BLOCK_ROWS", rows)
    monkeypatch.setattr(term_files, "BLOCK_LISTS", lists)
    monkeypatch.setattr(term_files, "_POSTINGS", postings)


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(TERMS, TERMS), max_size=12),
    block=st.integers(1, 4),
    lists=st.integers(1, 3),
    postings=st.integers(1, 5),
)
def test_the_bytes_are_those_of_arrays_built_in_memory(
    tmp_path_factory, rows, block, lists, postings
):
    path = tmp_path_factory.mktemp("index") / "lexical" / "arrays.bin"
    blobs = [(blob(heading), blob(text)) for heading, text in rows]
    built = build_lexical(blobs)
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, block, lists, postings)
        term_files.write(path, STAMP, iter(blobs))
    named = {name: getattr(built, name) for name in term_files.ARRAYS}
    assert path.read_bytes() == array_file.encode(STAMP, named)
    found = term_files.mapped(path, STAMP)
    assert found.packed() == built.packed()
    assert [p.name for p in path.parent.iterdir()] == ["arrays.bin"]


def test_a_damaged_byte_and_another_stamp_are_refused(tmp_path):
    path = tmp_path / "arrays.bin"
    term_files.write(path, STAMP, [(blob({1: 1}), blob({2: 2}))])
    with pytest.raises(ValueError, match="digest"):
        term_files.mapped(path, {**STAMP, "digest": "other"})
    sound, refused = path.read_bytes(), 0
    whole = term_files.mapped(path, STAMP).packed()
    for at in range(len(sound)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        try:  # a flip in the length of the description may still find it: nothing is lost then
            assert term_files.mapped(path, STAMP).packed() == whole
        except ValueError:
            refused += 1
    assert refused > len(sound) - 10
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="empty"):
        term_files.mapped(path, STAMP)


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "arrays.bin"
    term_files.write(path, STAMP, [(blob({1: 1}),)])
    sound = path.read_bytes()

    def broken():
        yield (blob({1: 1}),)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        term_files.write(path, STAMP, broken())
    assert path.read_bytes() == sound
    assert [p.name for p in tmp_path.iterdir()] == ["arrays.bin"]


def test_scores_from_the_mapped_file_are_the_same(tmp_path):
    rng = np.random.default_rng(1)
    blobs = [(blob({int(t): 1 for t in rng.integers(0, 50, 9)}),) for _ in range(300)]
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, 7, 5, 11)
        term_files.write(tmp_path / "a", STAMP, blobs)
    one, other = build_lexical(blobs), term_files.mapped(tmp_path / "a", STAMP)
    for query in (["a"], ["b", "c", "b"]):
        same = [bm25.Bm25([each]).scores(query).tobytes() for each in (one, other)]
        assert same[0] == same[1]
