"""What each strictness of the answer cache lets through, measured with the real model."""

from pathlib import Path

import pytest

from ragstream_core.conversations.question_match import asks_the_same, stands_alone

LABELLED = Path(__file__).parents[1] / "services" / "memory" / "paraphrases.tsv"
PAIRS = [line.split("\t") for line in LABELLED.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def cosines(onnx_embedder):
    one, other = (onnx_embedder.embed_queries([row[at] for row in PAIRS]) for at in (1, 2))
    return (one * other).sum(axis=1)


def given_again(cosines, match, least):
    """How many pairs of each label one answer would serve."""
    found = [
        label
        for (label, one, other), cosine in zip(PAIRS, cosines, strict=True)
        if cosine >= least
        and stands_alone(one)
        and stands_alone(other)
        and asks_the_same(one, other, match)
    ]
    return found.count("same"), found.count("other")


def test_the_pairs_are_what_the_decision_counts():
    labels = [row[0] for row in PAIRS]
    assert (labels.count("same"), labels.count("other")) == (35, 49)


@pytest.mark.parametrize(
    ("match", "least", "same", "other"),
    [
        ("words", 0.0, 0, 0),
        ("paraphrase", 0.85, 7, 1),
        ("paraphrase", 0.9, 6, 0),
        ("paraphrase", 0.95, 2, 0),
        ("score", 0.9, 17, 13),
        ("score", 0.95, 8, 7),
    ],
)
def test_what_each_strictness_risks_is_as_documented(cosines, match, least, same, other):
    assert given_again(cosines, match, least) == (same, other)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("How do I install it?", "What are the steps to install it?", True),
        ("Which files are ingested?", "Which files are not ingested?", False),
        ("How are pieces cut?", "How are 5 pieces cut?", False),
        ("How do I set top_k?", "How do I set top_k of rerank.top_k?", False),
        ("How do I read the log?", "How do I write the log?", False),
        ("From Markdown to HTML?", "From HTML to Markdown?", False),
    ],
)
def test_a_paraphrase_adds_nothing_that_turns_the_question(one, other, is_same):
    assert asks_the_same(one, other, "paraphrase") is is_same
    assert asks_the_same(other, one, "paraphrase") is is_same
    assert asks_the_same(one, one, "paraphrase")
