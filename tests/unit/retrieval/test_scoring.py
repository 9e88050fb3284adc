"""The table of seed 001, and the exact kernels against their definitions."""

import numpy as np
import pytest

from ragstream_core.retrieval.max_sim import max_sim
from ragstream_core.retrieval.scoring import (
    exact_cosines,
    log_avg_exp,
    min_max,
    propose,
    reciprocal_rank,
    scale,
    top,
)

TAUS = (1, 3, 5, 7, 9)
SEED_TABLE = {
    (0.9, 0, 0, 0, 0): (0.2561, 0.4429, 0.5868, 0.6711, 0.7213),
    (0.85,) * 5: (0.8500,) * 5,
    (0.4,) * 5: (0.4000,) * 5,
    (0.9, 0.9, 0, 0, 0): (0.4599, 0.6266, 0.7200, 0.7695, 0.7982),
}


@pytest.mark.parametrize(
    ("scores", "tau", "expected"),
    [(s, t, v) for s, row in SEED_TABLE.items() for t, v in zip(TAUS, row, strict=True)],
)
def test_log_avg_exp_has_the_twenty_values_of_the_seed(scores, tau, expected):
    assert float(log_avg_exp(scores, tau)) == pytest.approx(expected, abs=5e-5)


def test_log_avg_exp_orders_bundles_as_the_seed_decided():
    strong, single, weak = [0.85] * 5, [0.9, 0, 0, 0, 0], [0.4] * 5
    two = [0.9, 0.9, 0, 0, 0]
    value = {
        name: float(log_avg_exp(v))
        for name, v in {"strong": strong, "single": single, "weak": weak, "two": two}.items()
    }
    assert value["strong"] > value["single"] > value["weak"]
    assert value["strong"] > value["two"] > value["weak"]


def test_log_avg_exp_survives_large_scores_and_refuses_none():
    assert float(log_avg_exp([1e6, 1e6])) == pytest.approx(1e6)
    with pytest.raises(ValueError, match="at least one"):
        log_avg_exp([])
    with pytest.raises(ValueError, match="tau"):
        log_avg_exp([0.1], 0)


def test_propose_keeps_everything_near_the_last_place():
    scores = np.array([0.9, 0.5, 0.5 - 5e-6, 0.4, 0.5 + 5e-6])
    assert propose(scores, 2).tolist() == [0, 1, 2, 4]
    assert propose(scores, 9).tolist() == [0, 1, 2, 3, 4]


def test_top_breaks_ties_by_id():
    assert top(["b", "a", "c"], np.array([0.5, 0.5, 0.9]), 2) == [2, 1]


def test_a_flat_list_scales_to_zero_and_the_rest_is_clipped():
    assert scale(np.array([0.4, 0.4]), 0.4, 0.4).tolist() == [0, 0]
    assert scale(np.array([0.0, 0.5, 2.0]), 0.25, 0.75).tolist() == [0, 0.5, 1]
    assert min_max(np.array([])).tolist() == []


def test_reciprocal_rank_counts_only_lists_that_hold_the_candidate():
    assert reciprocal_rank([1, None, 3], 60) == pytest.approx(1 / 61 + 1 / 63)


def test_max_sim_is_the_mean_of_best_cosines():
    query = np.eye(3, dtype=np.float16)[:2]
    passages = [np.eye(3)[:1], np.eye(3), np.zeros((0, 3))]
    assert max_sim([query, np.zeros((0, 3))], passages) == [[0.5, 1.0, 0.0], [0.0] * 3]
    assert max_sim([query], [np.zeros((0, 3))]) == [[0.0]]


def test_exact_cosines_agree_with_float64_matrix_product():
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(40, 384)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected = rows.astype(np.float64) @ rows[:3].astype(np.float64).T
    assert np.allclose(exact_cosines(rows, rows[:3]), expected, atol=1e-6)
