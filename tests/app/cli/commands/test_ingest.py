"""The quality gate at the command line: exit code 3, the reason, and what got worse."""

import json


def test_a_refused_generation_is_exit_code_3(indexed, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_INGESTION__GOLD_K", "1")
    gold = indexed / "projects" / "manual" / "gold.jsonl"
    gold.parent.mkdir(parents=True)
    gold.write_text('{"question": "What does the lock restrict?", "file": "guide/locks.md"}\n')
    (indexed / "doc_raw" / "manual" / "guide" / "locks.md").write_text("# Soup\n\nAt noon.\n")
    code, out, _ = run("ingest", "manual", "--json")
    found = json.loads(out)
    assert code == 3
    assert (found["committed"], found["generation"]) == (False, 1)
    assert found["changed"]["updated"] == ["guide/locks.md"]
    assert found["refused"].startswith("recall@1 0.000")
    assert found["quality"]["before"]["recall"] == 1
    code, out, _ = run("ingest", "manual")
    assert code == 3 and "refused by the quality gate: recall@1" in out
    assert "guide/locks.md" in out and "the newest stays generation 1" in out


def test_a_bad_gold_line_is_wrong_usage(data, run):
    gold = data / "projects" / "manual" / "gold.jsonl"
    gold.parent.mkdir(parents=True)
    gold.write_text("no json\n")
    code, _, err = run("ingest", "manual")
    assert code == 2 and "gold.jsonl:1: not JSON" in err


def test_status_names_a_project_that_cannot_be_read_and_goes_on(data, run):
    broken = data / "projects" / "shop" / "project.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("rots: []\n")
    code, out, err = run("status")
    assert code == 2 and "manual" in out
    assert "shop:" in err and f"{broken}:1" in err and "project add shop PATH --replace" in err
    code, out, _ = run("status", "--json")
    rows = {row["project"]: row for row in json.loads(out)["projects"]}
    assert code == 2 and rows["shop"]["error"]["type"] == "UsageError"
    assert rows["manual"]["files"] == 0
    assert run("status", "shop")[0] == 2
