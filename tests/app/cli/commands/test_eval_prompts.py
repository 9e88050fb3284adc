"""`ragstream eval prompts`: what is measured, printed, written, compared and refused."""

import json

import pytest

from tests.app.model_answers import QUESTION
from tests.workspaces import write_gold

RIGHT = "The Exact File Lock restricts a prompt to the files you inject"
ROWS = (
    {"question": QUESTION, "file": "guide/locks.md", "answer": "the files you inject"},
    {"question": "What is a commit?", "passage": "one transaction", "pattern": "one.transaction"},
    {"question": "Which colour has the moon of Jupiter?", "unanswerable": True},
)


@pytest.fixture
def gold(indexed):
    return write_gold(indexed, *ROWS, project="manual")


def report(run, *words):
    code, out, err = run("eval", "prompts", "manual", *words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_answers_tokens_facts_and_open_issues(gold, run, indexed):
    before = {path for path in indexed.rglob("*") if path.is_file()}
    found = report(run)
    first, second, third = found["questions"]
    assert first["answer_shown"] and first["answer_in_facts"] and first["expected_shown"] == 1
    assert 0 <= first["tokens_before"] < first["tokens"]
    assert 0 < first["relevant_tokens"] <= first["attachment_tokens"] < first["tokens"]
    assert second["answer_shown"] and second["expected_shown"] == 1
    assert (third["answer_shown"], third["unanswerable"], third["facts_relevant"]) == (
        None,
        True,
        0,
    )
    assert third["open_issues"] and third["doubt"] > max(first["doubt"], second["doubt"])
    figures = found["figures"]
    assert (figures["questions"], figures["unanswerable"], figures["auc"]) == (3, 1, 1.0)
    assert figures["answer_shown"] == figures["recall_at_alarms"] == 1.0
    new = {path for path in indexed.rglob("*") if path.is_file()} - before
    assert not any(part in str(path) for path in new for part in ("prompts", "evaluation"))
    assert report(run) == found


def test_the_table_and_what_differs_from_an_earlier_report(gold, run, tmp_path):
    kept = tmp_path / "before.json"
    code, out, err = run("eval", "prompts", "manual", "--out", str(kept))
    assert code == 0, err
    lines = out.splitlines()
    assert any(line.startswith("in facts") and QUESTION[:20] in line for line in lines)
    assert any(line.startswith("not found") and "Jupiter" in line for line in lines)
    assert any("answer shown 1.000" in line for line in lines)
    code, out, err = run("eval", "prompts", "manual", "--compare", str(kept))
    assert code == 0 and out.splitlines()[-1] == "no figure differs from the earlier report"
    fewer = ("--set", "agents.a4=false", "--compare", str(kept))
    code, out, err = run("eval", "prompts", "manual", *fewer)
    told = out.splitlines()
    assert any(line.split()[0] == "facts" for line in told[told.index("then and now:") + 1 :])
    changed = report(run, *fewer)["changes"]
    assert {"facts"} <= {row["figure"] for row in changed}


def test_a_file_of_other_questions(gold, run, tmp_path):
    kept, other = tmp_path / "before.json", tmp_path / "other.jsonl"
    assert run("eval", "prompts", "manual", "--out", str(kept))[0] == 0
    other.write_text(json.dumps(ROWS[1]) + "\n" + json.dumps(ROWS[2]))
    assert report(run, "--gold", str(other), "--limit", "1")["figures"]["questions"] == 1
    code, _, err = run("eval", "prompts", "manual", "--gold", str(other), "--compare", str(kept))
    assert code == 0 and "about other questions" in err


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"question": "?a", "unanswerable": True, "file": "a.md"}, "unanswerable, and yet"),
        ({"question": "?a", "unanswerable": "yes"}, "unanswerable is true or false"),
        ({"question": "?a", "file": "a.md", "pattern": "("}, "is no regular expression"),
        ({"question": "?a"}, "no file and no passage"),
    ],
)
def test_bad_lines_are_named(indexed, run, row, said):
    write_gold(indexed, row, project="manual")
    code, _, err = run("eval", "prompts", "manual")
    assert code == 2 and said in err and "gold.jsonl:1" in err


def test_what_is_no_report_is_refused(gold, run, tmp_path):
    other = tmp_path / "other.json"
    for text in ('{"figures": 1}', "[]", "{", '{"series": "a", "figures": {"tokens": "x"}}'):
        other.write_text(text)
        code, _, err = run("eval", "prompts", "manual", "--compare", str(other))
        assert code == 2 and "is no report" in err
    code, _, err = run("eval", "prompts", "manual", "--compare", str(tmp_path / "none.json"))
    assert code == 2 and "cannot be read" in err


def test_the_gate_asks_no_question_without_an_answer(indexed, run):
    write_gold(indexed, ROWS[2], project="manual")
    code, _, err = run("eval", "gold", "manual")
    assert code == 2 and "no gold questions" in err
    write_gold(indexed, ROWS[0], ROWS[2], project="manual")
    code, out, err = run("eval", "gold", "manual", "--json")
    assert code == 0 and json.loads(out)["questions"] == 1
