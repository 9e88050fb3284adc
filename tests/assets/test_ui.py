"""What Dagster's pages do: launch a prompt's job, and its re-execute buttons."""

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_graphql.test.utils import execute_dagster_graphql

from ragstream_assets.resources import adopt
from ragstream_core.prompts.chain import OPS
from ragstream_core.wiring.make_prompt import rerun

WORKSPACE = str(Path(__file__).parents[2] / "workspace.yaml")
LAUNCH = """
mutation($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId stepKeysToExecute } }
    ... on PythonError { message stack }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""
SELECTOR = {
    "repositoryLocationName": "ragstream",
    "repositoryName": "__repository__",
    "jobName": "build_prompt",
}
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
    (result,) = answer.data.values()
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
    asked = {"prompt_ref": ingested.store.put_request(request_), "fresh": True}
    resources = {"workspace": {"config": adopt(ingested)}}
    config = {"ops": {OPS[0]: {"config": asked}}, "resources": resources}
    first = _launched(web, home, LAUNCH, {"selector": SELECTOR, "runConfigData": config})
    assert first.status is dg.DagsterRunStatus.SUCCESS
    (made,) = map(ingested.store.record, ingested.store.keys())
    assert made.run_id == first.run_id
    again = _launched(web, home, REEXECUTE, {"parentRunId": first.run_id, "strategy": "ALL_STEPS"})
    assert again.status is dg.DagsterRunStatus.SUCCESS
    assert _succeeded(home, again.run_id) == list(OPS)
    records = [*map(ingested.store.record, ingested.store.keys())]
    assert {record.output_sha256 for record in records} == {made.output_sha256}
    assert again.run_id in {record.run_id for record in records}

    ops = OPS[OPS.index("a4_condenser") :]
    config = dict(home.get_run_by_id(first.run_id).run_config)
    config["ops"] = {**config["ops"], ops[0]: {"config": {"settings": {"prompt.max_facts": "1"}}}}
    changed = _launched(
        web,
        home,
        REEXECUTE_STEPS,
        {
            "selector": SELECTOR,
            "runConfigData": config,
            "stepKeys": list(ops),
            "executionMetadata": {"parentRunId": first.run_id, "rootRunId": first.run_id},
        },
    )
    assert changed.status is dg.DagsterRunStatus.SUCCESS
    assert _succeeded(home, changed.run_id) == list(ops)
    expected = rerun(ingested, made.prompt_key, ops[0], settings={"prompt.max_facts": "1"})
    assert expected.key in set(ingested.store.keys())
    assert expected.key not in {record.prompt_key for record in records}
