import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.workspace import open_workspace
from tests.unit.conversations.importers import exports
from tests.workspaces import ROOT

SAID = ("--user", "Which port has the page?", "--assistant", "8503.")


def journal(data: Path) -> Journal:
    return Journal(data / "history" / "logs")


def as_json(answer):
    code, out, err = answer
    assert code == 0, err
    return json.loads(out)


@pytest.fixture
def stdin(monkeypatch):
    def give(data: bytes):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


# --- append ---


def test_append_keeps_a_turn_and_says_where(environment, run):
    row = as_json(run("history", "append", "--session", "demo", *SAID, "--json"))
    (entry,) = journal(environment).entries()
    assert (row["id"], row["seq"], row["session"]) == (entry.record.id, 1, "demo")
    code, out, _ = run("history", "append", "--session", "demo", *SAID)
    assert (code, "turn 2 of demo" in out) == (0, True)


def test_a_new_session_is_named_by_the_time(environment, run):
    row = as_json(run("history", "append", *SAID, "--json"))
    assert re.fullmatch(r"\d{8}-\d{6}(-\d+)?", row["session"])
    other = as_json(run("history", "append", *SAID, "--json"))
    assert other["session"] != row["session"]


def test_texts_from_stdin_and_files_stay_to_the_letter(environment, run, stdin, tmp_path):
    stdin(b"first\r\n\n  second\t\n")
    (tmp_path / "reply.md").write_bytes("ä\n\n# x\n".encode())
    args = ("--user", "-", "--assistant-file", str(tmp_path / "reply.md"))
    assert run("history", "append", *args)[0] == 0
    (entry,) = journal(environment).entries()
    assert entry.record.user_text == "first\r\n\n  second\t"
    assert entry.record.assistant_text == "ä\n\n# x"


@pytest.mark.parametrize(
    "words",
    [
        ("--user", ""), ("--user", "-", "--assistant", "-"), ("--session", "../x", *SAID),
        ("--user", "x", "--user-file", "y"), ("--assistant-file", "missing.md"),
        ("--answers", "abcdef", *SAID), ("--importance", "2", *SAID), ("--tag", "a,b", *SAID),
        ("--external", "--assistant", "alone"), ("--external", "--answers", "abcdef", *SAID),
    ],
)  # fmt: skip
def test_a_wrong_call_writes_nothing(environment, run, stdin, words):
    stdin(b"")
    code, out, err = run("history", "append", *words)
    assert (code, out) == (2, "")
    assert "error" in err.lower()
    assert not (environment / "history").exists()


def test_bytes_that_are_no_text_are_refused(environment, run, stdin):
    stdin(b"\xff\xfe")
    code, _, err = run("history", "append", "--user", "-")
    assert (code, "stdin cannot be read" in err) == (2, True)
    assert run("history", "append", "--user", "\udcff")[0] == 2


def test_persist_off_is_a_refusal(environment, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
    code, _, err = run("history", "append", *SAID)
    assert (code, "history.persist" in err) == (3, True)
    assert not (environment / "history").exists()


def test_killed_after_its_word_the_turn_is_there(environment, tmp_path):
    """Exit 0 comes after the sync: whatever happens next, the turn is read."""
    command = [sys.executable, "-m", "ragstream_app.cli.main", "history", "append", *SAID, "--json"]
    root = str(ROOT)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        env={"PATH": "/usr/bin", "RAGSTREAM_DATA_DIR": str(environment), "PYTHONPATH": root},
    )  # fmt: skip
    line = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    rest = line + process.stdout.read()
    process.wait()
    assert json.loads(rest)["id"] == next(journal(environment).entries()).record.id


def test_what_was_healed_is_told(environment, run):
    run("history", "append", "--session", "demo", *SAID)
    path = environment / "history" / "logs" / "conversation.log"
    path.write_bytes(path.read_bytes() + b'{"v":1,"se')
    code, _, err = run("history", "append", "--session", "demo", *SAID)
    assert (code, "never acknowledged" in err) == (0, True)


