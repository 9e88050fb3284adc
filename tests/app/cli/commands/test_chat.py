"""`ragstream chat`: in a terminal and through pipes, against a model's server on loopback."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest

from ragstream_core.wiring.workspace import open_workspace
from tests.app.hostile_answers import PAYLOADS
from tests.app.model_answers import QUESTION, SECRET, cites, turns
from tests.app.terminals import LIMIT_S, Terminal
from tests.model_server import KEY, event, events, model_names, status, streamed
from tests.workspaces import ROOT

SAYS = "complete, toy-1"
FIRST = "Only injected files count while the lock is on. " * 4


def endless(handler):
    """Answer words without an end."""
    events(event(FIRST), *[event("and ")] * 6_000, pause_s=0.05)(handler)


def command():
    """The chat in a process of its own, and the environment it needs."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-m", "ragstream_app.cli.main", "chat", "-p", "manual"]
    return words, {**os.environ, "PYTHONPATH": path}


@pytest.fixture
def piped(run, monkeypatch):
    """Run a chat in this process with lines on stdin."""

    def call(lines, *words):
        typed = io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()))
        monkeypatch.setattr(sys, "stdin", typed)
        return subprocess.CompletedProcess(words, *run("chat", *words))

    return call


def objects(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_where_nobody_reads_no_further_question_is_asked(indexed, server, run):
    server.answers = [streamed("One. " * 40)]
    words, environment = command()
    chat = subprocess.Popen(
        words, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    chat.stdout.close()
    _, err = chat.communicate("\n".join([QUESTION] * 3), LIMIT_S)
    assert chat.returncode == 1 and "Traceback" not in err
    asked = [body for _, _, body in server.seen if body]
    assert len(asked) == 1 and len(turns(run)) == 1


# --- in a terminal


def test_a_terminal_shows_a_panel_its_citations_and_goes_on(indexed, server, run):
    server.answers = [cites]
    with Terminal("chat", "-p", "manual") as screen:
        assert "toy-1 at 127.0.0.1" in screen.shows("you> ")
        screen.types(QUESTION)
        text = screen.shows("you> ", 2)
        panel = text[text.rindex("╭") :]
        assert "│ Only injected files count, nothing else." in panel
        assert "✓ guide/locks.md [" in panel and "! unverified: x.md [00000000]" in panel
        assert SAYS in panel and "[source" not in text
        screen.types("/sources 1")
        screen.shows("The Exact File Lock restricts a prompt")
        screen.types("And how is it turned on?")
        screen.shows(SAYS, 2)
        screen.shows("you> ", 4)  # before it, what is pressed reaches nobody
        screen.presses(b"\x04")
        assert screen.ends() == 0
        assert "go on with --session" in screen.text
    first, second = turns(run)
    assert first["session_id"] == second["session_id"]
    assert first["assistant_text"].count("[source: ") == 2
    assert "RECENT HISTORY" in server.seen[-1][2]["messages"][-1]["content"]


def test_ctrl_c_ends_the_answer_and_not_the_chat(indexed, server, run):
    server.answers = [endless, streamed("Two.")]
    with Terminal("chat", "-p", "manual") as screen:
        screen.shows("you> ")
        screen.types(QUESTION)
        screen.shows("Only injected files")
        screen.interrupts()
        assert "you stopped it" in screen.shows("you> ", 2)
        screen.types("And the second one?")
        screen.shows(SAYS)
        screen.types("/quit")
        assert screen.ends() == 0
    first, second = turns(run)
    assert (first["status"], second["assistant_text"]) == ("partial", "Two.")
    assert first["assistant_text"].startswith(FIRST.strip())


def test_ctrl_c_at_the_prompt_says_how_to_leave(indexed, server):
    with Terminal("chat", "-p", "manual") as screen:
        screen.shows("you> ")
        screen.interrupts_until("Ctrl-D or /quit ends the chat")
        screen.shows("you> ", 2)
        screen.presses(b"\x04")
        assert screen.ends() == 0


def test_a_person_picks_the_model_by_its_number(indexed, server, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "")
    names = model_names("zeta", "alpha", "embed-1")
    server.answers = [names, streamed("Zeta says so.")]
    with Terminal("chat", "-p", "manual") as screen:
        listed = screen.shows("number [1]: ")
        assert [name for name in ("alpha", "embed-1", "zeta") if name in listed]
        screen.types("9")
        screen.shows("a number from 1 to 3")
        screen.types("3")
        screen.shows("zeta at 127.0.0.1")
        screen.types(QUESTION)
        screen.shows("Zeta says so.")
        screen.types("/quit")
        assert screen.ends() == 0
    assert server.seen[-1][2]["model"] == "zeta"


def test_hostile_answers_cannot_steer_the_terminal(indexed, server):
    text = "\n\n".join(PAYLOADS)
    server.answers = [streamed(text + "\x1b]8;;http://tracker.invalid\x07x\x1b]0;title\x07\x9b2J")]
    with Terminal("chat", "-p", "manual") as screen:
        screen.shows("you> ")
        screen.types(QUESTION)
        screen.shows(SAYS)
        screen.types("/quit")
        screen.ends()
        assert "\x1b]" not in screen.raw and "\x9b" not in screen.raw
        assert "\x1b[2J" not in screen.raw and "tracker.invalid/linked" in screen.text


# --- through pipes


def test_lines_of_a_pipe_are_questions_and_the_output_is_plain(indexed, server, run):
    server.answers = [cites]
    lines = f"{QUESTION}\n\nAnd how is it turned on?"
    words, env = command()
    done = subprocess.run(
        words, input=lines, capture_output=True, text=True, timeout=LIMIT_S, env=env
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Only **injected** files count, nothing else.\n") == 2
    assert "  guide/locks.md [" in done.stdout and "  unverified: x.md [00000000]" in done.stdout
    assert "\x1b" not in done.stdout and "[source" not in done.stdout
    first, second = turns(run)
    assert first["session_id"] == second["session_id"] and len(server.seen) == 2


def test_markers_stay_where_they_are_asked_for(indexed, server, piped):
    server.answers = [cites]
    done = piped([QUESTION], "-p", "manual", "--markers")
    assert done.stdout.startswith("Only **injected** files count [source: locks.md, chunk: ")


def test_json_is_one_object_a_line_for_questions_commands_and_errors(indexed, server, piped):
    server.answers = [cites, status(401)]
    lines = [QUESTION, "/sources", "/why", "/fils", "A second question?"]
    done = piped(lines, "-p", "manual", "--json", "--session", "mine")
    answer, sources, why, typo, failed = objects(done)
    assert done.returncode == 1
    assert (answer["question"], answer["origin"], answer["session"]) == (QUESTION, "model", "mine")
    assert answer["trace"] == ["documents", "model", "persist"]
    assert [c["verified"] for c in answer["citations"]] == [True, False]
    assert "Exact File Lock restricts" in sources["sources"][0]["text"]
    assert {way["chunk_id"].partition("::")[0] for way in why["candidates"]} >= {"guide/locks.md"}
    assert typo["error"]["hint"] == "did you mean /files?"
    assert failed["question"] == "A second question?" and KEY not in json.dumps(failed)
    assert "the question is kept without an answer" in done.stderr


def test_without_a_model_the_answer_is_a_cited_extract_that_says_so(indexed, monkeypatch, piped):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BUDGET_S", "1")
    (answer,) = objects(piped([QUESTION], "-p", "manual", "--json"))
    assert answer["origin"] == "extract" and answer["model"] == ""
    assert "is running at 127.0.0.1:9 (asked for: llama3.2), so here are" in answer["answer"]
    assert "restricts a prompt to the files you inject" in answer["answer"]
    assert answer["citations"] and all(c["verified"] for c in answer["citations"])


def test_without_a_terminal_the_model_is_always_the_same(indexed, server, monkeypatch, piped):
    monkeypatch.delenv("RAGSTREAM_PROVIDER__MODEL")
    names = model_names("zeta", "embed-1", "alpha")
    for _ in range(2):
        server.answers = [names, streamed("Alpha.")]
        done = piped([QUESTION], "-p", "manual", "--no-persist")
        assert done.returncode == 0 and server.seen[-1][2]["model"] == "alpha"


def test_a_killed_chat_loses_no_question(indexed, server, run):
    server.answers = [endless]
    words, env = command()
    with subprocess.Popen(
        words, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as chat:
        chat.stdin.write(f"{QUESTION}\n")
        chat.stdin.flush()
        assert chat.stdout.read(20) == FIRST[:20]
        chat.send_signal(signal.SIGKILL)
    assert [(t["status"], t["user_text"]) for t in turns(run)] == [("unanswered", QUESTION)]


def test_persist_off_writes_nothing(indexed, server, piped):
    server.answers = [cites]
    before = {p: p.read_bytes() for p in indexed.rglob("*") if p.is_file()}
    done = piped([QUESTION, "/sources", "/why"], "-p", "manual", "--no-persist", "--json")
    answer, sources, why = objects(done)
    assert answer["session"] == "" == answer["prompt_key"]
    assert "Exact File Lock restricts" in sources["sources"][0]["text"]
    assert "not kept" in why["error"]["message"]
    assert {p: p.read_bytes() for p in indexed.rglob("*") if p.is_file()} == before


def test_another_model_bounds_its_prompts(indexed, server, tmp_path, piped):
    (tmp_path / "ragstream.yaml").write_text("prompt: {model_window: 1600}\n")
    server.answers = [streamed("One."), model_names("toy-1", "gpt-4o"), streamed("Two.")]
    lines = [QUESTION, "/model gpt-4o", QUESTION]
    first, _, second = objects(piped(lines, "-p", "manual", "--json", "--model", "zeta"))
    targets = [
        open_workspace().store.record(found["prompt_key"]).inputs["settings"]["prompt"]
        for found in (first, second)
    ]
    assert [found["model_target"] for found in targets] == ["zeta", "gpt-4o"]
    assert [found["budget_tokens"] for found in targets] == [1200, 1200]
    assert [body["model"] for _, _, body in server.seen if body] == ["zeta", "gpt-4o"]


def test_secrets_do_not_leave_for_another_machine(data, run, monkeypatch, piped):
    (data / "doc_raw" / "manual" / "token.md").write_text(f"# Exact file lock token\n\n{SECRET}\n")
    assert run("ingest", "manual")[0] == 0
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "https://llm.invalid/v1")
    (refused,) = objects(
        piped(["What is the exact file lock token?"], "-p", "manual", "--model", "m", "--json")
    )
    assert "github-token in token.md" in refused["error"]["message"]
    assert SECRET not in json.dumps(refused) and turns(run) == []


# --- its commands


def test_files_and_lock_change_the_next_prompt(indexed, server, piped):
    server.answers = [streamed("Yes, it is so.")]
    lines = ["/files add locks.md", "/lock on", QUESTION, "/files drop guide/locks.md", "/lock off",
             "/files", "/files drop locks.md", QUESTION]  # fmt: skip
    done = piped(lines, "-p", "manual", "--set", "retrieval.evidence=full", "--json")
    added, locked, first, dropped, unlocked, now, wrong, second = objects(done)
    assert added["files"] == ["guide/locks.md"] and locked["lock"] and not unlocked["lock"]
    assert (dropped["files"], now["files"]) == ([], [])
    assert "not injected" in wrong["error"]["message"]
    one, two = (body["messages"][-1]["content"] for _, _, body in server.seen)
    assert "guide/citations.md" not in one and "guide/citations.md" in two
    assert first["prompt_key"] != second["prompt_key"]


def test_a_file_that_is_not_there_is_refused_with_a_near_one(indexed, server, piped):
    (refused,) = objects(piped(["/files add lokcs.md"], "-p", "manual", "--json"))
    assert "guide/locks.md" in refused["error"]["hint"]


def test_why_says_why_a_file_is_not_in_the_prompt(indexed, server, piped):
    server.answers = [streamed("Yes, it is so.")]
    lines = ["/lock on", "/files add locks.md", QUESTION, "/why guide/citations.md"]
    *_, why = objects(piped(lines, "-p", "manual", "--json"))
    assert why["verdicts"] and not any(row["kept"] for row in why["verdicts"])
    done = piped(lines, "-p", "manual")
    assert "citations.md" in done.stdout and "lock" in done.stdout


def test_the_transcript_is_markdown_and_never_replaces_a_file(indexed, server, tmp_path, piped):
    server.answers = [cites]
    target = tmp_path / "chat.md"
    lines = [f"/save {target}", QUESTION, f"/save {target}", f"/save {target}", "/save",
             f"/save {tmp_path}/missing/chat.md"]  # fmt: skip
    early, _, written, again, unnamed, lost = objects(piped(lines, "-p", "manual", "--json"))
    assert "to a folder that exists" in lost["error"]["hint"]
    assert not (tmp_path / "missing").exists()
    assert "this conversation has no turns yet" in early["error"]["message"]
    assert written["path"] == str(target) and "already exists" in again["error"]["message"]
    assert unnamed["error"]["type"] == "UsageError"
    text = target.read_text()
    assert f"> {QUESTION}" in text and "Only **injected** files count, nothing else." in text
    assert "- guide/locks.md [" in text and "[source" not in text
    assert target.stat().st_mode & 0o077 == 0


def test_task_and_model_can_be_changed_on_the_way(indexed, server, tmp_path, piped):
    (tmp_path / "ragstream.yaml").write_text("tasks: {brief: {prompt: {max_facts: 1}}}\n")
    names = model_names("toy-1", "toy-2")
    server.answers = [streamed("One, it is."), names, names, streamed("Two, it is.")]
    lines = [QUESTION, "/model toy-9", "/model 2", "/task brief", "/task nosuch", QUESTION, "/help"]
    first, wrong, model, task, unknown, second, told = objects(
        piped(lines, "-p", "manual", "--json")
    )
    assert "toy-2" in wrong["error"]["hint"] and model["model"] == "toy-2"
    assert task["task"] == "brief" and "brief" in task["tasks"]
    assert unknown["error"]["type"] == "UnknownSetting"
    assert [body["model"] for _, _, body in server.seen if body] == ["toy-1", "toy-2"]
    assert first["prompt_key"] != second["prompt_key"]
    assert len(told["said"]) == 10


def test_quit_ends_the_chat_and_later_lines_are_not_read(indexed, server, piped):
    done = piped(["/help", "/quit", QUESTION], "-p", "manual")
    assert done.returncode == 0 and "/why [CHUNK|FILE]" in done.stdout and server.seen == []


@pytest.mark.parametrize(
    "words", [(), ("-p", "nosuch"), ("-p", "manual", "--set", "prompt.nosuch=1"),
              ("-p", "manual", "--session", "../x"), ("-p", "manual", "--task", "nosuch")]
)  # fmt: skip
def test_what_no_question_could_be_asked_with_is_refused_at_once(indexed, run, words):
    (indexed / "doc_raw" / "other").mkdir()  # of several projects one must be named
    code, out, err = run("chat", *words)
    assert code == 2 and out == "" and "error: " in err and "next: " in err


def test_a_line_is_answered_as_soon_as_it_is_there(indexed, server):
    server.answers = [streamed("Yes, it is so.")]
    words, env = command()
    with subprocess.Popen(
        [*words, "--json"], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as chat:
        for _ in range(2):
            chat.stdin.write(f"{QUESTION}\n")
            chat.stdin.flush()
            assert json.loads(chat.stdout.readline())["answer"] == "Yes, it is so."
        chat.stdin.close()
        assert chat.wait(LIMIT_S) == 0


# --- memory


def test_memory_gives_an_answer_again_and_names_its_turn(indexed, server, run, piped):
    server.answers = [cites]
    lines = [QUESTION, QUESTION, "/sources"]
    first, again, sources = objects(piped(lines, "-p", "manual", "--enable-memory", "--json"))
    (turn, other) = turns(run)
    assert (again["origin"], again["source_turn"]) == ("cached", turn["id"])
    assert again["answer"] == first["answer"] and len(server.seen) == 1
    assert again["trace"][0] == "cache" and "model" not in again["trace"]
    assert "Exact File Lock restricts" in sources["sources"][0]["text"]
    done = piped([QUESTION], "-p", "manual", "--enable-memory")
    assert f"Origin: cached from turn {turn['id']}" in done.stdout and len(server.seen) == 1
    assert other["status"] == "complete"


def test_memory_is_off_unless_it_is_asked_for(indexed, server, piped):
    server.answers = [cites]
    objects(piped([QUESTION, QUESTION], "-p", "manual", "--json"))
    assert len(server.seen) == 2


def test_a_chat_without_a_profile_has_the_settings_as_they_are(indexed, server, piped):

    server.answers = [cites]
    (answer,) = objects(piped([QUESTION], "-p", "manual", "--json", "--task", "none"))
    settings = open_workspace().store.record(answer["prompt_key"]).inputs["settings"]
    assert (settings["retrieval"]["depth"], settings["rerank"]["keep"]) == (100, 0)


def test_the_flags_of_memory_are_settings_of_the_prompt(indexed, server, piped):

    server.answers = [cites]
    flags = ("--enable-memory", "--memory-max-tokens", "77", "--memory-max-chars", "900",
             "--memory-top-k", "3")  # fmt: skip
    (answer,) = objects(piped([QUESTION], "-p", "manual", "--json", *flags))
    settings = open_workspace().store.record(answer["prompt_key"]).inputs["settings"]
    memory = settings["memory"]
    assert (memory["enabled"], memory["max_tokens"], memory["top_k"]) == (True, 77, 3)
    assert memory["max_chars"] == 900
    assert (settings["retrieval"]["depth"], settings["rerank"]["keep"]) == (10, 5), "task chat"
