"""A question typed into the Launchpad: launched, moved to the inbox, and nowhere in Dagster."""

import json
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_graphql.test.utils import execute_dagster_graphql

from ragstream_assets.definitions import defs
from ragstream_assets.launchpad import TYPED, typed_request
from ragstream_assets.resources import adopt
from ragstream_core.errors import EmptyPrompt, UsageError
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.inputs import PromptRequest
from tests.assets.executing import execute

WORDS = "What does a killed ingest of the zebrafinch leave behind?"
TRACE = b"zebrafinch"
WORKSPACE = str(Path(__file__).parents[2] / "workspace.yaml")
SELECTOR = {"repositoryLocationName": "ragstream", "repositoryName": "__repository__"}
LAUNCH = """
mutation($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message stack }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""
FIELDS = """
query($selector: PipelineSelector!, $mode: String!) {
  runConfigSchemaOrError(selector: $selector, mode: $mode) {
    ... on RunConfigSchema { allConfigTypes { ... on CompositeConfigType {
      fields { name description defaultValueAsJson isRequired configTypeKey } } } }
  }
}
"""


def _launch(space, home, config, job="build_prompt"):
    return execute(space, home, job=job, ops={OPS[0]: config})


def _holding(root):
    """The files of Dagster's that hold the words."""
    home = root / "dagster_home"
    return [p for p in home.rglob("*") if p.is_file() and TRACE in p.read_bytes()]


def test_a_typed_question_runs_and_leaves_a_reference(ingested, home, root):
    config = {"prompt": WORDS, "projects": ["demo"], "files": ["setup.txt"], "lock": False}
    result = _launch(ingested, home, config | {"settings": {"prompt.max_facts": 2}})
    assert result.success
    made = result.output_for_node(OPS[-1])
    assert "zebrafinch" in made.extras.super_prompt
    assert [row.path for row in made.extras.files] == ["setup.txt"]
    kept = home.get_run_by_id(result.run_id).run_config["ops"][OPS[0]]["config"]
    assert not set(kept) & set(TYPED) and kept["settings"] == {"prompt.max_facts": 2}
    expected = PromptRequest(WORDS, ("demo",), files=("setup.txt",))
    assert ingested.store.request(kept["prompt_ref"]) == expected
    assert home.get_run_by_id(result.run_id).status is dg.DagsterRunStatus.SUCCESS
    again = _launch(ingested, home, kept)
    assert again.output_for_node(OPS[-1]).extras.super_prompt == made.extras.super_prompt


def test_run_storage_holds_no_word_of_it(ingested, home, root):
    """Previews of a finished prompt are events, and end with the run; its config is no place."""
    result = _launch(ingested, home, {"prompt": WORDS, "projects": ["nowhere"]})
    assert not result.success
    assert _holding(root) == []
    shown = json.dumps([entry.to_json() for entry in home.all_logs(result.run_id)])
    assert "zebrafinch" not in shown and "nowhere" in shown


def test_where_nothing_may_be_kept_it_is_refused_and_taken_out(ingested, home, root):
    config = {"prompt": WORDS, "settings": {"history.persist": False}}
    result = _launch(ingested, home, config)
    assert not result.success
    assert _holding(root) == [] and not list(ingested.store.root.glob("inbox/*"))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"prompt": "?!"}, "the prompt is empty"),
        ({"projects": ["demo"]}, "projects is given, and no prompt"),
        ({"prompt": WORDS, "prompt_ref": "sha256:" + "0" * 64}, "prompt and prompt_ref are given"),
        ({"prompt": WORDS, "files": ["none.md"]}, "none.md"),
        ({"prompt": WORDS, "task": "none"}, "none"),
        ({"prompt": WORDS, "session": "a b"}, "not a session name"),
    ],
)
def test_what_cannot_be_asked_is_said_and_taken_out(ingested, home, root, config, said):
    result = _launch(ingested, home, config)
    assert not result.success
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    assert said in failed.step_failure_data.error.message
    assert _holding(root) == []


def test_of_several_projects_one_is_to_be_named(ingested, make_project):
    make_project("other")
    with pytest.raises(UsageError, match="no project is given") as error:
        typed_request(ingested, {"prompt": WORDS})
    assert "demo, other" in error.value.hint
    assert typed_request(ingested, {"prompt": WORDS, "projects": ["other"]}).projects == ("other",)
    assert typed_request(ingested, {"prompt_ref": "example", "projects": [], "lock": False}) is None
    with pytest.raises(EmptyPrompt):
        typed_request(ingested, {"prompt": "...", "projects": ["demo"]})


def test_every_field_has_a_meaning_and_a_default():
    for job in ("build_prompt", "answer_question"):
        ops = defs.resolve_job_def(job).run_config_schema.run_config_schema_type.fields["ops"]
        fields = ops.config_type.fields[OPS[0]].config_type.fields["config"].config_type.fields
        for name in TYPED:
            assert fields[name].description and fields[name].default_provided, name


@pytest.mark.slow
@pytest.mark.parametrize("job", ["build_prompt", "answer_question"])
def test_launched_through_graphql_as_the_launchpad_does(ingested, home, root, monkeypatch, job):
    monkeypatch.setenv("PYTHONPATH", str(Path(WORKSPACE).parent))
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BACKEND", "scripted")
    config = {
        "resources": {"workspace": {"config": adopt(ingested)}},
        "ops": {OPS[0]: {"config": {"prompt": WORDS, "projects": ["demo"]}}},
    }
    with WorkspaceProcessContext(home, WorkspaceFileTarget([WORKSPACE])) as web:
        context = web.create_request_context()
        selector = {**SELECTOR, "pipelineName": job}
        given = {"selector": selector, "mode": "default"}
        offered = json.dumps(execute_dagster_graphql(context, FIELDS, variables=given).data)
        assert "When the run begins it moves to the inbox" in offered
        params = {
            "selector": {**SELECTOR, "jobName": job}, "runConfigData": config, "mode": "default",
        }  # fmt: skip
        answer = execute_dagster_graphql(context, LAUNCH, variables={"params": params})
        launched = answer.data["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        run_id = launched["run"]["runId"]
        home.launch_run(run_id, context)
        home.run_launcher.join(120)
    run = home.get_run_by_id(run_id)
    assert run.status is dg.DagsterRunStatus.SUCCESS
    kept = run.run_config["ops"][OPS[0]]["config"]
    assert ingested.store.request(kept["prompt_ref"]) == PromptRequest(WORDS, ("demo",))
    assert "zebrafinch" not in json.dumps(run.run_config)
