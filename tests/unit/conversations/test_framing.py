import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.conversations.journal.segments import (
    NO_CHAIN,
    chain_of,
    count_possibly_acknowledged,
    frame_line,
    parse_line,
    pieces,
    split_lines,
)
from ragstream_core.errors import IntegrityError

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
records = st.dictionaries(st.text(min_size=1, max_size=8), values, min_size=1, max_size=4).map(
    lambda row: json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
)


def lines_of(recs):
    """A chain of lines, numbered from 1."""
    lines, chain = [], NO_CHAIN
    for seq, rec in enumerate(recs, 1):
        lines.append(frame_line(seq, chain, rec))
        chain = chain_of(lines[-1])
    return lines


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 10**17), records)
def test_what_was_framed_is_read_back(seq, rec):
    line = frame_line(seq, "ab" * 16, rec)
    found = parse_line(line)
    assert (found.seq, found.prev, found.rec) == (seq, "ab" * 16, rec)
    assert found.chain == hashlib.sha256(line).hexdigest()[:32]


def test_the_line_is_what_the_format_says():
    line = frame_line(7, NO_CHAIN, b'{"kind":"turn"}')
    row = json.loads(line)
    assert list(row) == ["v", "seq", "len", "crc", "prev", "rec"]
    assert (row["v"], row["seq"], row["len"]) == (1, 7, 15)
    without = line.replace(row["crc"].encode(), b"")
    assert row["crc"] == hashlib.sha256(without).hexdigest()[:16]
    assert b" " not in line


@settings(max_examples=100, deadline=None)
@given(records, st.data())
def test_no_changed_bit_passes(rec, data):
    line = frame_line(3, NO_CHAIN, rec)
    bit = data.draw(st.integers(0, 8 * len(line) - 1))
    changed = bytearray(line)
    changed[bit // 8] ^= 1 << bit % 8
    assert parse_line(bytes(changed)) is None


def test_not_one_bit_of_a_whole_line_passes():
    line = frame_line(12, NO_CHAIN, b'{"kind":"asked","user_text":"\xc3\xa4"}')
    for bit in range(8 * len(line)):
        changed = bytearray(line)
        changed[bit // 8] ^= 1 << bit % 8
        assert parse_line(bytes(changed)) is None, bit


def test_no_beginning_and_nothing_longer_is_a_line():
    line = frame_line(1, NO_CHAIN, b'{"a":1}')
    assert all(parse_line(line[:end]) is None for end in range(len(line)))
    assert parse_line(line + line) is None
    assert parse_line(line + b"\n") is None


def test_a_newer_version_is_refused_not_repaired():
    line = frame_line(1, NO_CHAIN, b'{"a":1}').replace(b'{"v":1', b'{"v":2', 1)
    begin = line.index(b'"crc":"') + 7
    crc = hashlib.sha256(line[:begin] + line[begin + 16 :]).hexdigest()[:16].encode()
    newer = line[:begin] + crc + line[begin + 16 :]
    with pytest.raises(IntegrityError, match="version 2"):
        parse_line(newer)


@settings(max_examples=100, deadline=None)
@given(st.lists(records, min_size=2, max_size=5), st.data())
def test_a_lost_newline_costs_one_line(recs, data):
    lines = lines_of(recs)
    lost = data.draw(st.integers(0, len(lines) - 2))
    glued = lines[lost][:-1] + bytes([data.draw(st.sampled_from([0x0B, 0x20, 0x4A, 0x0E]))])
    found = pieces(glued + lines[lost + 1], 100)
    assert [piece.parsed is None for piece in found] == [True, False]
    assert found[1].parsed.seq == lost + 2
    assert found[0].offset == 100
    assert found[1].offset == 100 + len(glued)
    assert b"".join(piece.raw for piece in found) == glued + lines[lost + 1]


@settings(max_examples=100, deadline=None)
@given(st.lists(records, max_size=5), st.binary(max_size=20).filter(lambda b: b"\n" not in b))
def test_backwards_is_forwards_reversed(recs, torn):
    data = b"".join(lines_of(recs)) + torn
    forwards, at = [], 0
    for raw in data.splitlines(keepends=True) if b"\r" not in torn else []:
        forwards += pieces(raw, at)
        at += len(raw)
    found = list(split_lines(data, 0))
    assert b"".join(piece.raw for piece in reversed(found)) == data
    if b"\r" not in torn:
        assert found == forwards[::-1]
    assert [p.parsed.seq for p in found if p.parsed] == list(range(len(recs), 0, -1))


@settings(max_examples=100, deadline=None)
@given(records)
def test_what_a_crash_leaves_of_a_line_was_never_kept(rec):
    line = frame_line(5, NO_CHAIN, rec)
    assert all(count_possibly_acknowledged([line[:end]]) == 0 for end in range(len(line)))


@settings(max_examples=100, deadline=None)
@given(records, st.data())
def test_a_whole_line_with_one_changed_bit_may_have_been_kept(rec, data):
    line = frame_line(5, NO_CHAIN, rec)
    bit = data.draw(st.integers(0, 8 * len(line) - 1))
    changed = bytearray(line)
    changed[bit // 8] ^= 1 << bit % 8
    runs = bytes(changed).split(b"\n")
    raws = [run + b"\n" for run in runs[:-1]] + ([runs[-1]] if runs[-1] else [])
    assert count_possibly_acknowledged(raws) >= 1


def test_a_tail_of_zeros_was_never_kept():
    assert count_possibly_acknowledged([b"\0" * 4096]) == 0
