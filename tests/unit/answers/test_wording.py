"""The wording of the messages is the user's where they want it, and keeps the laws of answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.answers.answer import REFUSAL, messages_of
from ragstream_core.config import AppConfig
from ragstream_core.errors import UnknownSetting
from ragstream_core.models.chat.scripted import ScriptedChat
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring import answering
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.workspaces import confirm

OURS = "Cite [source: <filename>, chunk: <id>] at once, or say: {refusal}"


@pytest.mark.parametrize(
    "wording", ["no place for it", "{refusal} {answer}", "{refusal}" + "x" * 4_000]
)
def test_a_wording_without_the_refusal_or_with_unknown_places_is_refused(wording):
    with pytest.raises(UnknownSetting):
        AppConfig.load(explicit={"prompt.answer_rules": wording})


@given(st.text(alphabet=st.characters(exclude_characters="{}"), max_size=200))
def test_any_other_text_with_the_refusal_in_it_is_taken_as_it_stands(text):
    wording = f"{text}{{refusal}}"
    settings = AppConfig.load(explicit={"prompt.memory_rules": wording}).settings
    assert settings.prompt.memory_rules == wording


@pytest.fixture
def made(bench, monkeypatch):
    """A finished prompt under a task profile that words the rules."""
    monkeypatch.chdir(bench.root)
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")
    monkeypatch.setenv("RAGSTREAM_RERANK__BACKEND", "none")
    profile = bench.root / "ragstream.yaml"
    profile.write_text(f'tasks: {{ours: {{prompt: {{answer_rules: "{OURS}"}}}}}}\n')
    confirm(profile)
    bench.write("locks.md", "# Lock\n\nThe lock restricts a prompt to injected files.\n")
    workspace = open_workspace(bench.root)
    ingest_project(workspace, bench.project)

    def make(task):
        request = PromptRequest("What does the lock restrict?", (bench.project,), task=task)
        prompt = run_prompt(workspace, pin_inputs(workspace, request))
        return workspace, prompt, save_prompt(workspace, prompt).prompt_key

    return make


def test_a_task_profile_words_the_rules_and_the_prompt_is_another_one(made):
    said = []
    keys = []
    for task in ("", "ours"):
        workspace, prompt, key = made(task)
        ready = answering.prepare(
            workspace, prompt, prompt_key=key, model=ScriptedChat(entries=[{"say": "x"}])
        )
        system, user = ready.messages
        said.append(system.text.rpartition("\n\n")[2])
        keys.append(key)
        assert "<<DOC" not in system.text and "<<DOC" in user.text
    assert said[1] == OURS.replace("{refusal}", REFUSAL) != said[0]
    assert REFUSAL in said[0] and keys[0] != keys[1]
    assert replay_prompt(workspace, keys[1]).verdict == "identical"


def test_a_wording_never_reaches_the_quoted_part(made):
    _, prompt, _ = made("ours")
    plain = messages_of(prompt, "documents")
    worded = messages_of(prompt, "documents", wording=OURS)
    assert worded[1] == plain[1] and worded[0] != plain[0]
