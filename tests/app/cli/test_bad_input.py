"""Every wrong call names the thing and the next step, has its exit code, and changes nothing."""

import json
import shlex
import sqlite3
import sys
from pathlib import Path

import pytest

QUESTION = "How does the exact file lock restrict a prompt?"


def snapshot(root: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(root)): p.read_bytes()
        for p in sorted(root.rglob("*"))
        if p.is_file() and p.name not in (".lock", ".lock-holder")
    }


def catalog(root: Path) -> Path:
    return root / "index" / "manual" / "catalog.sqlite"


CASES = [
    (["ingest", "manul"], 2, "manul", "did you mean manual"),
    (["ingest", "../manual"], 2, "../manual", "letters, digits"),
    (["status", "nobody"], 2, "nobody", "known: manual"),
    (["prompt", "", "-p", "manual"], 2, "empty", "ragstream prompt"),
    (["prompt", "  …  ", "-p", "manual"], 2, "empty", "ragstream prompt"),
    (["prompt", QUESTION, "-p", "nobody"], 2, "nobody", "project add"),
    (["index", "publish", "nobody", "/nowhere"], 2, "nobody", "known: manual"),
    (["history", "append", "--session", "s"], 2, "a question, an answer", "--user TEXT"),
    (["prompt", QUESTION, "-p", "manual", "--set", "retrieval.topk=3"], 2, "retrieval.topk",
     "retrieval.top_k"),
    (["prompt", QUESTION, "-p", "manual", "--set", "retrieval.top_k=many"], 2, "retrieval.top_k",
     "config show"),
    (["prompt", QUESTION, "-p", "manual", "--set", "nonsense"], 2, "nonsense", "--set"),
    (["prompt", QUESTION, "-p", "manual", "--set", "provider.api_key=sk-1"], 2, "provider.api_key",
     "ragstream.yaml"),
    (["prompt", QUESTION, "-p", "manual", "--set", "dagster.port=1"], 2, "dagster.port",
     "ragstream.yaml"),
    (["prompt", QUESTION, "-p", "manual", "--task", "poetry"], 2, "poetry", "long_form"),
    (["prompt", QUESTION, "-p", "manual", "--through", "a9"], 2, "a9", "retrieval"),
    (["prompt", QUESTION, "-p", "manual", "--file", "nowhere.py"], 2, "nowhere.py", ""),
    (["prompt", QUESTION, "-p", "manual", "--as-of", "99"], 2, "99", ""),
    (["search", "locks", "-p", "manul"], 2, "manul", "did you mean manual"),
    (["search", "?!", "-p", "manual"], 2, "empty", "ragstream search"),
    (["explain", "abcdef123"], 2, "abcdef123", "ragstream status"),
    (["replay", "abcdef123"], 2, "abcdef123", "ragstream status"),
    (["ingest", "manual", "--verify", "--rebuild"], 2, "--rebuild", ""),
    (["eval", "retrieval", "--corpus", "no.jsonl", "--queries", "q", "--qrels", "r"], 2,
     "no.jsonl", "--help"),
    (["--config", "absent.yaml", "status"], 2, "absent.yaml", ""),
    (["prompt", QUESTION, "-p", "manual", "--stale", "perhaps"], 2, "perhaps", "--help"),
    (["nonsense"], 2, "nonsense", "--help"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code", "named", "hint"), CASES)
def test_message_names_thing_and_next_step(indexed, run, words, code, named, hint):
    before = snapshot(indexed)
    found, out, err = run(*words)
    assert (found, out) == (code, "")
    assert named in err and hint in err
    assert err.startswith("error: ") and "Traceback" not in err
    found, out, err = run(*words, "--json")
    error = json.loads(out)["error"]
    assert (found, err) == (code, "")
    assert set(error) == {"type", "message", "hint"}
    assert named in error["message"] and hint in error["hint"]
    assert snapshot(indexed) == before


def test_the_only_project_is_read_and_of_several_one_must_be_named(indexed, run):
    code, found, _ = run("search", "locks", "--json")
    assert code == 0 and json.loads(found)
    assert run("prompt", QUESTION)[0] == 0
    other = indexed / "doc_raw" / "other"
    other.mkdir()
    for words in (["prompt", QUESTION], ["search", "locks"], ["ask", QUESTION]):
        code, _, err = run(*words)
        assert code == 2 and "no project given" in err and "-p PROJECT" in err


def test_a_wrong_setting_in_the_environment_is_named(data, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_RETRIEVAL__TOPK", "3")
    code, _, err = run("status")
    assert code == 2 and "retrieval.topk" in err and "retrieval.top_k" in err


def test_an_empty_data_root_says_where_documents_go(environment, run):
    code, _, err = run("ingest")
    assert code == 2 and "doc_raw" in err


def test_one_bad_file_never_stops_the_others(data, run):
    folder = data / "doc_raw" / "manual"
    (folder / "binary.md").write_bytes(b"\x00\x01\x02" * 400)
    (folder / "broken.json").write_text("{", encoding="utf-8")
    (folder / "latin.txt").write_bytes(b"caf\xe9 and more words")
    (folder / "picture.gif").write_bytes(b"\x89PNG")
    code, out, _ = run("ingest", "manual", "--json")
    stats = json.loads(out)
    assert code == 0 and stats["committed"] and stats["files"]["new"] >= 4
    reasons = dict(stats["skipped_reasons"])
    assert "binary.md" in reasons and "picture.gif" in reasons
    assert all(reasons.values())


def test_one_failing_project_does_not_stop_the_others(data, run):
    code, out, _ = run("ingest", "nobody", "manual", "--json")
    first, second = json.loads(out)
    assert code == 2
    assert first["project"] == "nobody" and first["error"]["type"] == "UnknownProject"
    assert second["project"] == "manual" and second["committed"]


def test_another_model_is_refused_until_rebuilt(indexed, run, monkeypatch):
    with sqlite3.connect(catalog(indexed)) as db:
        column = {row[1] for row in db.execute("PRAGMA table_info(generations)")}
    assert "embed_fp" in column
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "onnx")
    code, _, err = run("prompt", QUESTION, "-p", "manual")
    assert code == 3 and "manual" in err and "--rebuild" in err


def test_a_damaged_catalog_is_refused_and_left(indexed, run):
    path = catalog(indexed)
    path.write_bytes(b"not a database" * 300)
    before = snapshot(indexed)
    code, _, err = run("prompt", QUESTION, "-p", "manual")
    assert code == 3 and "catalog" in err and "--rebuild" in err
    assert snapshot(indexed) == before


def test_damaged_vectors_are_refused(indexed, run, spawn):
    path = next((indexed / "index" / "manual").glob("vectors-*.f32"))
    data = bytearray(path.read_bytes())
    data[0:64] = bytes(64)
    path.write_bytes(data)
    result = spawn("prompt", QUESTION, "-p", "manual")  # a view of this process may be cached
    assert result.returncode == 3, result.stderr
    assert "vectors" in result.stderr and "next: " in result.stderr


def test_a_locked_project_is_refused_and_the_holder_named(indexed, run, spawn):
    import fcntl

    lock = indexed / "index" / "manual" / ".lock"
    (indexed / "doc_raw" / "manual" / "more.md").write_text("# More\n\nAnother page.\n")
    with lock.open("a+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        result = spawn("ingest", "manual")
    assert result.returncode == 3
    assert "manual is being written by process" in result.stderr and "next: " in result.stderr


def test_nothing_is_stale_right_after_an_ingest(indexed, run):
    code, _, err = run("prompt", QUESTION, "-p", "manual", "--stale", "refuse")
    assert code == 0, err


def test_stale_refuse_leaves_with_3_and_warn_says_so(indexed, run):
    (indexed / "doc_raw" / "manual" / "new.md").write_text("# New\n\nNobody ingested this.\n")
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--stale", "refuse")
    assert (code, out) == (3, "") and "new.md" in err and "ragstream ingest manual" in err
    code, out, err = run("prompt", QUESTION, "-p", "manual")
    assert code == 0 and "new.md" in err and "new.md" not in out
    code, _, err = run("prompt", QUESTION, "-p", "manual", "--stale", "ok")
    assert code == 0 and "new.md" not in err


def test_unexpected_errors_are_one_line_unless_asked(data, run, monkeypatch):
    from ragstream_core.wiring import ingestion

    def explode(workspace, project):
        raise ZeroDivisionError("seven\nlines of it")

    monkeypatch.setattr(ingestion, "status", explode)
    code, _, err = run("status")
    assert code == 1 and "ZeroDivisionError: seven" in err and "lines of it" not in err
    assert "Traceback" not in err
    assert "Traceback" in run("status", "--traceback")[2]


def test_interrupt_ends_with_130(data, run, monkeypatch):
    from ragstream_core.wiring import ingestion

    def interrupt(workspace, project):
        raise KeyboardInterrupt

    monkeypatch.setattr(ingestion, "status", interrupt)
    code, out, err = run("status")
    assert (code, out) == (130, "") and "interrupted" in err and "Traceback" not in err


def test_a_wrong_choice_is_named_without_the_words_of_a_library(indexed, run):
    code, _, err = run("mcp", "install", "nobody")
    assert code == 2 and "'nobody' is not one of 'claude-code'" in err and "Value error" not in err


SHELL = "import os, sys; os.execvp('sh', ['sh', '-c', sys.argv[1]])"


def command(*words: str) -> str:
    return shlex.join([sys.executable, "-m", "ragstream_app.cli.main", *words, "-p", "manual"])


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_the_caller_closed_are_as_if_nobody_listened(indexed, spawn, closed):
    done = spawn(f"{command('ask', QUESTION)} {closed}", code=SHELL)
    assert done.returncode == 0 and "error" not in done.stderr
    done = spawn(f"{command('prompt', '-')} {closed} 0<&-", code=SHELL)
    assert done.returncode == 2 and ("2>&-" in closed or "the prompt is empty" in done.stderr)


def test_a_full_disk_behind_stdout_is_one_line(indexed, spawn):
    for more in ([], ["--json"]):
        done = spawn(f"{command('search', 'locks', *more)} > /dev/full", code=SHELL)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert done.stderr.startswith("error: No space left on device")


@pytest.mark.parametrize("words", [["status"], ["project", "list"], ["history", "sessions"]])
@pytest.mark.parametrize("named", ["--data", "RAGSTREAM_DATA_DIR"])
def test_a_data_root_that_is_not_there_is_named(run, tmp_path, monkeypatch, words, named):
    missing = tmp_path / "nope" / "here"
    if named == "--data":
        words = ["--data", str(missing), *words]
    else:
        monkeypatch.setenv(named, str(missing))
    said = run(*words)[2]
    assert f"note: the data root {missing} does not exist" in said and "check the name" in said
    assert not missing.parent.exists()


ADD = ["project", "add", "notes", "notes"]


@pytest.mark.parametrize(
    ("words", "makes"),
    [
        (ADD, True),
        (["history", "append", "--user", "Hello"], True),
        (["serve", "--show-token"], True),
        ([*ADD, "--dry-run"], False),
        (["project", "add", "notes", "absent"], False),
        (["doctor"], False),
        (["prompt", "What weighs 5 kg?", "-p", "notes"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_data_root_is_missed_only_if_the_command_did_not_make_it(
    run, tmp_path, monkeypatch, words, makes
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("The pump weighs 5 kg.")
    new = tmp_path / "new" / "root"
    said = run("--data", str(new), *words)[2]
    assert (f"the data root {new} does not exist" in said) is not makes
    assert new.exists() is makes and (tmp_path / "new").exists() is makes


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["index", "check", "--read-data"], "ragstream index check"),
        (["history", "append", "--user"], "ragstream history append"),
        (["--data"], "ragstream"),
    ],
)
def test_an_option_without_its_value_names_the_command_that_it_belongs_to(run, words, command):
    code, _, said = run(*words)
    assert code == 2 and words[-1] in said and said.endswith(f"next: {command} --help\n")
