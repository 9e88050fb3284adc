"""`ragstream ask`: the documented JSON, the streams, the exit codes, what is kept."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

from tests.app.model_answers import QUESTION, turns
from tests.model_server import KEY, event, events, model_names, status, streamed
from tests.unit.ingestion.test_documents import pdf_of
from tests.workspaces import ROOT

SHAPE = {
    "answer", "citations", "cost", "usage", "agents", "total_cost", "prompt_key", "status", "model",
    "session", "warnings", "origin", "source_turn", "doubt", "conversations",
}  # fmt: skip


def test_a_citation_of_a_pdf_has_its_page(data, run, script):
    pytest.importorskip("pypdfium2", reason="the extra pdf is not installed")
    pytest.importorskip("reportlab")
    pages = [f"The word {word} stands on this page alone." for word in ("alder", "birch", "cedar")]
    (data / "doc_raw" / "manual" / "trees.pdf").write_bytes(pdf_of(*pages))
    assert run("ingest", "manual")[0] == 0
    question = "On which page does the word birch stand?"
    made = run("prompt", question, "-p", "manual")[1]
    cites = {  # what the frames of the prompt show under each id
        text.strip("| ").split()[2]: identifier
        for identifier, text in re.findall(r'id="(\w+)" source="trees.pdf".*\n(.*)', made)
    }
    script({"say": f"Here [source: trees.pdf, chunk: {cites['birch']}]."})
    (found,) = json.loads(run("ask", question, "-p", "manual", "--json")[1])["citations"]
    assert (found["page_number"], found["verified"]) == (2, True)
    assert "  trees.pdf p. 2 [" in run("ask", question, "-p", "manual")[1]


def test_json_has_the_documented_shape_and_the_prompt_is_known_by_its_key(run, script, marker):
    script({"say": f"According to {marker}, to the files you inject [source: x, chunk: 00000000]."})
    code, out, err = run("ask", QUESTION, "-p", "manual", "--json")
    found = json.loads(out)
    assert code == 0, err
    assert set(found) == SHAPE and found["status"] == "complete"
    assert found["answer"] == "According to the document, to the files you inject."
    first, second = found["citations"]
    assert (first["source"], first["verified"]) == ("guide/locks.md", True)
    assert first["locator"].startswith("guide/locks.md::") and len(first["snippet"]) <= 200
    assert not second["known"] and not second["verified"]
    assert found["usage"]["output_tokens"] > 0 and found["cost"] == 0.0
    assert run("replay", found["prompt_key"])[0] == 0
    (turn,) = turns(run)
    assert turn["prompt_key"] == found["prompt_key"] and marker in turn["assistant_text"]


def test_people_see_clean_text_and_the_citations_under_it(run, script, marker):
    script({"say": f"Only injected files {marker} \x1b[31mcount [source: x, chunk: 00000000]."})
    code, out, err = run("ask", QUESTION, "-p", "manual")
    assert code == 0
    first, *rest = out.split("\n")
    assert first == "Only injected files \N{REPLACEMENT CHARACTER}[31mcount."
    assert any(line.startswith("  guide/locks.md [") for line in rest)
    assert any(line.startswith("  unverified: x [00000000]: ") for line in rest)
    assert "complete, scripted" in err and "go on with --session" in err
    assert "[source" not in out


def test_an_answer_that_broke_off_ends_with_1_and_is_kept_as_partial(run, script, indexed):
    script({"say": "Only injected files [sour", "cut": True})
    code, out, _ = run("ask", QUESTION, "-p", "manual", "--json")
    found = json.loads(out)
    assert (code, found["status"], found["answer"]) == (1, "partial", "Only injected files ")
    assert [turn["status"] for turn in turns(run)] == ["partial"]


@pytest.mark.parametrize("failure", ["busy", "refused", "timeout", "broken"])
def test_a_failing_model_is_one_message_and_the_question_is_kept(run, script, indexed, failure):
    script({"fail": failure})
    code, out, err = run("ask", QUESTION, "-p", "manual", "--session", "mine")
    assert (code, out) == (1, "") and "error: " in err and "Traceback" not in err
    assert "kept without an answer in session mine" in err
    assert [(t["status"], t["user_text"]) for t in turns(run)] == [("unanswered", QUESTION)]
    code, out, _ = run("ask", QUESTION, "-p", "manual", "--json")
    assert code == 1 and json.loads(out)["error"]["type"].startswith("Chat")


@pytest.fixture
def nobody(indexed, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize("model", ["llama3.2", ""])
def test_without_a_model_the_answer_is_the_cited_extract_and_says_so(
    run, nobody, monkeypatch, model
):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", model)
    code, out, err = run("ask", QUESTION, "-p", "manual")
    assert (code, "error" in err) == (0, False), err
    asked = f" (asked for: {model})" if model else ""
    assert f"No model is running at 127.0.0.1:9{asked}, so here are the closest sentences" in out
    assert "ragstream models list" in out and "restricts a prompt to the files you inject" in out
    assert "  guide/locks.md [" in out and "[source" not in out and "unverified" not in out
    assert "no model answered · prompt " in err
    found = json.loads(run("ask", QUESTION, "-p", "manual", "--json")[1])
    assert (found["origin"], found["status"], found["model"]) == ("extract", "complete", "")
    assert set(found) == SHAPE and all(c["verified"] for c in found["citations"])
    assert [turn["origin"] for turn in turns(run)] == ["extract", "extract"]


NOTHING_FITS = ("--set", "retrieval.min_score=1")


def test_without_a_model_and_a_passage_memory_answers_word_for_word(run, nobody, indexed):
    folder = indexed / "projects" / "manual"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "project_memory.md").write_text("- The lock was painted green.\n- Tea is at four.\n")
    words = ("ask", "What colour has the lock?", "-p", "manual", *NOTHING_FITS, "--json")
    found = json.loads(run(*words)[1])
    assert found["origin"] == "extract" and found["citations"] == []
    assert "so here are the closest sentences from your memory." in found["answer"]
    assert found["answer"].endswith("\n\n- The lock was painted green.")


ELSEWHERE = "Which wine goes with the sourdough bread?"
DOUBT = "No passage clearly answers this. Nearest: "


def test_without_a_model_it_is_said_first_that_the_documents_do_not_answer(run, nobody):
    code, out, err = run("ask", ELSEWHERE, "-p", "manual")
    assert code == 0 and out.startswith(DOUBT)
    assert out.count(DOUBT) == 1 and DOUBT not in err
    assert out.index(DOUBT) < out.index("No model is running at") < out.index("\n- ")
    assert run("ask", QUESTION, "-p", "manual")[1].startswith("No model is running at")


def test_with_a_model_it_is_said_on_stderr_before_the_answer_and_once(run, script, indexed):
    script({"say": "I do not know."})
    code, out, err = run("ask", ELSEWHERE, "-p", "manual")
    assert code == 0 and DOUBT not in out
    assert err.count(DOUBT) == 1 and f"warning: {DOUBT}" not in err
    found = json.loads(run("ask", ELSEWHERE, "-p", "manual", "--json")[1])
    assert found["doubt"].startswith(DOUBT)
    assert json.loads(run("ask", QUESTION, "-p", "manual", "--json")[1])["doubt"] == ""


def test_a_model_that_nobody_set_is_chosen_as_a_chat_chooses_it(run, server, marker, monkeypatch):
    monkeypatch.delenv("RAGSTREAM_PROVIDER__MODEL")
    names = model_names("zeta", "embed-1", "alpha")
    said = streamed("Only injected files count.")
    for words, taken in (((), "alpha"), (("--model", "zeta"), "zeta")):
        server.answers[:] = [said] if words else [names, said]
        assert run("ask", QUESTION, "-p", "manual", *words)[0] == 0
        assert server.seen[-1][2]["model"] == taken


def test_secrets_do_not_leave_for_another_machine(data, run, monkeypatch):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    (data / "doc_raw" / "manual" / "token.md").write_text(f"# Exact file lock token\n\n{secret}\n")
    assert run("ingest", "manual")[0] == 0
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "https://llm.invalid/v1")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "m")  # so that nobody is asked for a list
    code, out, err = run("ask", "What is the exact file lock token?", "-p", "manual")
    assert (code, out) == (3, "") and secret not in err
    assert "github-token in token.md" in err and "--allow-secrets" in err
    assert turns(run) == []


def test_persist_off_keeps_nothing(run, script, indexed):
    script({"say": "Only injected files count."})
    before = {p: p.read_bytes() for p in indexed.rglob("*") if p.is_file()}
    code, out, err = run("ask", QUESTION, "-p", "manual", "--no-persist")
    assert code == 0 and "Only injected files count." in out and "nothing is kept of it" in err
    assert {p: p.read_bytes() for p in indexed.rglob("*") if p.is_file()} == before


def test_a_session_goes_on(run, script, indexed):
    script({"when": "second", "say": "Two."}, {"say": "The answer is one."})
    assert run("ask", "What is the first lock?", "-p", "manual", "--session", "s")[0] == 0
    assert run("ask", "And the second lock?", "-p", "manual", "--session", "s")[0] == 0
    assert [turn["assistant_text"] for turn in turns(run)] == ["The answer is one.", "Two."]


def test_over_http_a_marker_that_is_split_over_events_is_cited_and_never_shown(run, server, marker):
    said = f"According to {marker}, to the files you inject."
    server.answers[:] = [streamed(*said)]
    code, out, err = run("ask", QUESTION, "-p", "manual")
    assert code == 0, err
    assert out.startswith("According to the document, to the files you inject.\n")
    assert "  guide/locks.md [" in out and "20 + 5 tokens" in err
    (path, headers, body) = server.seen[-1]
    assert path.endswith("/chat/completions") and headers["authorization"] == f"Bearer {KEY}"
    system, user = body["messages"]
    assert (system["role"], user["role"], body["stream"]) == ("system", "user", True)
    assert "<<DOC" not in system["content"] and "<<DOC" in user["content"]


def test_over_http_a_connection_that_is_cut_is_a_partial_answer(run, server, indexed):
    server.answers[:] = [events(event("To the files "), event("[source: lo"), cut=True)]
    code, out, err = run("ask", QUESTION, "-p", "manual")
    assert (code, out) == (1, "To the files \n") and "broke off" in err
    assert [(t["status"], t["assistant_text"]) for t in turns(run)] == [
        ("partial", "To the files [source: lo")
    ]


@pytest.mark.parametrize("code", [401, 404, 500])
def test_over_http_an_error_never_repeats_the_key_and_loses_no_question(
    run, server, indexed, code, monkeypatch
):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BUDGET_S", "1")
    server.answers[:] = [status(code)]
    ended, out, err = run("ask", QUESTION, "-p", "manual")
    assert ended == 1 and KEY not in out + err and "Traceback" not in err
    assert [turn["user_text"] for turn in turns(run)] == [QUESTION]
    assert not any(KEY.encode() in p.read_bytes() for p in indexed.rglob("*") if p.is_file())


def test_a_process_killed_while_the_answer_comes_loses_no_question(run, server, indexed):
    server.answers[:] = [events(event("To the files "), *[event("and ")] * 600, pause_s=0.1)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-m", "ragstream_app.cli.main", "ask", QUESTION, "-p", "manual"]
    slow = {"PYTHONPATH": path, "RAGSTREAM_PROVIDER__BUDGET_S": "120"}  # nothing else ends it
    with subprocess.Popen(
        words, env={**os.environ, **slow}, stdout=subprocess.PIPE, text=True
    ) as asking:
        deadline = time.monotonic() + 60
        while not server.seen and time.monotonic() < deadline:
            time.sleep(0.02)
        asking.kill()
    assert server.seen
    assert [(t["status"], t["user_text"]) for t in turns(run)] == [("unanswered", QUESTION)]
