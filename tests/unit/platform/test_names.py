"""Packed names answer as a tuple of them would."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.platform import names
from ragstream_core.platform.names import CodedNames, Names

TEXTS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5))


@given(TEXTS, st.slices(12), st.integers(-14, 14))
def test_packed_names_answer_as_a_tuple(given, part, at):
    plain, packed = tuple(given), Names.of(given)
    assert packed == plain and tuple(packed) == plain and len(packed) == len(plain)
    assert packed[part] == plain[part]
    assert packed != (*plain, "x") and packed != "".join(plain)
    assert ("x" in packed) == ("x" in plain)
    if -len(plain) <= at < len(plain):
        assert packed[at] == plain[at]
    else:
        with pytest.raises(IndexError):
            packed[at]


@given(st.lists(TEXTS))
def test_parts_are_joined(parts):
    assert Names.joined(list(map(Names.of, parts))) == tuple(n for part in parts for n in part)


@given(TEXTS, st.data())
def test_names_go_and_come(given, data):
    rows = st.lists(st.integers(0, max(len(given) - 1, 0)), unique=True)
    without = sorted(data.draw(rows)) if given else []
    where = st.tuples(st.integers(0, len(given)), st.sampled_from(["", "x", "yy"]))
    added = sorted(data.draw(st.lists(where)), key=lambda step: step[0])
    plain = []
    for row in range(len(given) + 1):
        plain += [name for at, name in added if at == row]
        plain += [given[row]] if row < len(given) and row not in without else []
    assert Names.of(given).changed(without, added) == tuple(plain)


def test_names_are_read_in_blocks(monkeypatch):
    monkeypatch.setattr(names, "_BLOCK", 3)
    plain = [f"name {n}" for n in range(10)]
    assert list(Names.of(plain)) == plain
    assert list(CodedNames(plain, np.array([3, 1, 1, 9, 0]))) == [plain[n] for n in (3, 1, 1, 9, 0)]


def test_a_name_that_cannot_be_told_apart_is_refused():
    with pytest.raises(ValueError, match="NUL"):
        Names.of(["a\0b"])
