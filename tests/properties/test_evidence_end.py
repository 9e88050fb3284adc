"""Laws of the end of the evidence: shares, ranks, and what is always shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.context.evidence_end import (
    ALWAYS,
    ENOUGH,
    beyond_evidence,
    is_one_question,
    shares,
)

NUMBERS = st.integers(0, 20).map(lambda n: n / 20)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12)


def ended(rows):
    ids = [f"c{n}" for n in range(len(rows))]
    reranked = {i: row[0] for i, row in zip(ids, rows, strict=True)}
    return ids, beyond_evidence(ids, reranked, {i: r[1] for i, r in zip(ids, rows, strict=True)})


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=12), st.floats(-5, 5))
def test_shares_are_parts_of_one_and_only_differences_count(strengths, shift):
    found = shares(strengths)
    assert all(0 <= share <= 1 for share in found) and sum(found) == pytest.approx(1)
    assert shares([s + shift for s in strengths]) == pytest.approx(found)


@given(ROWS)
def test_what_lies_behind_is_the_tail_and_enough_stands_before_it(rows):
    ids, beyond = ended(rows)
    kept = [i for i in ids if i not in beyond]
    assert [*kept, *beyond] == ids and len(kept) >= min(ALWAYS, len(ids))
    assert all(found.before >= ENOUGH and 0 <= found.own <= 1 for found in beyond.values())
    befores = [found.before for found in beyond.values()]
    assert befores == sorted(befores)


@given(ROWS, st.tuples(NUMBERS, NUMBERS))
def test_another_candidate_behind_never_takes_one_away(rows, more):
    ids, beyond = ended(rows)
    _, longer = ended([*rows, more])
    assert [i for i in ids if i not in beyond] == [i for i in ids if i not in longer][
        : len(ids) - len(beyond)
    ]


def test_one_clear_winner_ends_it_early_and_equals_do_not():
    assert len(ended([(1.0, 1.0)] + [(0.1, 0.5)] * 9)[1]) == 8
    assert not ended([(0.5, 0.8)] * 9)[1]


@pytest.mark.parametrize(
    ("pieces", "single"),
    [
        (["How long are logs kept?"], True),
        (["日志保存多久？"], True),
        (["Explain how logs are kept."], False),
        (["What is kept? For how long?"], False),
        (["What is kept?", "For how long?"], False),
        ([], False),
    ],
)
def test_only_a_single_question_has_an_end(pieces, single):
    assert is_one_question(pieces) is single
