"""Keys: what changes them, what does not, and settings that change on the way."""

import datetime as dt

import pytest

from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.inputs import (
    PromptRequest,
    begin,
    change_settings,
    inputs_of,
    settings_at,
)
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.prompt_inputs import pin_inputs
from tests.workspaces import write_docs

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def key(workspace, now=NOW, **more):
    request = PromptRequest(**{"text": "Who may write?", "projects": ("demo",), **more})
    return pin_inputs(workspace, request, now).key


def test_equal_inputs_have_equal_keys_and_each_input_counts(workspace):
    first = key(workspace)
    assert key(workspace) == first
    others = [
        key(workspace, text="Who may read?"),
        key(workspace, lock=True),
        key(workspace, off=("catalog.md",)),
        key(workspace, files=("settings.yaml",)),
        key(workspace, settings={"gate.theta": "0.3"}),
        key(workspace, task="short"),
        key(workspace, now=NOW + dt.timedelta(seconds=1)),
    ]
    assert len({first, *others}) == len(others) + 1


def test_hard_rules_memory_and_documents_are_inputs(workspace, tmp_path):
    first = key(workspace)
    rules = tmp_path / "projects" / "demo" / "hard_rules.md"
    rules.parent.mkdir(parents=True)
    rules.write_text("Be brief.\n")
    second = key(workspace)
    (tmp_path / "doc_raw" / "demo" / "new.md").write_text("# New\n\nA new page about writers.\n")
    ingest_project(workspace, "demo")
    third = key(workspace)
    assert len({first, second, third}) == 3


def test_an_mtime_alone_changes_no_key(workspace, tmp_path):
    import os

    first = key(workspace)
    for path in (tmp_path / "doc_raw").rglob("*.md"):
        os.utime(path, (1, 1))
    assert not ingest_project(workspace, "demo").committed
    assert key(workspace) == first


def test_json_round_trip(workspace):
    inputs = pin_inputs(workspace, PromptRequest("Who may write?", ("demo",)), NOW)
    assert PromptInputs.from_json(inputs.to_json()) == inputs
    with pytest.raises(UsageError, match="version"):
        PromptInputs.from_json({**inputs.to_json(), "version": 99})


def test_changed_settings_hold_from_their_stage_on(workspace):
    prompt = begin(pin_inputs(workspace, PromptRequest("Who may write?", ("demo",)), NOW))
    changed = change_settings(prompt, "a3_nli_gate", {"gate.theta": "0.9"})
    inputs = inputs_of(changed)
    assert settings_at(inputs, "retrieval").gate.theta != 0.9
    assert settings_at(inputs, "a3_nli_gate").gate.theta == 0.9
    assert settings_at(inputs, "prompt_builder").gate.theta == 0.9
    again = inputs_of(change_settings(changed, "a3_nli_gate", {"gate.theta": "0.1"}))
    assert settings_at(again, "a3_nli_gate").gate.theta == 0.1
    with pytest.raises(UnknownSetting, match="not a setting that one prompt"):
        change_settings(prompt, "retrieval", {"dagster.port": "1"})


def test_task_profiles_and_explicit_settings_reach_the_chain(workspace):
    inputs = pin_inputs(
        workspace,
        PromptRequest("Who?", ("demo",), task="chat", settings={"retrieval.depth": "7"}),
        NOW,
    )
    assert inputs.settings["rerank"]["keep"] == 5
    assert inputs.settings["retrieval"]["depth"] == 7


def test_a_file_of_two_projects_must_say_which(workspace, tmp_path):
    write_docs(tmp_path, "other")
    ingest_project(workspace, "other")
    with pytest.raises(UsageError, match="give its full path"):
        pin_inputs(workspace, PromptRequest("Who?", ("demo", "other"), off=("catalog.md",)), NOW)
    inputs = pin_inputs(
        workspace, PromptRequest("Who?", ("demo", "other"), off=("demo/catalog.md",)), NOW
    )
    assert inputs.off == ("demo/catalog.md",)


def test_the_key_names_the_version_of_every_stage(workspace, monkeypatch):
    from ragstream_core.wiring import prompt_inputs

    first = pin_inputs(workspace, PromptRequest("Who may write?", ("demo",)), NOW)
    assert tuple(first.code) == OPS
    raised = {**first.code, "a3_nli_gate": first.code["a3_nli_gate"] + 1}
    monkeypatch.setattr(prompt_inputs, "STAGE_VERSIONS", raised)
    assert key(workspace) != first.key


def test_a_record_from_before_stages_had_versions_is_read(workspace):
    inputs = pin_inputs(workspace, PromptRequest("Who may write?", ("demo",)), NOW)
    assert PromptInputs.from_json({**inputs.to_json(), "code": "ab" * 32}).code == {}


@pytest.mark.parametrize("field", ["text", "projects", "files", "off", "diffs"])
def test_bytes_that_are_no_text_are_refused_with_their_place(field):
    bad = "lock \udcff what"
    given = {"text": "What?", "projects": ("demo",), field: bad if field == "text" else (bad,)}
    with pytest.raises(UsageError, match="not UTF-8 at character 5, after 'lock '"):
        PromptRequest(**given)
