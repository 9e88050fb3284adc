"""Conversations in doctor, du, index check, backup, forget and `history clear`."""

import json

import pytest

from ragstream_core.wiring import erase_turns
from tests.copies import holders
from tests.workspaces import ROOT

CANARY = "The umbrella marzipan cathedral is what the vault is opened with, says Quatermain."


@pytest.fixture
def spoken(indexed, run):
    for n in range(3):
        words = ("history", "append", "--session", f"s{n % 2}", "--user", f"Question {n}?")
        answer = CANARY if n == 1 else f"Answer {n} of the plain ones."
        assert run(*words, "--assistant", answer)[0] == 0
    return indexed


def row(run, name):
    found = json.loads(run("doctor", "--json")[1])
    rows = found["checks"] if isinstance(found, dict) else found
    return next(r for r in rows if r["name"] == name)


def test_doctor_says_how_it_stands(indexed, run, monkeypatch):
    assert row(run, "history")["detail"] == "no conversation yet"
    run("history", "append", "--session", "a", "--user", "Hello?", "--assistant", "Yes.")
    waiting = row(run, "history")
    assert waiting["level"] == "warn" and waiting["next_step"] == "ragstream history embed"
    assert run("history", "embed")[0] == 0
    assert row(run, "history")["level"] == "ok"
    snapshot = indexed / "history" / "vectors" / "history_store.arrow"
    snapshot.write_bytes(snapshot.read_bytes()[:-9])
    broken = row(run, "history")
    assert broken["level"] == "fail" and broken["next_step"] == "ragstream history check"
    monkeypatch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
    assert "nothing of a prompt is kept" in row(run, "history")["detail"]


def test_du_names_the_parts(spoken, run):
    run("history", "embed")
    used = json.loads(run("du", "--json")[1])["history"]
    assert set(used) == {"journal", "index", "selection"} and all(used.values())
    assert "conversations: " in run("du")[1]


def test_index_check_looks_at_them_and_heals_what_is_derived(spoken, run):
    assert run("index", "check")[0] == 0
    run("history", "embed")
    rows = json.loads(run("index", "check", "--read-data", "1/1", "--json")[1])
    assert [r["project"] for r in rows] == ["manual", "~history"] and rows[1]["generation"] == 1
    assert [r["project"] for r in json.loads(run("index", "check", "manual", "--json")[1])] == [
        "manual"
    ]
    (spoken / "history" / "vectors" / "history_store.arrow").unlink()
    code, out, err = run("index", "check")
    assert code == 0 and "conversations: generation 1 is sound" in out and "made again" in err
    log = spoken / "history" / "logs" / "conversation.log"
    log.write_bytes(log.read_bytes().replace(b"Question 1", b"Question 9"))
    code, out, err = run("index", "check")
    assert code == 3 and "conversations: journal: conversation.log" in out


@pytest.mark.parametrize("by", [("index", "check"), ("history", "check"), ("history", "embed")])
def test_a_clearing_that_was_killed_is_finished_by_the_next(spoken, run, monkeypatch, by):
    run("history", "embed")

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(erase_turns.ClearedTurns, "hide", killed)
        assert run("history", "clear", "--session", "s1", "--yes")[0] != 0
    assert len(holders(spoken, "marzipan")) >= 4
    assert run(*by)[0] == 0
    assert holders(spoken, "marzipan") == []
    assert run("index", "check", "--read-data", "1/1")[0] == 0


def test_clear_asks_first_and_says_what_it_did(spoken, run):
    run("history", "embed")
    code, _, err = run("history", "clear", "--session", "s1")
    assert code != 0 and "1 turn " in err and "--yes" in err
    code, out, _ = run("history", "clear", "--session", "s1", "--dry-run")
    assert code == 0 and "would go" in out and len(holders(spoken, "marzipan")) >= 4
    code, out, err = run("history", "clear", "--session", "s1", "--yes", "--archive")
    assert code == 0 and "cleared for good" in out and "out of reach: backups" in err
    (archive,) = holders(spoken, "marzipan")
    assert archive.startswith("history/archive/cleared-2-2-")
    done = json.loads(run("history", "clear", "--all", "--yes", "--json")[1])
    assert (done["turns"], done["sessions"]) == (2, ["s0"])
    assert run("history", "clear", "--yes")[0] != 0
    code, out, err = run("history", "clear", "--session", "nobody")  # nothing to ask about
    assert code == 0 and "0 turns" in out and "ragstream history sessions" in err