# --- external replies ---


def test_an_external_reply_is_checked_against_its_prompt(indexed, run):
    made = as_json(run("prompt", "What does the Exact File Lock do?", "-p", "manual", "--json"))
    key = made["prompt_key"]
    before = list(journal(indexed).entries())
    issued = re.findall(r'<<DOC \d+ [0-9a-f]+ id="([0-9a-f]+)"', made["super_prompt"])
    reply = (
        f"It restricts [source: locks.md, chunk: {issued[0]}] and "
        "[source: locks.md, chunk: 0badc0de00] too."
    )
    row = as_json(
        run("history", "append", "--session", "demo", "--external", "--answers", key[:8],
            "--assistant", reply, "--json")
    )  # fmt: skip
    (entry,) = [e for e in journal(indexed).entries() if e not in before]
    assert row["unknown_citations"] == ["[source: locks.md, chunk: 0badc0de00]"]
    assert entry.record.source == "external"
    assert entry.record.prompt_key == key
    assert entry.record.user_text == "What does the Exact File Lock do?"
    assert [(c["id"], c["known"]) for c in entry.record.citations] == [
        (issued[0], True), ("0badc0de00", False)
    ]  # fmt: skip


def test_a_reply_joins_the_conversation_of_its_prompt(indexed, run):
    question = ("prompt", "What does the Exact File Lock do?", "-p", "manual", "--json")
    run("history", "append", "--session", "team", *SAID)
    key = as_json(run(*question, "--session", "team"))["prompt_key"]
    reply = ("--external", "--answers", key[:8], "--assistant", "It restricts.", "--json")
    assert as_json(run("history", "append", *reply))["session"] == "team"
    assert as_json(run("history", "append", "--session", "own", *reply))["session"] == "own"


def test_a_lost_rendering_is_made_again(indexed, run):
    made = as_json(run("prompt", "What does the Exact File Lock do?", "-p", "manual", "--json"))
    path = indexed / "prompts" / made["prompt_key"] / "super_prompt.md"
    (issued, *_) = re.findall(r'<<DOC \d+ [0-9a-f]+ id="([0-9a-f]+)"', made["super_prompt"])
    path.write_text(path.read_text() + '\n<<DOC 9 abcdefabcdef id="f0f0f0f0" source="x">>\n')
    reply = f"[source: locks.md, chunk: {issued}] [source: x, chunk: f0f0f0f0]"
    args = ("--external", "--answers", made["prompt_key"], "--assistant", reply, "--json")
    row = as_json(run("history", "append", *args))
    assert row["unknown_citations"] == ["[source: x, chunk: f0f0f0f0]"]


# --- show, sessions, tag ---


def test_show_sessions_and_tags(environment, run):
    run("history", "append", "--session", "one", *SAID, "--tag", "gold", "-p", "handbook")
    run("history", "append", "--session", "two", "--user", "q\x1b[31m\nr", "--assistant", "a")
    rows = as_json(run("history", "show", "--all", "--json"))["turns"]
    assert [(r["seq"], r["session_id"], r["tags"]) for r in rows] == [
        (1, "one", ["GOLD"]), (2, "two", [])
    ]  # fmt: skip
    assert rows[0]["projects"] == ["handbook"]
    assert [r["seq"] for r in as_json(run("history", "show", "--json"))["turns"]] == [2]
    found = as_json(run("history", "show", "--session", "one", "--json"))["turns"]
    assert [r["seq"] for r in found] == [1]
    _, out, _ = run("history", "show", "--all")
    assert "\x1b" not in out
    assert "    r\n" in out
    assert as_json(run("history", "tag", "1", "--remove", "GOLD", "--add", "x", "--json"))[
        "tags"
    ] == ["x"]
    assert as_json(run("history", "show", "--all", "--tag", "x", "--json"))["turns"][0]["seq"] == 1
    names = [r["session_id"] for r in as_json(run("history", "sessions", "--json"))["sessions"]]
    assert names == ["one", "two"]
    assert run("history", "tag", "9", "--add", "x")[0] == 2
    assert run("history", "tag", "1")[0] == 2


