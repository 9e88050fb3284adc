"""A run whose process was killed is failed by Dagster's own monitoring; one that lives is not."""

import logging
import os
import signal
import time
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterRunStatus as Status
from dagster._core.events import EngineEventData
from dagster._core.launcher import WorkerStatus
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._daemon.auto_run_reexecution.auto_run_reexecution import (
    consume_new_runs_for_automatic_reexecution,
)
from dagster._daemon.monitoring.run_monitoring import execute_run_monitoring_iteration
from dagster_graphql.test.utils import execute_dagster_graphql

from ragstream_assets import launcher
from ragstream_assets.definitions import defs
from ragstream_assets.documents import CHUNKS, EMBEDDINGS, FILE_MANIFEST, INDEX
from ragstream_assets.launcher import MACHINE_TAG, machine
from ragstream_assets.sensors import AGAIN
from tests.assets.executing import execute
from tests.processes import alive, children, command_of, until
from tests.recorded import record_ingest
from tests.workspaces import docs_of

REPOSITORY = Path(__file__).parents[2]
WAIT_S = 120
ASSETS = [{"path": spec.key.path} for spec in (FILE_MANIFEST, CHUNKS, EMBEDDINGS, INDEX)]
LAUNCH = """
mutation($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on Error { message }
  }
}
"""


