"""Rows that lie in another order in a file are the rows in theirs, however they are asked for."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.models.onnx_session import row_products
from ragstream_core.platform.placed_rows import PlacedRows
from ragstream_core.retrieval import rows as pool_rows
from ragstream_core.retrieval.retriever import Retriever
from tests.unit.retrieval.test_retriever import EMBEDDER, View, corpus

DIMENSION = 8


def placed(matrix, places):
    return PlacedRows(matrix, np.array(places, dtype=np.int64), lambda read: read())


@st.composite
def cases(draw):
    """A matrix, where rows lie in it (several may share a place), and some of the rows."""
    held = draw(st.integers(1, 40))
    places = draw(st.lists(st.integers(0, held - 1), min_size=1, max_size=60))
    wanted = draw(st.sets(st.integers(0, len(places) - 1)).map(sorted))
    matrix = np.random.default_rng(draw(st.integers(0, 9))).normal(size=(held, DIMENSION))
    return matrix.astype(np.float32), places, np.array(wanted, dtype=np.int64)


@given(cases())
def test_they_are_read_as_an_array_in_their_order_would_be(case):
    matrix, places, wanted = case
    rows, plain = placed(matrix, places), matrix[places]
    assert rows.shape == plain.shape and len(rows) == len(plain)
    assert np.array_equal(rows, plain)
    assert np.array_equal(rows[wanted], plain[wanted])
    assert np.array_equal(rows[wanted.tolist()], plain[wanted.tolist()])
    assert np.array_equal(rows[1:7:2], plain[1:7:2])
    assert np.array_equal(rows[len(plain) - 1], plain[-1]) and rows[-1].shape == (DIMENSION,)
    with pytest.raises(IndexError):
        rows[len(plain)]
    with pytest.raises(ValueError, match="can only be copied"):
        np.asarray(rows, copy=False)


def with_placed(view, chance):
    """Return a view whose vectors lie in another order, between others."""
    plain = view.vectors
    spots = chance.permutation(len(plain) + 9)
    matrix = np.full((len(plain) + 9, plain.shape[1]), 7, dtype=np.float32)
    matrix[spots[: len(plain)]] = plain
    found = replace(view)
    found.vectors = placed(matrix, spots[: len(plain)])
    return found


@pytest.mark.parametrize("pieces", [["catalog"], ["catalog and replay", "budget of a prompt"]])
@pytest.mark.parametrize("kept", [3, 150, 400])
@pytest.mark.parametrize("multiply", [None, row_products])
def test_a_search_does_not_depend_on_where_vectors_lie(monkeypatch, pieces, kept, multiply):
    monkeypatch.setattr(pool_rows, "MAX_BLOCK", 64)
    plain = [View("one", corpus(300)), View("two", corpus(100, seed=3))]
    chance = np.random.default_rng(kept)
    other = [with_placed(plain[0], chance), plain[1]], [with_placed(v, chance) for v in plain]
    names = [f"{view.project}/{path}" for view in plain for path in view.paths]
    off = {name for n, name in enumerate(names) if n * 7 % len(names) >= kept}
    retriever = Retriever(EMBEDDER, multiply=multiply)
    wanted = retriever.search(plain, "catalog budget", pieces=pieces, off=off)
    assert wanted
    for views in other:
        assert retriever.search(views, "catalog budget", pieces=pieces, off=off) == wanted