def test_nothing_kept_is_no_error(environment, run):
    assert as_json(run("history", "show", "--json")) == {"turns": []}
    assert as_json(run("history", "sessions", "--json")) == {"sessions": []}
    assert run("history", "export")[:2] == (0, "")
    assert not (environment / "history").exists()


# --- export, import ---


def test_export_and_import_round_trip(environment, run, stdin, tmp_path):
    run("history", "append", "--session", "demo", *SAID)
    run("history", "tag", "1", "--add", "GOLD")
    file = tmp_path / "out.jsonl"
    assert as_json(run("history", "export", "--out", str(file), "--json"))["records"] == 2
    assert file.stat().st_mode & 0o077 == 0
    assert run("history", "export", "--out", str(file))[0] == 3
    assert run("history", "export", "--out", str(file), "--force")[0] == 0
    other = str(tmp_path / "other")
    assert as_json(run("--data", other, "history", "import", str(file), "--json"))["added"] == 2
    stdin(file.read_bytes())
    again = as_json(run("--data", other, "history", "import", "-", "--json"))
    assert (again["added"], again["skipped"]) == (0, 2)
    assert run("--data", other, "history", "export")[1] == file.read_text()
    assert "# demo" in run("history", "export", "--format", "md")[1]
    words = ["history", "export", "--format", "md", "--out", str(tmp_path / "t.md"), "--json"]
    assert as_json(run(*words))["records"] == 1
    assert run("history", "export", "--format", "pdf")[0] == 2
    assert run("history", "import", str(tmp_path / "missing"))[0] == 2
    file.write_text(file.read_text().replace("8503", "8504"))
    assert run("history", "import", str(file))[0] == 3


# --- embed, check, clear ---


def test_embed_check_and_clear(environment, run):
    for n in range(3):
        run("history", "append", "--session", f"s{n % 2}", "--user", f"canary{n}", *SAID[2:])
    assert as_json(run("history", "check", "--json"))["status"]["pending"] == 3
    assert as_json(run("history", "embed", "--json"))["turns"] == 3
    assert as_json(run("history", "backfill", "--json"))["embedded"] == 0
    checked = as_json(run("history", "check", "--read-data", "1/1", "--json"))
    assert (checked["findings"], checked["status"]["pending"]) == ([], 0)

    assert run("history", "clear", "--session", "s1")[0] == 2  # nobody is there to ask
    assert as_json(run("history", "clear", "--session", "s1", "--dry-run", "--json"))["turns"] == 1
    assert len(list(journal(environment).entries())) == 3
    assert as_json(run("history", "clear", "--session", "s1", "--yes", "--json"))["turns"] == 1
    left = as_json(run("history", "show", "--all", "--json"))["turns"]
    assert [r["user_text"] for r in left] == ["canary0", "canary2"]
    for path in environment.rglob("*"):
        assert not path.is_file() or b"canary1" not in path.read_bytes(), path
    assert run("history", "check")[0] == 0
    assert run("history", "backfill", "2026-10", "--rebuild")[0] == 2


def test_check_names_damage(environment, run):
    for _ in range(2):
        run("history", "append", "--session", "demo", *SAID)
    path = environment / "history" / "logs" / "conversation.log"
    path.write_bytes(path.read_bytes().replace(b"8503", b"8504", 1))
    code, out, _ = run("history", "check", "--json")
    assert code == 3
    found = json.loads(out)["findings"]
    assert any(row["check"] == "journal" and "conversation.log" in row["message"] for row in found)


