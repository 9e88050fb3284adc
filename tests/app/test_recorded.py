"""The same commands and buttons with recording on, as it is by default."""

from __future__ import annotations

import json

import pytest

from ragstream_app.desk import Desk, press, press_all
from ragstream_core.orchestration.chain import BUTTONS
from ragstream_core.orchestration.inputs import PromptRequest

QUESTION = "How does the exact file lock restrict a prompt?"


@pytest.fixture
def recording(data, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_DAGSTER__RECORD", "dagster")
    monkeypatch.setenv("DAGSTER_HOME", "")  # the recorder sets it; restored afterwards
    return data


def runs(data):
    from ragstream_assets.instance import instance_of

    return instance_of(data).get_runs()


def test_ingest_and_prompt_leave_runs_and_say_which(recording, run):
    code, out, err = run("ingest", "manual", "--json")
    ingested = json.loads(out)
    assert code == 0 and ingested["run_id"], err
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--json")
    made = json.loads(out)
    assert code == 0 and made["run_id"] and made["prompt_key"], err
    assert {r.run_id for r in runs(recording)} == {ingested["run_id"], made["run_id"]}
    code, out, err = run("prompt", QUESTION, "-p", "manual", "--no-record", "--json")
    plain = json.loads(out)
    assert plain["run_id"] == "" and plain["super_prompt"] == made["super_prompt"]
    assert len(runs(recording)) == 2


def test_each_button_is_a_re_execution_of_the_one_before(recording, run):
    from ragstream_core.build.workspace import open_workspace

    assert run("ingest", "manual", "--no-record")[0] == 0
    workspace, desk = open_workspace(), Desk()
    request = PromptRequest(QUESTION, ("manual",))
    for button in BUTTONS:
        press(desk, button, request, workspace)
    steps = [desk.steps[button] for button in BUTTONS]
    assert all(step.run_id and not step.notes for step in steps)
    parents = {r.run_id: r.parent_run_id for r in runs(recording)}
    for before, after in zip(steps, steps[1:], strict=False):
        assert parents[after.run_id] == before.run_id
    text = desk.last.prompt.extras["super_prompt"]
    again = Desk()
    press_all(again, request, workspace)
    assert again.last.prompt.extras["super_prompt"] == text
    assert again.last.prompt_key and len(again.steps) == len(BUTTONS)
