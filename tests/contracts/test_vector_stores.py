"""What every vector store does alike; exact NumPy search is the oracle.

A new backend joins by a line in ``STORES``. Exact stores return the oracle's ids and scores.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.errors import DuplicateId
from ragstream_core.stores.exact import ExactStore

DIMENSION = 16
STORES = {"exact": lambda: ExactStore(DIMENSION)}


@pytest.fixture(params=sorted(STORES))
def store(request):
    return STORES[request.param]()


def unit(n, seed=0):
    raw = np.random.default_rng(seed).standard_normal((n, DIMENSION))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def oracle(ids, rows, query, k):
    scores = np.round((rows.astype(np.float64) * query.astype(np.float64)).sum(axis=1), 6)
    order = sorted(range(len(ids)), key=lambda i: (-scores[i], ids[i]))[:k]
    return [(ids[i], scores[i]) for i in order]


def agree(found, wanted):
    assert [i for i, _ in found] == [i for i, _ in wanted]
    assert np.allclose([s for _, s in found], [s for _, s in wanted], atol=1e-5)


@pytest.mark.parametrize("k", [1, 5, 50, 1000])
def test_search_equals_the_oracle(store, k):
    ids, rows = [f"id{i:04}" for i in range(300)], unit(300)
    store.add(ids, rows)
    for query in unit(10, seed=1):
        agree(store.search(query, k), oracle(ids, rows, query, k))


def test_every_row_finds_itself(store):
    ids, rows = [f"{i}" for i in range(100)], unit(100)
    store.add(ids, rows)
    for identifier, row in zip(ids, rows, strict=True):
        found, score = store.search(row, 1)[0]
        assert found == identifier
        assert score == pytest.approx(1.0, abs=1e-5)


def test_ties_are_ordered_by_id(store):
    row = unit(1)
    store.add(["c", "a", "b"], np.repeat(row, 3, axis=0))
    assert [i for i, _ in store.search(row[0], 2)] == ["a", "b"]


def test_add_refuses_a_live_id_and_adds_nothing(store):
    store.add(["a"], unit(1))
    with pytest.raises(DuplicateId):
        store.add(["b", "a"], unit(2))
    with pytest.raises(DuplicateId):
        store.add(["c", "c"], unit(2))
    assert store.ids() == ["a"]


def test_a_deleted_row_is_never_found_and_its_id_is_free(store):
    rows = unit(3)
    store.add(["a", "b", "c"], rows)
    store.delete(["b", "unknown"])
    assert store.ids() == ["a", "c"]
    assert "b" not in [i for i, _ in store.search(rows[1], 10)]
    store.add(["b"], rows[1:2])
    assert store.search(rows[1], 1)[0][0] == "b"


def test_an_empty_store_and_k_zero_find_nothing(store):
    assert store.search(unit(1)[0], 5) == []
    store.add([], unit(0))
    store.add(["a"], unit(1))
    assert store.search(unit(1)[0], 0) == []
    store.delete(["a"])
    assert store.ids() == []


def test_the_scores_do_not_depend_on_what_else_is_stored(store):
    rows, query = unit(200), unit(1, seed=9)[0]
    store.add([f"{i:03}" for i in range(200)], rows)
    before = dict(store.search(query, 200))
    store.delete([f"{i:03}" for i in range(0, 200, 3)])
    after = dict(store.search(query, 200))
    assert all(before[identifier] == score for identifier, score in after.items())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 20))), max_size=8))
def test_any_sequence_of_adds_and_deletes(steps):
    pool = unit(21)
    for make in STORES.values():
        store, live = make(), set()
        for adding, numbers in steps:
            chosen = sorted(numbers - live if adding else numbers)
            ids = [f"{n:02}" for n in chosen]
            if adding:
                store.add(ids, pool[chosen])
                live |= set(chosen)
            else:
                store.delete(ids)
                live -= set(chosen)
            names = [f"{n:02}" for n in sorted(live)]
            assert store.ids() == names
            wanted = oracle(names, pool[sorted(live)], pool[3], 5)
            agree(store.search(pool[3], 5), wanted)