@pytest.fixture
def at_work(space, home, monkeypatch):
    """Materialize one partition as the asset pages do; it embeds for about a minute.

    Gives Dagster's processes, the run, its process, and the code server that launched it.
    """
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("RAGSTREAM_DATA_DIR", str(space.data_dir))
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "tests.slow_words:make")
    monkeypatch.setenv("RAGSTREAM_VECTOR_STORE__COLLECTION", "false")
    monkeypatch.setenv("TEST_TEXT_S", "1")
    for n in range(60):
        (docs_of(space) / f"{n}.md").write_text(f"some words of document {n}\n")
    home.add_dynamic_partitions("project", ["demo"])
    params = {
        "selector": {
            "repositoryLocationName": "ragstream", "repositoryName": "__repository__",
            "jobName": "__ASSET_JOB", "assetSelection": ASSETS, "assetCheckSelection": [],
        },
        "executionMetadata": {"tags": [
            {"key": "dagster/partition", "value": "demo"},
            *({"key": key, "value": value} for key, value in AGAIN.items()),
        ]},
        "mode": "default",
    }  # fmt: skip
    target = WorkspaceFileTarget([str(REPOSITORY / "workspace.yaml")])
    with WorkspaceProcessContext(home, target) as context:
        request = context.create_request_context()
        (server,) = [p for p in children(os.getpid()) if "dagster" in command_of(p)]
        answer = execute_dagster_graphql(request, LAUNCH, variables={"params": params})
        launched = answer.data["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        run_id = launched["run"]["runId"]
        home.launch_run(run_id, request)
        assert until(lambda: process_of(home, run_id), WAIT_S)
        assert until(lambda: home.get_run_by_id(run_id).status is Status.STARTED, WAIT_S)
        run = int(process_of(home, run_id))
        yield context, run_id, run, server
        for process in (run, server):
            if alive(process):
                os.kill(process, signal.SIGKILL)


def process_of(home, run_id):
    events = home.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
    found = [e.get_dagster_event().engine_event_data.metadata.get("pid") for e in events]
    return next((pid.value for pid in found if pid), "")


def poll(context):
    """Let Dagster's monitoring look once."""
    assert not any(execute_run_monitoring_iteration(context, logging.getLogger("monitoring")))


def test_a_run_that_lives_is_left_alone_and_a_killed_one_is_failed(at_work, home):
    context, run_id, run, _ = at_work
    for _ in range(2):
        poll(context)
    assert home.get_run_by_id(run_id).status is Status.STARTED
    os.kill(run, signal.SIGKILL)
    # its code server may say so before; without it the second look has to
    for _ in range(2):
        poll(context)
        time.sleep(0.5)
    assert home.get_run_by_id(run_id).status is Status.FAILURE


def test_a_killed_code_server_ends_no_run_that_lives_and_hides_none_that_died(at_work, home):
    context, run_id, run, server = at_work
    os.kill(server, signal.SIGKILL)
    for _ in range(2):
        poll(context)
        time.sleep(1)
    assert alive(run) and home.get_run_by_id(run_id).status is Status.STARTED
    os.kill(run, signal.SIGKILL)
    assert until(lambda: not alive(run), WAIT_S)
    poll(context)
    dead = home.get_run_record_by_id(run_id)
    assert dead.dagster_run.status is Status.FAILURE
    said = [entry.message for entry in home.all_logs(run_id)]
    assert any(f"its process {run} is gone" in line and "next: " in line for line in said)


def test_a_run_of_a_sensor_is_launched_again_when_its_process_died(at_work, home):
    context, run_id, run, _ = at_work
    os.kill(run, signal.SIGKILL)
    assert until(lambda: not alive(run), WAIT_S)
    poll(context)
    logger = logging.getLogger("retries")
    for _ in range(2):
        record = home.get_run_record_by_id(run_id)
        list(consume_new_runs_for_automatic_reexecution(context, [record], logger))
    (again,) = home.get_runs(dg.RunsFilter(tags={"dagster/parent_run_id": run_id}))
    assert again.status is Status.QUEUED and again.tags["dagster/partition"] == "demo"


def _begun(home, pid, *, tags=None):
    """Record a run that a process has just begun."""
    job = defs.resolve_job_def("ingest_documents")
    run = home.create_run_for_job(job, tags={MACHINE_TAG: machine()} if tags is None else tags)
    home.report_engine_event("Started process for run", run, EngineEventData.in_process(pid))
    home.report_dagster_event(dg.DagsterEvent("PIPELINE_START", job.name), run.run_id)
    return home.get_run_by_id(run.run_id)


def health(home, run):
    return home.run_launcher.check_run_worker_health(run).status


def test_only_runs_of_this_machine_are_judged(home, monkeypatch):
    gone = 2**22 + 1  # above every pid of Linux
    mine = _begun(home, os.getpid())
    assert health(home, mine) is WorkerStatus.RUNNING
    assert health(home, _begun(home, gone)) is WorkerStatus.FAILED
    for tags in ({}, {MACHINE_TAG: "elsewhere 4026531836"}):
        assert health(home, _begun(home, gone, tags=tags)) is WorkerStatus.RUNNING
    monkeypatch.setattr(launcher, "machine", lambda: "another container 1")
    assert health(home, mine) is WorkerStatus.RUNNING


def test_a_process_that_got_the_number_of_a_dead_one_is_another(home, monkeypatch):
    """As after a restart of the machine, or of a container, in which numbers begin anew."""
    run = _begun(home, os.getpid())
    real = time.time
    monkeypatch.setattr(launcher.time, "time", lambda: real() + 30)
    assert health(home, run) is WorkerStatus.RUNNING
    monkeypatch.setattr(launcher.time, "time", lambda: real() + 10 * 24 * 3600)
    assert health(home, run) is WorkerStatus.FAILED


def test_a_run_that_names_no_process_yet_is_at_work(home):
    job = defs.resolve_job_def("ingest_documents")
    run = home.create_run_for_job(job, tags={MACHINE_TAG: machine()})
    assert health(home, run) is WorkerStatus.RUNNING


def test_a_run_in_this_process_names_it(space, home):
    result = execute(space, home, job="ingest_documents", project="demo")
    assert result.success and process_of(home, result.run_id) == str(os.getpid())
    _, run_id = record_ingest(space, "demo")
    assert home.get_run_by_id(run_id).tags[MACHINE_TAG] == machine()