def test_append_starts_without_heavy_imports(environment, tmp_path):
    code = (
        "import sys; from ragstream_app.cli.main import main; "
        "assert main(['history', 'append', '--user', 'q', '--assistant', 'a']) == 0; "
        "assert main(['history', 'show', '--all']) == 0; "
        "heavy = {'torch', 'chromadb', 'dagster', 'pandas', 'pyarrow', 'numpy'}; "
        "assert heavy.isdisjoint(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
        env={"PATH": "/usr/bin", "RAGSTREAM_DATA_DIR": str(environment),
             "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# --- titles, beginnings of names, search ---


def told(environment, session, when, user, assistant, **imported):
    turn = Turn("", session, when, user, assistant, imported=tuple(imported.items()))
    append_turn(open_workspace(environment), turn)


@pytest.fixture
def talks(environment):
    told(
        environment,
        "chatgpt-20250418-01f9b0d0",
        "2026-04-18T10:00:00+00:00",
        "Lowest gear?",
        "The lowest gear is 24 to 34.\nBuy a chain.",
        title="Bike gearing",
    )
    told(environment, "b", "2025-01-02T10:00:00+00:00", "Which flour for bread?", "Rye flour.")
    return environment


def test_sessions_have_titles_in_columns_the_newest_last(talks, run):
    code, out, _ = run("history", "sessions")
    first, last = out.splitlines()
    assert code == 0 and first.startswith("b ") and last.endswith("Bike gearing")
    assert first.index("2025-01-02") == last.index("2026-04-18")
    rows = as_json(run("history", "sessions", "--json"))["sessions"]
    assert [row["title"] for row in rows] == ["Which flour for bread?", "Bike gearing"]
    assert "newest last" in " ".join(run("history", "sessions", "--help")[1].split())


def test_show_takes_the_beginning_of_a_name_that_one_alone_has(talks, run):
    rows = as_json(run("history", "show", "--session", "chatgpt-2025", "--json"))["turns"]
    assert [row["user_text"] for row in rows] == ["Lowest gear?"]
    told(talks, "chatgpt-20250418-ffffffff", "2025-04-18T10:00:00+00:00", "And?", "No.")
    code, _, err = run("history", "show", "--session", "chatgpt-2025")
    assert code == 2 and "2 conversations begin with" in err and "ffffffff" in err
    code, _, err = run("history", "show", "--session", "nope")
    assert code == 2 and "no conversation 'nope'" in err and "history sessions" in err


def test_search_finds_turns_with_titles_dates_and_their_best_lines(talks, run):
    code, out, _ = run("history", "search", "lowest gear of the bike")
    assert code == 0 and "2026-04-18  Bike gearing" in out
    assert "assistant: The lowest gear is 24 to 34." in out and "chain" not in out
    (row,) = as_json(run("history", "search", "lowest gear", "--json"))["turns"]
    assert (row["title"], row["session_id"]) == ("Bike gearing", "chatgpt-20250418-01f9b0d0")
    assert row["lines"] == ["user: Lowest gear?", "assistant: The lowest gear is 24 to 34."]
    assert row["score"] > 0
    code, out, err = run("history", "search", "zeppelin")
    assert (code, out) == (0, "") and "no turn has these words" in err
    assert run("history", "search", "?!")[0] == 2


def test_an_import_says_and_takes_where_it_is_used(environment, run, tmp_path):
    path = exports.write_json(tmp_path / "x" / "conversations.json", [exports.two_turns("c-1")])
    (environment / "doc_raw" / "pumps").mkdir(parents=True)
    code, out, _ = run("history", "import", str(path))
    assert code == 0 and "in no project's prompts until you bring them into one" in out
    path = exports.write_json(tmp_path / "x" / "conversations.json", [exports.two_turns("c-2")])
    row = as_json(run("history", "import", str(path), "--use-in", "pumps", "--json"))
    assert row["used_in"] == ["pumps"]


def test_without_a_project_prompts_and_answers_come_from_conversations(talks, run):
    assert run("history", "embed")[0] == 0
    code, out, _ = run("prompt", "What is the lowest gear of the bike?")
    assert code == 0 and "Answered in a conversation of 18 April 2026" in out
    code, out, _ = run("ask", "What is the lowest gear of the bike?")
    assert code == 0 and "The lowest gear is 24 to 34." in out
    assert "[history/chatgpt-20250418-01f9b0d0/1]" in out
