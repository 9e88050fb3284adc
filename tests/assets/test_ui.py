"""What the Dagster UI does with a run that was recorded in this process: its re-execute buttons."""

import datetime as dt
import json
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_graphql.test.utils import execute_dagster_graphql

from ragstream_core.prompts.chain import OPS, ops_of
from tests.recorded import record_prompt, record_stage

WORKSPACE = str(Path(__file__).parents[2] / "workspace.yaml")
REEXECUTE = """
mutation($params: ReexecutionParams!) {
  launchRunReexecution(reexecutionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId stepKeysToExecute } }
    ... on PythonError { message stack }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""
REEXECUTE_STEPS = """
mutation($params: ExecutionParams!) {
  launchRunReexecution(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId stepKeysToExecute } }
    ... on PythonError { message stack }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""


@pytest.fixture
def web(ingested, home, monkeypatch):
    """The web server's view of the world: the code location runs in a process of its own."""
    monkeypatch.setenv("PYTHONPATH", str(Path(WORKSPACE).parent))
    with WorkspaceProcessContext(home, WorkspaceFileTarget([WORKSPACE])) as process:
        yield process


def _launched(web, home, query, params):
    context = web.create_request_context()
    answer = execute_dagster_graphql(context, query, variables={"params": params})
    result = answer.data["launchRunReexecution"]
    assert result["__typename"] == "LaunchRunSuccess", result
    run = home.get_run_by_id(result["run"]["runId"])
    assert run.status is dg.DagsterRunStatus.QUEUED
    launched = home.launch_run(run.run_id, context)  # what the daemon does with a queued run
    home.run_launcher.join(120)
    return home.get_run_by_id(launched.run_id)


def _succeeded(home, run_id):
    records = home.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_SUCCESS).records
    return [r.event_log_entry.step_key for r in records]


@pytest.mark.slow
def test_all_steps_again_and_a_middle_stage_with_another_setting(web, ingested, home, request_):
    first = record_prompt(ingested, request_)
    again = _launched(web, home, REEXECUTE, {"parentRunId": first.run_id, "strategy": "ALL_STEPS"})
    assert again.status is dg.DagsterRunStatus.SUCCESS
    assert _succeeded(home, again.run_id) == list(OPS)
    (same,) = map(ingested.store.record, ingested.store.keys())
    assert same.inputs == json.loads(json.dumps(first.record.inputs))
    assert same.run_id == again.run_id

    ops = OPS[OPS.index("a4_condenser") :]
    config = dict(home.get_run_by_id(first.run_id).run_config)
    config["ops"] = {**config["ops"], ops[0]: {"config": {"settings": {"prompt.max_facts": "1"}}}}
    changed = _launched(
        web,
        home,
        REEXECUTE_STEPS,
        {
            "selector": {
                "repositoryLocationName": "ragstream",
                "repositoryName": "__repository__",
                "jobName": "build_prompt",
            },
            "runConfigData": config,
            "stepKeys": list(ops),
            "executionMetadata": {"parentRunId": first.run_id, "rootRunId": first.run_id},
        },
    )
    assert changed.status is dg.DagsterRunStatus.SUCCESS
    assert _succeeded(home, changed.run_id) == list(ops)
    keys = set(ingested.store.keys())
    assert len(keys) == 2
    expected = record_stage(ingested, first, ops, settings={"prompt.max_facts": "1"})
    assert {expected.record.prompt_key, first.record.prompt_key} == keys


@pytest.mark.slow
def test_a_buttons_run_again_from_the_ui(web, ingested, home, request_):
    """A run of one stage, written behind a press, is repeated and gone on from as any other."""
    first = record_prompt(ingested, request_, through="a3")
    button = record_stage(ingested, first, ops_of("A4 Condenser"))
    assert home.get_run_by_id(button.run_id).parent_run_id == first.run_id
    again = _launched(web, home, REEXECUTE, {"parentRunId": button.run_id, "strategy": "ALL_STEPS"})
    assert again.status is dg.DagsterRunStatus.SUCCESS
    assert set(ops_of("A4 Condenser")) <= set(_succeeded(home, again.run_id))

    rest = OPS[OPS.index("a5_format_enforcer") :]
    went_on = _launched(
        web,
        home,
        REEXECUTE_STEPS,
        {
            "selector": {
                "repositoryLocationName": "ragstream",
                "repositoryName": "__repository__",
                "jobName": "build_prompt",
            },
            "runConfigData": home.get_run_by_id(button.run_id).run_config,
            "stepKeys": list(rest),
            "executionMetadata": {"parentRunId": button.run_id, "rootRunId": first.run_id},
        },
    )
    assert went_on.status is dg.DagsterRunStatus.SUCCESS
    assert _succeeded(home, went_on.run_id) == list(rest)
    (key,) = ingested.store.keys()
    whole = record_prompt(ingested, request_, now=_moment(first))
    assert whole.record.prompt_key == key


def _moment(found):
    return dt.datetime.fromisoformat(found.inputs.now).replace(
        tzinfo=dt.timezone(
            dt.datetime.fromisoformat(found.inputs.now).utcoffset(), found.inputs.time_zone
        )
    )
