"""The same commands and buttons with recording on, as it is by default."""

import json
import signal
from itertools import pairwise

import pytest

from ragstream_app import prompt_runner
from ragstream_app.page.prompt_session import PromptSession, press, press_all
from ragstream_assets.recorder.writer import writer
from ragstream_core.prompts.chain import BUTTONS
from ragstream_core.prompts.inputs import PromptRequest

QUESTION = "How does the exact file lock restrict a prompt?"


@pytest.fixture
def recording(data, recording):
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
    from ragstream_core.wiring.workspace import open_workspace

    assert run("ingest", "manual", "--no-record")[0] == 0
    workspace, desk = open_workspace(), PromptSession()
    request = PromptRequest(QUESTION, ("manual",))
    for button in BUTTONS:
        press(desk, button, request, workspace)
    assert writer.flush(60)
    steps = [desk.steps[button] for button in BUTTONS]
    assert all(step.run_id and not step.notes for step in steps)
    parents = {r.run_id: r.parent_run_id for r in runs(recording)}
    for before, after in pairwise(steps):
        assert parents[after.run_id] == before.run_id
    text = desk.last.prompt.extras.super_prompt
    again = PromptSession()
    press_all(again, request, workspace, fresh=True)
    assert again.last.prompt.extras.super_prompt == text
    assert again.last.prompt_key and len(again.steps) == len(BUTTONS)
    assert writer.flush(60)
    (whole,) = {step.run_id for step in again.steps.values()}  # one run, all of its stages
    (recorded,) = [r for r in runs(recording) if r.run_id == whole]
    assert recorded.parent_run_id is None and recorded.tags["ragstream/mode"] == "run"
    assert recorded.tags["ragstream/session"] == again.id != desk.id
    press(again, "ReRanker", request, workspace)
    assert writer.flush(60) and list(again.steps) == list(BUTTONS[:4])
    assert {r.run_id: r.parent_run_id for r in runs(recording)}[again.last.run_id] == whole
    done = steps[BUTTONS.index("ReRanker")].prompt.extras.trail
    assert again.last.prompt.extras.trail == done


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_command_answers_first_and_waits_for_its_run_a_while(
    recording, run, monkeypatch, interrupted
):
    from ragstream_assets.recorder.writer import Recording, Writer
    from ragstream_assets.run_here import one_run

    assert run("ingest", "manual", "--no-record")[0] == 0
    monkeypatch.setattr(prompt_runner, "QUIET_S", 0.05)
    monkeypatch.setattr(prompt_runner, "PATIENCE_S", 30.0 if interrupted else 0.05)
    monkeypatch.setattr("ragstream_assets.recorder.writer.writer", writer := Writer())
    monkeypatch.setattr("ragstream_assets.recorder.chain_run.writer", writer)
    waited = Recording.wait

    def wait(self, seconds):
        if interrupted and seconds == prompt_runner.PATIENCE_S:
            signal.raise_signal(signal.SIGINT)
        return waited(self, seconds)

    monkeypatch.setattr(Recording, "wait", wait)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with one_run:
            code, out, err = run("prompt", QUESTION, "-p", "manual")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert code == 0 and QUESTION in out
    assert "saving the run in Dagster" in err and "took too long; the prompt is kept" in err
    assert writer.flush(60)
