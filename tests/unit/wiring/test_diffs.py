"""`git diff` of a named file as a block of the prompt: pinned, replayed, refused where needed."""

import shutil
import subprocess

import pytest

from ragstream_core.errors import OperationFailed, UsageError
from ragstream_core.prompts.inputs import PromptRequest, request_from
from ragstream_core.prompts.line_owners import owners
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.verify_prompt import verify_text
from ragstream_core.wiring import file_sources
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import hashed_workspace, write_docs

QUESTION = "What does the gate do with theta?"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(root, *args):
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(root), *args],
        check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture
def space(tmp_path):
    write_docs(tmp_path)
    docs = tmp_path / "doc_raw" / "demo"
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "doc_raw")
    git(tmp_path, "commit", "-q", "-m", "first")
    (docs / "settings.yaml").write_text("retrieval:\n  top_k: 50\ngate:\n  theta: 0.4\n")
    workspace = hashed_workspace(tmp_path)
    ingest_project(workspace, "demo")
    return workspace


def ask(space, **more):
    return run_prompt(space, pin_inputs(space, PromptRequest(QUESTION, ("demo",), **more)))


def warnings(prompt):
    return " | ".join(row.message for row in prompt.extras.warnings)


def test_the_changes_stand_in_a_block_of_their_own_with_a_receipt(space):
    prompt = ask(space, diffs=("settings.yaml",))
    (row,) = prompt.extras.diffs
    assert (row.path, row.mode, prompt.extras.files) == ("settings.yaml", "DIFF", ())
    assert "-  theta: 0.25" in row.text and "+  theta: 0.4" in row.text
    text = prompt.extras.super_prompt
    assert 'mode="DIFF"' in text and "| +  theta: 0.4" in text
    assert row.id in {c.chunk_id for c in prompt.extras.citations.values()}
    nonce = text[len("## [") :].partition("]")[0]
    assert "forged mark" not in owners(text, nonce)


def test_the_diff_is_an_input_replay_needs_no_repository(space, tmp_path):
    record = save_prompt(space, ask(space, diffs=("settings.yaml",)))
    plain = save_prompt(space, ask(space))
    assert record.prompt_key != plain.prompt_key
    shutil.rmtree(tmp_path / ".git")
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
    assert not record.inputs["receipts"]


def test_it_is_no_whole_file_chunks_of_it_stay(space):
    prompt = ask(space, diffs=("settings.yaml",), settings={"gate.theta": -1, "gate.relative": 0})
    rules = {r.rule for r in prompt.extras.decisions if r.stage == "a3"}
    assert "duplicates_files" not in rules


def test_locked_with_a_diff_alone(space):
    prompt = ask(space, diffs=("settings.yaml",), lock=True)
    assert "name one" not in warnings(prompt)
    assert "| +  theta: 0.4" in prompt.extras.super_prompt


def test_an_unchanged_file_gives_a_warning_and_no_block(space):
    prompt = ask(space, diffs=("catalog.md",))
    assert prompt.extras.diffs == ()
    assert "catalog.md: no change since the last commit" in warnings(prompt)


def test_a_long_diff_is_packed_with_its_hunks(space, tmp_path):
    path = tmp_path / "doc_raw/demo/settings.yaml"
    path.write_text("".join(f"key_{i}: {i}\n" for i in range(900)))
    (row,) = ask(space, diffs=("settings.yaml",)).extras.diffs
    assert "lines omitted" in row.text and "@@ " in row.text


@pytest.mark.parametrize("name", ["nothing.md", "*.rs"])
def test_only_files_of_the_project_can_be_named(space, name):
    with pytest.raises(UsageError, match="no file of the project"):
        ask(space, diffs=(name,))


def test_a_name_is_no_option_and_no_pathspec(space, tmp_path):
    docs = tmp_path / "doc_raw/demo"
    for name in ("--output=leak.md", "[s]ettings.md"):
        (docs / name).write_text("one\n")
        git(docs, "--literal-pathspecs", "add", "--", name)
    git(docs, "commit", "-q", "-m", "odd names")
    for name in ("--output=leak.md", "[s]ettings.md"):
        (docs / name).write_text("two\n")
    for name in ("--output=leak.md", "[s]ettings.md"):
        assert "+two" in file_sources.diff_of(space, "demo", name)
        assert "theta" not in file_sources.diff_of(space, "demo", name)
    assert not (docs / "leak.md").exists()


def test_no_tool_of_the_repository_is_run(space, tmp_path):
    docs, touched = tmp_path / "doc_raw/demo", tmp_path / "touched"
    tool = tmp_path / "tool"
    tool.write_text(f'#!/bin/sh\ntouch {touched}\ncat "$1"\n')
    tool.chmod(0o755)
    (docs / ".gitattributes").write_text("*.yaml diff=evil\n")
    git(docs, "config", "diff.evil.command", str(tool))
    git(docs, "config", "diff.evil.textconv", str(tool))
    git(docs, "config", "core.fsmonitor", str(tool))
    git(docs, "config", "diff.external", str(tool))
    touched.unlink(missing_ok=True)
    assert "+  theta: 0.4" in file_sources.diff_of(space, "demo", "settings.yaml")
    assert not touched.exists()


def test_without_a_repository_or_a_commit(space, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    shutil.rmtree(tmp_path / ".git")
    with pytest.raises(UsageError, match="demo/settings.yaml"):
        ask(space, diffs=("settings.yaml",))
    git(tmp_path, "init", "-q")
    with pytest.raises(UsageError, match="no diff of") as caught:
        ask(space, diffs=("settings.yaml",))
    assert "commit" in caught.value.hint


def test_without_git(space, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="git is not installed"):
        ask(space, diffs=("settings.yaml",))


def test_limits(space, monkeypatch):
    monkeypatch.setattr(file_sources, "MAX_BYTES", 20)
    with pytest.raises(UsageError, match="over 20 bytes"):
        ask(space, diffs=("settings.yaml",))
    monkeypatch.setattr(file_sources, "TIMEOUT_S", 0.0)
    with pytest.raises(OperationFailed, match="over 0 s"):
        ask(space, diffs=("settings.yaml",))


def test_a_request_keeps_its_diffs_and_its_text_tells_what_became_of_them(space):
    request = request_from({"text": "why", "projects": ["demo"], "diffs": ["settings.yaml"]})
    assert request.diffs == ("settings.yaml",)
    prompt = ask(space, diffs=("settings.yaml",), files=("catalog.md",))
    found = verify_text(space, prompt.extras.super_prompt, ["demo"])
    states = {(row.path, row.use): row.state for row in found.files}
    assert states["catalog.md", "injected"] == states["settings.yaml", "diff"] == "current"
    assert "changed" not in states.values()
