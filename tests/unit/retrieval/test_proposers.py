"""A store only proposes: the scores are the catalog's, and a doubtful proposal is not used."""

import numpy as np
import pytest

from ragstream_core.retrieval.proposers import narrowed, row_numbers
from ragstream_core.retrieval.rows import rows_of


class View:
    project = "p"

    def __init__(self, n, *, prefix="c", seed=0):
        raw = np.random.default_rng(seed).standard_normal((n, 16))
        self.vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
        self.chunk_ids = [f"{prefix}{i:05}" for i in range(n)]
        self.paths = [f"f{i % 10}.md" for i in range(n)]


class Nearest:
    """The true nearest rows, as an ideal store names them."""

    def __init__(self, *, names=None):
        self.asked = []
        self.names = names

    def near(self, view, queries, n):
        self.asked.append(n)
        if self.names is not None:
            return self.names
        order = np.argsort(-(queries @ view.vectors.T), axis=1)[:, :n]
        return list(order)


QUERIES = View(3, seed=9).vectors


def run(proposer, views, *, pool=None, depth=20):
    rows = rows_of(views)
    every = np.arange(len(rows.ids))
    return narrowed(proposer, rows, QUERIES, pool=every if pool is None else pool, depth=depth)


def best(views, pool, depth):
    """Return the rows that belong to the exact list of each query."""
    vectors = np.concatenate([view.vectors for view in views])[pool]
    order = np.argsort(-(QUERIES @ vectors.T), axis=1)[:, :depth]
    return set(pool[order].ravel().tolist())


def test_the_exact_lists_are_within_what_an_ideal_store_names():
    view = View(2000)
    found = run(Nearest(), [view])
    assert best([view], np.arange(2000), 20) <= set(found.tolist())
    assert len(found) <= 60


def test_without_a_store_every_row_counts():
    assert len(run(None, [View(500)])) == 500


def test_closed_files_are_filtered_and_more_is_asked_for():
    view, proposer = View(4000), Nearest()
    pool = np.array([i for i in range(4000) if i % 10 < 4])
    found = run(proposer, [view], pool=pool)
    assert set(found.tolist()) <= set(pool.tolist())
    assert best([view], pool, 20) <= set(found.tolist())
    assert proposer.asked == [75]  # 20 × 1.5 / 0.4


def test_a_small_pool_is_scored_whole():
    view, proposer = View(4000), Nearest()
    small = np.arange(15)
    assert run(proposer, [view], pool=small) is small
    few = np.arange(40)
    assert run(proposer, [view], pool=few) is few
    assert proposer.asked == []


@pytest.mark.parametrize(
    "named",
    [[[1]] * 3, [[], [], []], [range(50), range(50), []]],
    ids=["too few", "none", "nothing for one query"],
)
def test_a_store_that_names_too_few_is_not_believed(named):
    rows = [np.array(part, dtype=np.int64) for part in named]
    assert len(run(Nearest(names=rows), [View(1000)])) == 1000


def test_ids_become_rows_and_foreign_ones_none():
    view = View(1000)
    assert row_numbers(view.chunk_ids, ["c00007", "unknown", "", "c00999"]).tolist() == [7, 999]
    assert row_numbers(view.chunk_ids, []).dtype == np.int64


def test_a_store_that_cannot_say_is_not_used():
    class Mute:
        def near(self, view, queries, n):
            return None

    assert len(run(Mute(), [View(1000)])) == 1000


def test_several_projects_are_asked_each():
    views = [View(1500, prefix="a"), View(1500, prefix="b", seed=1), View(0, prefix="e")]
    proposer = Nearest()
    found = run(proposer, views)
    assert best(views[:2], np.arange(3000), 20) <= set(found.tolist())
    assert len(proposer.asked) == 2
