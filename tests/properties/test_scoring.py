"""Laws of the scores: a row's number depends on the row, the query and nothing else."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ragstream_core.retrieval.max_sim import max_sim
from ragstream_core.retrieval.scoring import (
    DIGITS,
    exact_cosines,
    log_avg_exp,
    propose,
    row_sum,
    top,
)

scores = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=1, max_dims=1, max_side=12), elements=st.floats(-1, 1)
)
taus = st.floats(0.5, 50)


def unit_rows(seed: int, n: int, d: int = 384) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@given(scores, taus)
def test_log_avg_exp_lies_between_mean_and_max(values, tau):
    value = float(log_avg_exp(values, tau))
    assert values.mean() - 1e-9 <= value <= values.max() + 1e-9
    assert value >= values.max() - np.log(len(values)) / tau - 1e-9


@given(scores, taus, st.floats(-2, 2))
def test_log_avg_exp_moves_with_a_constant(values, tau, constant):
    moved = float(log_avg_exp(values + constant, tau))
    assert abs(moved - float(log_avg_exp(values, tau)) - constant) < 1e-9


@given(scores, taus)
def test_log_avg_exp_does_not_care_about_order_or_repetition(values, tau):
    value = float(log_avg_exp(values, tau))
    assert abs(value - float(log_avg_exp(values[::-1], tau))) < 1e-12
    assert abs(value - float(log_avg_exp(np.concatenate([values, values]), tau))) < 1e-12


@given(scores, taus, st.data())
def test_a_weight_counts_a_score_as_if_it_came_that_often(values, tau, data):
    times = data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values)))
    weights = np.array(times, dtype=np.float64)
    if not weights.any():
        with pytest.raises(ValueError, match="at least one"):
            log_avg_exp(values, tau, weights)
        return
    expected = float(log_avg_exp(np.repeat(values, times), tau))
    assert abs(float(log_avg_exp(values, tau, weights)) - expected) < 1e-9
    assert abs(float(log_avg_exp(values, tau, weights / 3)) - expected) < 1e-9


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_exact_cosines_are_the_same_in_any_subset_block_and_order(seed, data):
    rows, queries = unit_rows(seed, 50), unit_rows(seed + 1, 3)
    whole = exact_cosines(rows, queries)
    picked = data.draw(st.lists(st.integers(0, 49), min_size=1, max_size=60))  # with duplicates
    assert np.array_equal(exact_cosines(rows[picked], queries), whole[picked])
    for row in picked[:3]:
        assert np.array_equal(exact_cosines(rows[row : row + 1], queries), whole[row : row + 1])
    block = data.draw(st.integers(1, 50))
    blocks = [exact_cosines(rows[i : i + block], queries) for i in range(0, 50, block)]
    assert np.array_equal(np.concatenate(blocks), whole)
    column = data.draw(st.integers(0, 2))
    assert np.array_equal(exact_cosines(rows, queries[column : column + 1])[:, 0], whole[:, column])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_a_cosine_between_two_of_six_digits_is_that_of_the_row_alone(seed):
    """Odd multiples of 1/128 end in the middle; what is added moves the last bits of the sum."""
    rng = np.random.default_rng(seed)
    rows, queries = (
        (rng.standard_normal((n, 384)) * 2.0**-28).astype(np.float32) for n in (200, 4)
    )
    rows[:, 0], queries[:, 0] = rng.choice(np.arange(1, 128, 2), 200) / np.float32(128), 1
    alone = [[row_sum(row, query.astype(np.float64)) for query in queries] for row in rows]
    assert np.array_equal(exact_cosines(rows, queries), np.round(alone, DIGITS))


def test_exact_cosines_are_the_same_in_many_threads():
    rows, queries = unit_rows(1, 2_000), unit_rows(2, 4)
    whole, found = exact_cosines(rows, queries), []
    threads = [
        threading.Thread(target=lambda: found.append(exact_cosines(rows, queries)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(np.array_equal(one, whole) for one in found)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60))
def test_what_blas_proposes_holds_the_exact_top(seed, depth):
    rows, queries = unit_rows(seed, 200, 48), unit_rows(seed + 1, 4, 48)
    exact = log_avg_exp(exact_cosines(rows, queries))
    approximate = log_avg_exp(rows @ queries.T)
    best = set(np.argsort(-exact, kind="stable")[:depth].tolist())
    assert best <= set(propose(approximate, depth).tolist())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1, 1).map(lambda x: round(x, 1)) | st.floats(-1, 1), min_size=1),
    st.integers(1, 40),
)
def test_proposed_are_the_best_few_and_what_is_near_the_last_of_them(values, depth):
    scores = np.array(values * 3)
    last = sorted(scores, reverse=True)[min(depth, len(scores)) - 1]
    near = [i for i, s in enumerate(scores) if s >= last - 1e-5 or len(scores) <= depth]
    assert propose(scores, depth).tolist() == near


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from([0.0, -0.0, 0.5, 1.0]))))
def test_the_top_is_ordered_by_score_then_id_then_position(rows):
    ids, scores = [name for name, _ in rows], np.array([score for _, score in rows])
    order = sorted(range(len(rows)), key=lambda i: (-scores[i], ids[i]))
    assert top(ids, scores, 5) == order[:5]
    named = [f"{i:02}" for i in range(len(scores))]
    assert top(None, scores, 5) == top(named, scores, 5)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 12), max_size=4), st.integers(1, 40))
def test_max_sim_gives_a_pair_the_same_score_alone_and_among_others(seed, sizes, t):
    queries = [unit_rows(seed + n, q).astype(np.float16) for n, q in enumerate(sizes)]
    passages = [unit_rows(seed + i, t + i).astype(np.float16) for i in range(1, 5)]
    together = max_sim(queries, passages)
    assert together == [[max_sim([q], [p])[0][0] for p in passages] for q in queries]
    assert [row[::-1] for row in together[::-1]] == max_sim(queries[::-1], passages[::-1])
    assert all(-1 <= score <= 1 for row in together for score in row)
