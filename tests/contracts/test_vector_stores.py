"""What every vector store does alike; exact NumPy search is the oracle.

A new backend joins by a line in ``STORES``; one by an import path does as well.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.errors import DuplicateId, ModelMismatch
from ragstream_core.proposers.plain import StoreOptions, create_vector_store

DIMENSION = 16
STORES = ("exact", "faiss", f"{__name__}:Toy")
PERSISTENT = ("faiss",)


class Toy:
    """A store as a person may write one."""

    def __init__(self, dimension):
        self._rows = {}
        self._dimension = dimension

    def add(self, ids, vectors):
        if vectors.shape != (len(ids), self._dimension):
            raise ValueError("shape")
        if len({*ids}) < len(ids) or self._rows.keys() & {*ids}:
            raise DuplicateId("there already")
        self._rows |= dict(zip(ids, vectors, strict=True))

    def delete(self, ids):
        for identifier in ids:
            self._rows.pop(identifier, None)

    def search(self, query, k):
        ids = self.ids()
        return oracle(ids, np.array([self._rows[i] for i in ids]), query, k) if ids else []

    def ids(self):
        return sorted(self._rows)


@pytest.fixture(params=STORES, ids=("exact", "faiss", "toy"))
def backend(request):
    return request.param


@pytest.fixture
def store(backend, tmp_path):
    made = create_vector_store(backend, StoreOptions(tmp_path, DIMENSION))
    yield made
    close(made)


@pytest.fixture(scope="module", params=STORES)
def used(request, tmp_path_factory):
    """One store for many tests: what was deleted before must not show through."""
    folder = tmp_path_factory.mktemp("store")
    made = create_vector_store(request.param, StoreOptions(folder, DIMENSION))
    yield made
    close(made)


@pytest.fixture
def emptied(used):
    used.delete(used.ids())
    return used


def close(store):
    if hasattr(store, "close"):
        store.close()


def unit(n, seed=0, dimension=DIMENSION):
    raw = np.random.default_rng(seed).standard_normal((n, dimension))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def oracle(ids, rows, query, k):
    scores = np.round((rows.astype(np.float64) * query.astype(np.float64)).sum(axis=1), 6)
    order = sorted(range(len(ids)), key=lambda i: (-scores[i], ids[i]))[:k]
    return [(ids[i], scores[i]) for i in order]


def agree(found, wanted):
    assert [i for i, _ in found] == [i for i, _ in wanted]
    assert np.allclose([s for _, s in found], [s for _, s in wanted], atol=1e-5)


def test_search_equals_the_oracle(store):
    ids, rows = [f"id{i:04}" for i in range(300)], unit(300)
    store.add(ids, rows)
    for k in (1, 5, 50, 1000):
        for query in unit(10, seed=1):
            agree(store.search(query, k), oracle(ids, rows, query, k))


def test_every_row_finds_itself(store):
    ids, rows = [f"{i}" for i in range(100)], unit(100)
    store.add(ids, rows)
    for identifier, row in zip(ids, rows, strict=True):
        found, score = store.search(row, 1)[0]
        assert found == identifier
        assert score == pytest.approx(1.0, abs=1e-5)


def test_ties_are_ordered_by_id(emptied):
    row = unit(1)
    emptied.add(["c", "a", "b"], np.repeat(row, 3, axis=0))
    assert [i for i, _ in emptied.search(row[0], 2)] == ["a", "b"]


def test_add_refuses_a_live_id_and_adds_nothing(emptied):
    emptied.add(["a"], unit(1))
    with pytest.raises(DuplicateId):
        emptied.add(["b", "a"], unit(2))
    with pytest.raises(DuplicateId):
        emptied.add(["c", "c"], unit(2))
    with pytest.raises(ValueError, match="shape"):
        emptied.add(["d"], unit(2))
    assert emptied.ids() == ["a"]


def test_a_deleted_row_is_never_found_and_its_id_is_free(emptied):
    rows = unit(3)
    emptied.add(["a", "b", "c"], rows)
    emptied.delete(["b", "unknown"])
    assert emptied.ids() == ["a", "c"]
    assert "b" not in [i for i, _ in emptied.search(rows[1], 10)]
    emptied.add(["b"], rows[1:2])
    assert emptied.search(rows[1], 1)[0][0] == "b"


def test_an_id_that_comes_back_has_its_new_vector(emptied):
    old, new = unit(2)
    emptied.add(["a", "z"], np.stack([old, unit(1, seed=7)[0]]))
    emptied.delete(["a"])
    emptied.add(["a"], new[None, :])
    assert dict(emptied.search(new, 2))["a"] == pytest.approx(1.0, abs=1e-5)


def test_an_empty_store_and_k_zero_find_nothing(emptied):
    assert emptied.search(unit(1)[0], 5) == []
    emptied.add([], unit(0))
    emptied.add(["a"], unit(1))
    assert emptied.search(unit(1)[0], 0) == []
    emptied.delete(["a"])
    assert emptied.ids() == []
    assert emptied.search(unit(1)[0], 5) == []


def test_the_scores_do_not_depend_on_what_else_is_stored(store):
    rows, query = unit(200), unit(1, seed=9)[0]
    store.add([f"{i:03}" for i in range(200)], rows)
    before = dict(store.search(query, 200))
    store.delete([f"{i:03}" for i in range(0, 200, 3)])
    after = dict(store.search(query, 200))
    assert len(after) == 133
    assert all(before[identifier] == score for identifier, score in after.items())


@settings(max_examples=15)
@given(steps=st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 20))), max_size=6))
def test_any_sequence_of_adds_and_deletes(used, steps):
    pool, live = unit(21), set()
    used.delete(used.ids())
    for adding, numbers in steps:
        chosen = sorted(numbers - live if adding else numbers)
        ids = [f"{n:02}" for n in chosen]
        if adding:
            used.add(ids, pool[chosen])
            live |= set(chosen)
        else:
            used.delete(ids)
            live -= set(chosen)
        names = [f"{n:02}" for n in sorted(live)]
        assert used.ids() == names
        wanted = oracle(names, pool[sorted(live)], pool[3], 5)
        agree(used.search(pool[3], 5), wanted)


@pytest.mark.slow
def test_ten_thousand_rows(backend, tmp_path):
    size = 64
    ids, rows = [f"{i:05}" for i in range(10_000)], unit(10_000, dimension=size)
    store = create_vector_store(backend, StoreOptions(tmp_path, size))
    store.add(ids, rows)
    for query in unit(40, seed=4, dimension=size):
        agree(store.search(query, 50), oracle(ids, rows, query, 50))
    close(store)


@pytest.mark.parametrize("backend", PERSISTENT)
def test_a_store_of_another_model_is_refused_with_both_names_and_the_command(backend, tmp_path):
    old = StoreOptions(tmp_path, DIMENSION, embed_fp="1" * 64, model="old-model")
    store = create_vector_store(backend, old)
    store.add(["a"], unit(1))
    if hasattr(store, "save"):
        store.save()
    close(store)
    again = create_vector_store(backend, old)
    assert again.ids() == ["a"]
    close(again)
    for fingerprint, dimension in (("2" * 64, DIMENSION), ("1" * 64, DIMENSION * 2)):
        other = replace(old, dimension=dimension, embed_fp=fingerprint, model="new-model")
        with pytest.raises(ModelMismatch) as caught:
            create_vector_store(backend, other)
        assert {"old-model", "new-model"} <= set(caught.value.message.replace(",", "").split())
        assert "ragstream ingest" in caught.value.hint
