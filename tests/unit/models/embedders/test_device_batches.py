"""Batches of one shape a length: a vector depends on its own text, or texts are run one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.models.embedders.sentence_transformers import ROWS, STEP, DeviceBatches

TEXTS = st.lists(
    st.lists(st.integers(1, 99), min_size=1, max_size=90).map(tuple), min_size=1, max_size=150
)


class Card:
    """Sums the ids of each row; ``disturbed`` adds a bit that depends on the other rows."""

    def __init__(self, disturbed=None):
        self.disturbed = disturbed or (lambda ids: np.zeros(len(ids)))
        self.shapes = set()

    def __call__(self, ids, mask):
        self.shapes.add(ids.shape)
        assert ids.shape == mask.shape and not (ids * (1 - mask)).any()
        near = np.stack([(ids * mask).sum(axis=1), mask.sum(axis=1)], axis=1)
        return (near + self.disturbed(ids)[:, np.newaxis]).astype(np.float32)


def batches(card, longest=96):
    return DeviceBatches(card, pad=0, longest=longest)


@given(TEXTS, st.randoms(use_true_random=False))
def test_each_text_has_its_own_vector_in_any_order_and_company(texts, chance):
    card = Card()
    made = batches(card)
    found = made.vectors(texts)
    assert found.tolist() == [[sum(text), len(text)] for text in texts]
    order = list(range(len(texts)))
    chance.shuffle(order)
    for at in order[:5]:
        assert made.vectors([texts[at]])[0].tolist() == found[at].tolist()


@given(TEXTS)
def test_a_length_has_one_shape(texts):
    card = Card()
    batches(card).vectors(texts)
    assert {rows for rows, _ in card.shapes} == {ROWS}
    lengths = [length for _, length in card.shapes]
    assert len(lengths) == len(set(lengths))
    assert all(length % STEP == 0 or length == 96 for length in lengths)


def test_the_longest_text_is_not_padded_beyond_what_the_model_reads():
    card = Card()
    batches(card, longest=70).vectors([tuple(range(1, 70))])
    assert {length for _, length in card.shapes} == {70}


@pytest.mark.parametrize(
    ("length", "rows"),
    [(320, 51), (416, 39), (512, 32), (960, 17), (5_000, 3), (8_192, 1), (20_000, 1)],
)
def test_long_texts_are_fewer_a_batch(length, rows):
    card = Card()
    made = batches(card, longest=length)
    made.vectors([tuple(range(1, length + 1))] * 5)
    assert card.shapes == {(rows, length)}


@given(TEXTS)
def test_some_row_of_several_is_always_padded(texts):
    """Models leave the mask out if nothing is padded, and then compute in another way."""

    def run(ids, mask):
        assert len(mask) == 1 or not mask.all()
        return np.ones((len(ids), 2), dtype=np.float32)

    full = [text * 96 for text in texts]
    batches(run).vectors([*texts, *(text[:96] for text in full)])
    batches(run).vectors([text[:96] for text in full])


def test_a_text_of_no_tokens_is_run_as_well():
    assert batches(Card()).vectors([()]).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    "disturbed",
    [
        lambda ids: np.arange(len(ids)) * 1e-3,  # its place
        lambda ids: np.full(len(ids), ids.sum() % 7) * 1e-3,  # the company
        lambda ids: np.full(len(ids), len(np.unique(ids, axis=0))) * 1e-3,  # how full it is
    ],
)
def test_texts_run_one_by_one_if_their_bits_depend_on_something_else(disturbed):
    card = Card(lambda ids: disturbed(ids) if len(ids) > 1 else np.zeros(1))
    made = batches(card)
    texts = [tuple(range(n, n + 5)) for n in range(1, 40)]
    assert made.vectors(texts).tolist() == [[sum(text), 5] for text in texts]
    card.shapes.clear()
    made.vectors(texts)
    assert card.shapes == {(1, STEP)}


def test_only_the_length_that_depends_on_it_is_run_one_by_one():
    def disturbed(ids):
        return np.arange(len(ids)) * 1e-3 * (ids.shape[1] == STEP)

    card = Card(disturbed)
    made = batches(card)
    made.vectors([(1, 2, 3), tuple(range(1, 50))])
    card.shapes.clear()
    made.vectors([(1, 2, 3), tuple(range(1, 50))])
    assert card.shapes == {(1, STEP), (ROWS, 2 * STEP)}
