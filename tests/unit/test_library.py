"""The library: lazy, typed, and the same prompts under the same keys as the command line."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ragstream_app.cli.main import main
from ragstream_core import RAGstream
from ragstream_core.errors import (
    EmptyPrompt,
    UnknownProject,
    UnknownPrompt,
    UnknownSetting,
    UsageError,
)
from ragstream_core.prompts.chain import OPS
from tests.workspaces import write_docs

PAGE = Path(__file__).parents[2] / "data" / "doc_raw" / "handbook" / "python-library.md"
SETTINGS = {
    "embeddings.backend": "hashed",
    "rerank.backend": "none",
}
NOBODY = {"provider.base_url": "http://127.0.0.1:9/v1"}
QUESTION = "Who holds the project lock of the catalog?"


@pytest.fixture(scope="module")
def rag(tmp_path_factory):
    root = tmp_path_factory.mktemp("library")
    write_docs(root)
    with pytest.MonkeyPatch.context() as patch:
        _in_environment(patch, NOBODY)
        made = RAGstream(data_dir=root, settings=SETTINGS)
    phases = []
    stats = made.ingest("demo", progress=lambda *told: phases.append(told))
    assert stats.committed and stats.files["new"] == 4 and str(stats).startswith("demo: ")
    assert phases and all(len(told) == 3 for told in phases)
    return made


def _in_environment(patch, settings):
    for name, value in settings.items():
        patch.setenv(f"RAGSTREAM_{name.replace('.', '__')}".upper(), value)


def test_the_library_loads_no_engine_and_no_dagster_until_it_works():
    code = (
        "from ragstream_core import RAGstream; import sys; "
        "RAGstream('somewhere'); print(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "chromadb", "onnxruntime", "sentence_transformers", "dagster", "streamlit"}
    assert not {*heavy, "numpy"} & set(done.stdout.split())


def test_another_name_of_the_package_is_an_attribute_error():
    import ragstream_core

    with pytest.raises(AttributeError, match="RAGStream"):
        ragstream_core.RAGStream  # noqa: B018


def _of_the_command_line(rag, capsys, monkeypatch, *words):
    _in_environment(monkeypatch, {**SETTINGS, **NOBODY})
    capsys.readouterr()
    assert main(["--data", str(rag.data_dir), *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("how", [{}, {"files": ["catalog.md"], "lock": True}])
def test_a_prompt_is_that_of_the_command_line(rag, capsys, monkeypatch, how):
    mine = rag.prompt(QUESTION, "demo", **how)
    words = ["--file", "catalog.md", "--lock"] if how else []
    theirs = _of_the_command_line(
        rag, capsys, monkeypatch, "prompt", QUESTION, "-p", "demo", "--fresh", *words
    )
    assert mine.key and theirs["prompt_key"] == mine.key
    assert theirs["super_prompt"] == mine.text
    now = mine.to_json()
    changing = {"timings_ms", "from_record"}
    assert now.keys() == theirs.keys()
    assert {k: v for k, v in now.items() if k not in changing} == {
        k: v for k, v in theirs.items() if k not in changing
    }


def test_the_command_line_answers_from_the_record_of_the_library(rag, capsys, monkeypatch):
    mine = rag.prompt("What is one transaction?", "demo", fresh=True)
    words = ("prompt", "What is one transaction?", "-p", "demo")
    theirs = _of_the_command_line(rag, capsys, monkeypatch, *words)
    assert theirs["from_record"] and theirs["prompt_key"] == mine.key


def test_a_prompt_asked_again_comes_from_its_record(rag):
    seen = []
    first = rag.prompt(QUESTION, "demo", fresh=True, progress=lambda *told: seen.append(told))
    assert [op for op, _, _ in seen][-1] == OPS[-1] and seen[-1][1:] == (len(OPS), len(OPS))
    again = rag.prompt(QUESTION, ["demo", "demo"])
    assert again.from_record and not first.from_record
    assert (again.key, again.text) == (first.key, first.text)


def test_a_part_of_the_chain_is_not_kept(rag):
    part = rag.prompt(QUESTION, "demo", through="retrieval")
    assert not part.key and not part.text and part.super_prompt.stage == "retrieval"


def test_changed_documents_are_named(rag):
    path = rag.data_dir / "doc_raw" / "demo" / "new.md"
    path.write_text("# New\n\nA page that nobody has read.\n")
    try:
        assert any("new.md" in told for told in rag.prompt(QUESTION, "demo").warnings)
    finally:
        path.unlink()


def test_a_search_ranks_and_is_a_sequence(rag):
    found = rag.search("project lock", "demo", k=2)
    assert len(found) == 2 and found[0].source.endswith("catalog.md")
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert found.to_json() == [hit.to_json() for hit in found]
    assert found[:1] == (found[0],)


def test_an_answer_without_a_model_is_an_extract_and_is_kept(rag):
    said = []
    answer = rag.ask(QUESTION, "demo", session="asked", show=said.append)
    assert answer.origin == "extract" and "".join(said) == answer.text == str(answer)
    (turn,) = rag.history.show("asked")
    assert turn.user == QUESTION and turn.turn.prompt_key == answer.prompt_key


def test_history_is_found_by_its_words(rag):
    first = rag.history.append("Which port has the page?", "8503.", session="ports", tags=["GOLD"])
    rag.history.append("Which colour?", "Blue.", session="ports")
    assert rag.history.search("ports of the page", session="ports")[0].id == first.id
    assert rag.history.search("xylophone") == ()
    assert rag.history.show("ports", tags=["GOLD"]) == (first,)
    assert rag.history.show("ports", last=1)[0].user == "Which colour?"
    assert first.tags == ("GOLD",) and first.to_json()["assistant_text"] == "8503."


def test_an_empty_history_finds_nothing(tmp_path):
    assert RAGstream(tmp_path, SETTINGS).history.search("port") == ()


def test_a_reply_to_a_prompt_goes_on_in_its_conversation(rag):
    prompt = rag.prompt(QUESTION, "demo", session="pasted")
    turn = rag.history.append("", "It is the one writer.", answers=prompt.key)
    assert turn.session == "pasted" and turn.user == QUESTION


def test_replay_and_explain(rag):
    key = rag.prompt(QUESTION, "demo").key
    verdict = rag.replay(key[:12])
    assert verdict.to_json()["verdict"] == str(verdict) == "identical"
    told = rag.explain(key, chunk="catalog.md")
    assert told.to_json()["prompt_key"] == key and "catalog.md" in str(told)
    assert len(repr(told)) < 100


def test_results_say_what_they_are_in_one_line_and_do_not_change(rag):
    prompt, turn = rag.prompt(QUESTION, "demo"), rag.history.append("One?", "Two.")
    for result in (rag, prompt, turn, rag.search("lock", "demo")):
        assert "\n" not in repr(result) and len(repr(result)) < 400
    for result, name in ((prompt, "record"), (turn, "seq"), (rag.search("lock", "demo"), "hits")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(result, name, "")
    assert str(prompt) == prompt.text


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda rag: rag.ingest("nowhere"), UnknownProject),
        (lambda rag: rag.ingest("demo", verify=True, rebuild=True), UsageError),
        (lambda rag: rag.search("lock", "nowhere"), UnknownProject),
        (lambda rag: rag.search("?!", "demo"), UsageError),
        (lambda rag: rag.search("lock", ()), UsageError),
        (lambda rag: rag.search("lock", "demo", k=0), UsageError),
        (lambda rag: rag.prompt("?!", "demo"), EmptyPrompt),
        (lambda rag: rag.prompt("lock", (), files=["a.md"]), UsageError),
        (lambda rag: rag.prompt("lock", "demo", through="nothing"), UsageError),
        (lambda rag: rag.prompt("lock", "demo", settings={"no.such": 1}), UnknownSetting),
        (lambda rag: rag.prompt("lock", "demo", colour="red"), UsageError),
        (lambda rag: rag.replay("abcdef012345"), UnknownPrompt),
        (lambda rag: rag.explain("abcdef012345"), UnknownPrompt),
        (lambda rag: rag.history.append("", ""), UsageError),
        (lambda rag: rag.history.search("lock", k=0), UsageError),
        (lambda rag: RAGstream(rag.data_dir, {"no.such": 1}), UnknownSetting),
    ],
)
def test_bad_calls_are_refused_with_a_next_step(rag, call, error):
    with pytest.raises(error) as raised:
        call(rag)
    assert raised.value.message


def test_the_examples_of_the_handbook_run_as_they_stand(tmp_path):
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S))
    assert code.count("rag.") > 10
    settings = "provider:\n  base_url: http://127.0.0.1:9/v1\nvector_store:\n  collection: false\n"
    (tmp_path / "ragstream.yaml").write_text(settings)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "project lock" in done.stdout


def test_a_data_root_that_is_not_there_is_named(tmp_path):
    missing = tmp_path / "nope" / "here"
    with pytest.warns(UserWarning, match="does not exist; next: check the name") as told:
        assert RAGstream(missing).projects() == ()
    assert str(missing) in str(told[0].message) and not missing.exists()