def test_summaries_are_listed(spoken, run):
    run("history", "embed")
    code, out, err = run("history", "summaries")
    assert (code, out) == (0, "") and "no summary is published" in err
    assert json.loads(run("history", "summaries", "--json")[1]) == {"summaries": []}


def inactive(run):
    return json.loads(run("history", "show", "--all", "--tag", "INACTIVE", "--json")[1])["turns"]


def test_turns_are_set_aside_brought_back_and_made_anonymous_on_a_word(spoken, run):
    code, _, err = run("history", "clear", "--session", "s1", "--inactive")
    assert code != 0 and "1 turn of s1 would be inactive" in err and "--yes" in err
    for ways in (["--inactive", "--anonymise"], ["--vectors", "--archive"], ["--mask", "x"]):
        code, _, err = run("history", "clear", "--session", "s1", "--yes", *ways)
        assert code != 0 and "next: " in err
    code, out, _ = run("history", "clear", "--session", "s1", "--inactive", "--yes")
    assert code == 0 and "no prompt uses them" in out
    assert len(inactive(run)) == 1
    code, out, _ = run("history", "clear", "--session", "s1", "--vectors", "--yes")
    assert code == 0 and "vectors are deleted" in out
    code, out, _ = run("history", "reactivate", "--session", "s1")
    assert code == 0 and "1 turn of s1 are active again" in out
    assert inactive(run) == []
    assert run("history", "reactivate")[0] != 0
    code, out, _ = run("history", "clear", "--session", "s1", "--anonymise", "--mask",
                       "Quatermain", "--yes")  # fmt: skip
    assert code == 0 and "masked: 1 name" in out
    assert "says [name]" in run("history", "show", "--all")[1]


def test_forget_reports_conversations_and_does_not_touch_them(spoken, run):
    run("history", "embed")
    page = spoken / "doc_raw" / "manual" / "vault.md"
    page.write_text(f"# Vault\n\n{CANARY}\n")
    assert run("ingest", "manual")[0] == 0
    code, out, err = run("forget", "vault.md", "-p", "manual", "--delete", "--json")
    done = json.loads(out)
    assert code == 0 and done["removed"] is not None, err
    assert "history/logs/conversation.log" in done["left"]
    assert all(name.startswith("history/") for name in done["left"])
    assert sorted(holders(spoken, "marzipan")) == sorted(done["left"])
    assert len(json.loads(run("history", "show", "--session", "s1", "--json")[1])["turns"]) == 1
    page.write_text(f"# Vault\n\n{CANARY}\n")
    assert run("ingest", "manual")[0] == 0
    err = run("forget", "vault.md", "-p", "manual", "--delete")[2]
    assert err.count("the same words") == 1 and "ragstream history clear" in err
    assert run("index", "check", "--read-data", "1/1")[0] == 0


def test_backup_and_restore_bring_them_along(spoken, run, tmp_path, monkeypatch):
    run("history", "embed")
    code, out, _ = run("backup", str(tmp_path / "copy"))
    assert code == 0 and "conversations: 3 records" in out
    before = run("history", "show", "--json")[1]
    monkeypatch.setenv("RAGSTREAM_DATA_DIR", str(tmp_path / "new"))
    assert run("restore", str(tmp_path / "copy"))[0] == 0
    assert run("history", "show", "--json")[1] == before
    assert run("index", "check", "--read-data", "1/1")[0] == 0


def test_make_clean_leaves_conversations_and_prompts():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = text.partition("\nclean:")[2].partition("\n\n")[0]
    assert "rm -rf" in recipe and "data/index" in recipe
    assert "data/history" not in recipe and "data/prompts" not in recipe
    assert " data " not in recipe and "data/ " not in recipe
