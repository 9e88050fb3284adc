"""Laws of AUC and of recall at a share of false alarms, and of figures over many prompts."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.evaluation.prompt_quality import (
    WORDS,
    PromptMeasure,
    changes,
    figures_of,
    near_copies,
)
from ragstream_core.evaluation.separation import auc, recall_at

SCORES = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=10)
SHARES = st.floats(0, 1)


@given(SCORES, SCORES)
def test_auc_is_a_chance_and_swapping_the_groups_turns_it_round(positives, negatives):
    found = auc(positives, negatives)
    assert 0 <= found <= 1
    assert auc(negatives, positives) == pytest.approx(1 - found, abs=1.5e-4)
    pairs = [(p > n) + (p == n) / 2 for p in positives for n in negatives]
    assert found == pytest.approx(sum(pairs) / len(pairs), abs=1.5e-4)
    assert auc(positives, positives) == 0.5


@given(SCORES, SCORES, SHARES, SHARES)
def test_recall_never_falls_when_more_alarms_are_allowed(positives, negatives, one, other):
    less, more = sorted((one, other))
    assert 0 <= recall_at(positives, negatives, less) <= recall_at(positives, negatives, more) <= 1
    assert recall_at(positives, negatives, 1.0) == 1.0


@given(SCORES, SCORES, SHARES)
def test_only_the_order_of_scores_counts(positives, negatives, allowed):
    moved = [[3 * s + 7 for s in group] for group in (positives, negatives)]
    assert auc(*moved) == auc(positives, negatives)
    assert recall_at(*moved, allowed) == recall_at(positives, negatives, allowed)


def test_an_empty_group_has_no_figure():
    assert auc([], [1.0]) is None and auc([1.0], []) is None
    assert recall_at([], [1.0], 0.05) is None


@st.composite
def measures(draw):
    few = st.integers(0, 4)
    no = draw(st.booleans())
    shown = draw(st.booleans()) if not no else None
    facts, limits, expected, tokens = draw(few), draw(few), draw(few), draw(st.integers(0, 500))
    return PromptMeasure(
        line=draw(few), question="?", unanswerable=no, tokens=1000 + tokens,
        tokens_saved=draw(few),
        attachment_tokens=tokens, relevant_tokens=draw(st.integers(0, tokens)), passages=draw(few),
        copies=draw(few), expected=expected, expected_shown=draw(st.integers(0, expected)),
        answer_shown=shown, answer_in_facts=shown and draw(st.booleans()),
        tokens_before=draw(few) if shown else None, facts=facts,
        facts_relevant=draw(st.integers(0, facts)), facts_complete=draw(st.integers(0, facts)),
        fact_copies=draw(st.integers(0, facts)), constraints=limits,
        constraints_binding=draw(st.integers(0, limits)), open_issues=draw(few),
        word=draw(st.sampled_from(WORDS)), doubt=draw(SHARES),
    )  # fmt: skip


SHARED = (
    "answer_shown", "answer_in_facts", "expected_shown", "relevant_share", "facts_relevant",
    "facts_complete", "constraints_binding", "issues_unanswerable", "issues_answerable",
    "not_found_unanswerable", "not_found_answerable", "perhaps_unanswerable",
    "perhaps_answerable", "auc", "recall_at_alarms",
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(measures(), max_size=8), st.randoms())
def test_figures_lie_in_range_and_do_not_depend_on_the_order(rows, random):
    found = figures_of(rows)
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert figures_of(shuffled) == found
    shares = [getattr(found, name) for name in SHARED]
    assert all(share is None or 0 <= share <= 1 for share in shares)
    if found.answer_in_facts is not None:
        assert found.answer_in_facts <= found.answer_shown
    assert figures_of([*rows, *rows]).questions == 2 * found.questions
    assert changes(found.to_json(), found) == []


@given(st.lists(measures(), min_size=1, max_size=6))
def test_a_change_is_named_with_both_values(rows):
    longer = [dataclasses.replace(row, tokens=row.tokens + 10) for row in rows]
    now = figures_of(longer)
    assert [name for name, *_ in changes(figures_of(rows).to_json(), now)] == ["tokens"]


@given(st.lists(st.text(alphabet="ab cd", max_size=60), max_size=6))
def test_repeating_texts_adds_as_many_copies(texts):
    assert 0 <= near_copies(texts) < max(1, len(texts))
    assert near_copies([*texts, *texts]) == near_copies(texts) + len(texts)
