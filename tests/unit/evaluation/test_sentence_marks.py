"""Which quoted lines count as whole, and which bind somebody; agreement with labels by hand."""

import json
from pathlib import Path

import pytest

from ragstream_core.evaluation.sentence_marks import is_binding, is_complete

LABELS = Path(__file__).parents[2] / "benchmarks" / "gold" / "sentences.jsonl"


@pytest.mark.parametrize(
    ("text", "heading", "whole"),
    [
        ("The token budget of a prompt is six thousand tokens.", "", True),
        ("theta: 0.25", "", True),
        ("| `auto` | cross-encoder |", "", True),
        ("Embedder: Jina · Key: JINA_API_KEY · Notes: Embeds a text. Needs a key", "", True),
        ("def held(self, *, wait_s: float = 0.0) -> Iterator[None]:", "", True),
        ("`replace_bytes` keeps the old file.", "", True),
        ("The model we have just fitted is the Michaelis-Menten model, so we can use", "", False),
        ("The steps are as follows:", "", False),
        ("and the other one waits.", "", False),
        ("The lock (see the page about locks is held by one.", "", False),
        ("It holds every generation of the index.", "", False),
        ("It holds every generation of the index.", "The catalog", True),
        ("", "", False),
    ],
)
def test_whole_lines(text, heading, whole):
    assert is_complete(text, heading) is whole


@pytest.mark.parametrize(
    ("text", "binds"),
    [
        ("It must never be exceeded.", True),
        ("Attachments take at most four thousand of them.", True),
        ("The option is deprecated.", True),
        ("Only if the file is there, the index is read.", True),
        ("Do not edit the folder.", True),
        ("But in the majority of cases we have to approach it step by step.", False),
        ("He had to leave in 1066.", False),
        ("The maximum of the function lies in the middle.", False),
        ("The catalog is a SQLite database.", False),
    ],
)
def test_lines_that_bind(text, binds):
    assert is_binding(text) is binds


def test_the_rules_agree_with_labels_by_hand():
    rows = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    assert len(rows) >= 200
    whole = [is_complete(row["text"], row["heading"]) == row["complete"] for row in rows]
    binds = [is_binding(row["text"]) == row["binding"] for row in rows]
    assert sum(whole) / len(rows) >= 0.8
    assert sum(binds) / len(rows) >= 0.9
