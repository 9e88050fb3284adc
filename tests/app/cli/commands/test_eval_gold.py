"""`ragstream eval gold`: the rank of what each gold question expects, and what is refused."""

import json

import pytest

from tests.workspaces import write_gold


@pytest.fixture
def gold(indexed):
    return write_gold(
        indexed,
        {"question": "How does the exact file lock work?", "file": "guide/locks.md"},
        {"question": "Which port?", "files": ["guide/locks.md", "no/such.md"]},
        project="manual",
    )


def test_a_line_an_expected_item_the_worst_first(gold, run):
    code, out, err = run("eval", "gold", "manual")
    assert code == 0, err
    head, *rows, last = out.splitlines()
    assert head.split() == ["rank", "line", "expected", "question"]
    assert rows[0].split()[:3] == ["-", "2", "no/such.md"] and len(rows) == 3
    assert "2 questions" in last and "1 not found" in last


def test_the_same_as_json(gold, run):
    code, out, _ = run("eval", "gold", "manual", "--json")
    found = json.loads(out)
    assert code == 0 and found["missed"] == 1 and found["questions"] == 2
    first, second = found["results"]
    assert first == {
        "line": 1, "question": "How does the exact file lock work?",
        "expected": ["guide/locks.md"], "ranks": [1],
    }  # fmt: skip
    assert second["ranks"][1] == 0
    assert 0.5 <= found["recall"] < 1


def test_without_gold_questions_or_with_a_line_that_is_none(gold, run):
    gold.write_text("{}")
    code, _, err = run("eval", "gold", "manual")
    assert code == 2 and "gold.jsonl:1" in err
    gold.unlink()
    code, _, err = run("eval", "gold", "manual")
    assert code == 2 and "no gold questions" in err and "gold.jsonl" in err
