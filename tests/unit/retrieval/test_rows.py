"""The rows a prompt may use, and lists that do not depend on how they were scanned."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.retrieval import rows
from ragstream_core.retrieval.lists import SignalList, lexical_list, proposal
from ragstream_core.retrieval.retriever import Retriever
from tests.unit.retrieval.test_retriever import EMBEDDER, View, corpus, search

ALL = np.arange(6)


def names(view, off=()):
    made = rows.rows_of([view])
    return [made.ids[row] for row in made.eligible(off).tolist()]


def test_files_that_are_off_are_left_out_by_their_full_name():
    view = View("one", {f"{path}::{n}": "catalog" for path in ("a.md", "b.md") for n in range(2)})
    assert names(view) == view.chunk_ids
    assert names(view, {"one/a.md", "two/b.md", "b.md", "one/none.md"}) == view.chunk_ids[2:]
    assert names(view, {"one/a.md", "one/b.md"}) == []


def test_an_id_of_two_projects_counts_once_where_it_is_not_off():
    texts = corpus(4)
    made = rows.rows_of([View("a", texts), View("b", texts)])
    assert made.eligible(()).tolist() == [0, 1, 2, 3]
    off = [list(made.numbers)[0]]
    assert made.eligible(off).tolist() == [1, 2, 3, 4]
    assert np.array_equal(made.take(np.array([5, 1])), made.take(np.array([1, 5]))[::-1])


def test_rows_are_shared_while_the_views_are_the_same():
    one, two = View("one", corpus(5)), View("two", corpus(5))
    assert rows.rows_of([one]) is rows.rows_of([one])
    assert rows.rows_of([one]) is not rows.rows_of([two])
    renamed = replace(one)
    renamed.chunk_ids = one.chunk_ids
    assert rows.rows_of([renamed]).views[0] is renamed
    for n in range(5):
        rows.rows_of([View("one", corpus(3, seed=n))])
    assert len(rows._cache) <= rows.CACHED


BLOCKS = [  # (multiplications, share): one row at a time, spans only, copies only
    (1, 0.75), (20_000, 0.0), (20_000, 1.1), (10**9, 0.5)
]  # fmt: skip


@pytest.mark.parametrize("kept", [1, 60, 140, 300])
def test_a_pool_gives_the_same_hits_however_its_rows_are_blocked(monkeypatch, kept):
    view = View("one", corpus(300))
    off = {f"one/{path}" for n, path in enumerate(view.paths) if n * 7 % 300 >= kept}
    pieces = ["catalog and replay", "budget of a prompt"]
    found = []
    for work, share in BLOCKS:
        monkeypatch.setattr(rows, "BLOCK_WORK", work)
        monkeypatch.setattr(rows, "GATHERED_SHARE", share)
        found.append(search([view], "catalog and replay budget", pieces=pieces, off=off))
    assert all(one == found[0] for one in found) and 0 < len(found[0]) <= kept


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=3), st.sampled_from(BLOCKS), st.data())
def test_products_are_those_of_the_rows_asked_for(sizes, blocks, data):
    views = [View(f"p{n}", {f"f{n}-{k}.md::{k}": f"w{n} {k}" for k in range(size)})
             for n, size in enumerate([*sizes, 3])]  # fmt: skip
    made = rows.rows_of(views)
    wanted = np.array(sorted(data.draw(st.sets(st.integers(0, len(made.ids) - 1)))), dtype=int)
    queries = EMBEDDER.embed_queries(["catalog", "w1 2"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "BLOCK_WORK", blocks[0])
        patch.setattr(rows, "GATHERED_SHARE", blocks[1])
        found = made.products(queries, wanted)
    assert found.shape == (2, len(wanted))
    assert np.allclose(found, queries @ made.take(wanted).T, atol=1e-6)


@pytest.mark.parametrize("kept", [60, 140, 300])
def test_whoever_multiplies_the_hits_are_the_same(monkeypatch, kept):
    view = View("one", corpus(300))
    off = {f"one/{path}" for n, path in enumerate(view.paths) if n * 7 % 300 >= kept}
    pieces = ["catalog and replay", "budget of a prompt"]
    wanted, asked = search([view], "catalog replay", pieces=pieces, off=off), []

    def rough(near, columns):
        asked.append(near.shape)
        return (near @ columns).T + np.float32(8e-7)

    monkeypatch.setattr(rows, "MAX_BLOCK", 50)
    retriever = Retriever(EMBEDDER, multiply=rough)
    assert retriever.search([view], "catalog replay", pieces=pieces, off=off) == wanted
    assert asked and all(shape[0] <= 300 for shape in asked)
    asked.clear()
    retriever.search([view], "catalog", pieces=["catalog"], off=off)
    assert not asked  # one query is a product that BLAS does as fast as memory is read


def listed(scores, pool, depth=3):
    is_open = np.isin(ALL, pool)
    return lexical_list("abcdef", np.array(scores, dtype=float), pool=is_open, depth=depth)


def test_a_lexical_list_holds_matches_only_and_zero_is_its_low_anchor():
    found = listed([0, 4, 0, 2, 0, 0], ALL)
    assert (found.rows.tolist(), found.scaled.tolist()) == ([1, 3], [1.0, 0.5])
    full = listed([5, 4, 3, 2, 1, 0], ALL)
    assert (full.rows.tolist(), full.scaled.tolist()) == ([0, 1, 2], [1.0, 0.5, 0.0])
    assert listed([0] * 6, ALL).rows.tolist() == []
    assert listed([1] * 6, []).rows.tolist() == []


def test_a_small_pool_is_scaled_with_the_anchors_of_everything():
    found = listed([5, 4, 3, 2, 1, 0], [1, 5])
    assert (found.rows.tolist(), found.scaled.tolist()) == ([1], [0.5])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=60), st.data())
def test_a_lexical_list_is_the_best_matches_of_the_pool(scores, data):
    given_scores = np.array(scores, dtype=float)
    names = [f"{n:02}" for n in range(len(scores))]
    is_open = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores))), bool
    )
    depth = data.draw(st.integers(1, 9))
    found = lexical_list(names, given_scores, pool=is_open, depth=depth)
    matches = [row for row in np.flatnonzero(is_open).tolist() if scores[row] > 0]
    assert found.rows.tolist() == sorted(matches, key=lambda row: (-scores[row], row))[:depth]


def test_over_gives_zero_where_the_list_holds_no_row():
    held = SignalList(np.array([4, 1]), np.array([1.0, 0.25]))
    assert held.over(np.array([0, 1, 4, 9])).tolist() == [0, 0.25, 1, 0]
    assert held.over(np.array([], dtype=int)).tolist() == []


def test_a_proposal_asks_for_anchors_only_where_the_pool_is_short():
    scores = np.linspace(0, 1, 6, dtype=np.float32)
    assert proposal(scores, pool=ALL, total=6, depth=3).anchors is None
    short = proposal(scores, pool=np.array([0, 2]), total=6, depth=3)
    assert short.inside.tolist() == [0, 2] and 5 in short.anchors
