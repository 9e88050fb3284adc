"""`ragstream memory`: the documented JSON, what people see, an answer's facts, and persist off."""

import json
import shlex

import pytest

SAID = "I'm a project finance analyst at Contoso. Every Friday we review the open incidents."
QUESTION = "I work as a locksmith in Basel. How does the exact file lock restrict a prompt?"


@pytest.fixture
def said(data, run):
    code, _, err = run("history", "append", "--session", "s", "--user", SAID, "--assistant", "Ok.")
    assert code == 0, err
    return data


def facts(run, *words):
    code, out, err = run("memory", *words, "--json")
    assert code == 0, err
    return json.loads(out)["facts"]


def test_from_a_scan_to_a_line_and_back(said, run):
    tried = json.loads(run("memory", "scan", "--dry-run", "--json")[1])
    assert (tried["turns"], len(tried["facts"]), tried["dry_run"]) == (1, 2, True)
    assert facts(run, "candidates") == []
    assert [f["target"] for f in facts(run, "scan")] == ["user", "company"]
    assert {f["skipped"] != "" for f in facts(run, "scan")} == {True}
    role, habit = facts(run, "candidates")
    assert role["quote"] in SAID and role["status"] == "candidate"
    assert json.loads(run("memory", "accept", role["id"][-8:], "--json")[1])["status"] == "accepted"
    (line,) = facts(run, "show")
    assert line["text"] == "The user is a project finance analyst at Contoso."
    assert (said / "memory" / "USER_MEMORY.md").read_text() == f"- {line['text']}\n"
    assert run("memory", "edit", role["id"], "The user is an analyst.")[0] == 0
    assert run("memory", "reject", habit["id"])[0] == 0
    assert [f["status"] for f in facts(run, "candidates", "--all")] == ["accepted", "rejected"]
    assert run("memory", "undo", role["id"])[0] == 0
    assert facts(run, "show")[0]["text"] == line["text"]
    assert json.loads(run("memory", "remove", role["id"], "--json")[1]) == {"removed": line["text"]}
    assert facts(run, "show") == []
    assert run("memory", "add", "The company bills in euros.", "--target", "company")[0] == 0
    code, out, err = run("memory", "show")
    assert code == 0 and "The company bills in euros." in out and "user: nothing" in out


def test_a_scan_says_how_a_changed_fact_is_changed(said, run):
    run("memory", "scan")
    later = "Every Monday we review the open incidents."
    run("history", "append", "--session", "s", "--user", later, "--assistant", "Ok.")
    out = run("memory", "scan")[1]
    _, habit = facts(run, "candidates")
    assert f"nearly the same as: {habit['text']}" in out
    command = f"ragstream memory edit {habit['id'][-8:]} '{habit['text'].replace('Fri', 'Mon')}'"
    assert f"if that changed: {command}" in out
    assert run(*shlex.split(command)[1:])[0] == 0
    assert facts(run, "candidates")[1]["text"].endswith("every Monday.")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("accept", "12345678"), 2),
        (("edit", "12345678", "x"), 2),
        (("add", "The door code is 4711."), 3),
        (("add", "x", "--target", "dog"), 2),
        (("remove", "nothing like it"), 2),
        (("scan", "--form", "guess"), 2),
    ],
)
def test_wrong_calls_end_as_they_are_documented(said, run, words, code):
    assert run("memory", *words)[0] == code


def test_an_answer_is_followed_by_a_look_for_facts(indexed, run, monkeypatch, script):
    script({"say": "To the files you inject."})
    assert run("ask", QUESTION, "-p", "manual", "--session", "a")[0] == 0
    assert facts(run, "candidates") == []
    monkeypatch.setenv("RAGSTREAM_FACTS__FORM", "rules")
    monkeypatch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
    assert run("ask", QUESTION, "-p", "manual")[0] == 0
    monkeypatch.delenv("RAGSTREAM_HISTORY__PERSIST")
    assert run("ask", QUESTION, "-p", "manual", "--no-persist")[0] == 0
    assert facts(run, "candidates") == []
    found = json.loads(run("ask", QUESTION, "-p", "manual", "--json")[1])
    assert "1 fact to look at: ragstream memory candidates" in found["warnings"]
    (fact,) = facts(run, "candidates")
    assert fact["text"] == "The user works as a locksmith in Basel."
    (indexed / "memory").chmod(0o500)  # what cannot be written fails no answer
    try:
        assert run("ask", "I work as a diver in Bergen. Which lock?", "-p", "manual")[0] == 0
    finally:
        (indexed / "memory").chmod(0o700)


def test_with_persist_off_nothing_of_memory_is_written(said, run, monkeypatch):
    facts(run, "scan")
    (role, _) = facts(run, "candidates")
    monkeypatch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
    before = {p: p.stat().st_mtime_ns for p in said.rglob("*")}
    assert run("memory", "show")[0] == run("memory", "candidates")[0] == 0
    assert run("memory", "scan", "--dry-run")[0] == 0
    for words in (("accept", role["id"]), ("add", "The user sings."), ("reject", role["id"])):
        code, _, err = run("memory", *words)
        assert code == 3 and "history.persist is off" in err
    assert {p: p.stat().st_mtime_ns for p in said.rglob("*")} == before


def test_backup_and_restore_bring_the_files_back(said, run, tmp_path, monkeypatch):
    facts(run, "scan")
    run("memory", "accept", facts(run, "candidates")[0]["id"])
    mine = said / "memory" / "USER_MEMORY.md"
    mine.write_text(mine.read_text() + "- By hand.\n")
    lines = [row["text"] for row in facts(run, "show")]
    assert run("ingest", "manual")[0] == 0
    assert run("backup", str(tmp_path / "copy"))[0] == 0
    monkeypatch.setenv("RAGSTREAM_DATA_DIR", str(tmp_path / "new"))
    code, _, err = run("restore", str(tmp_path / "copy"))
    assert code == 0, err
    assert [row["text"] for row in facts(run, "show")] == lines
