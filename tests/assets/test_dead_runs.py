"""A run of a process that died is closed by the next look of the folder sensor, and no other."""

import dagster as dg
import pytest
from dagster import DagsterRunStatus as Status

from ragstream_assets import reconcile, sensors
from ragstream_assets.definitions import defs
from tests.assets.executing import execute

DEAD = {**reconcile.process_tags(), reconcile.START_TAG: "1"}
NAMES = {
    reconcile.PID_TAG: "ragstream/pid",
    reconcile.START_TAG: "ragstream/pid_start",
    reconcile.HOST_TAG: "ragstream/host",
}
VISIBLE = """query($id: ID!) { runOrError(runId: $id) { ... on Run { tags { key } } } }"""


def _open_run(home, tags, status, **given):
    job = defs.resolve_job_def("ingest_documents")
    return home.create_run_for_job(job, tags=tags, status=status, **given).run_id


def _begins(home, run):
    began = dg.DagsterEvent("PIPELINE_START", "ingest_documents")
    home.report_dagster_event(began, run_id=run)


@pytest.mark.parametrize("inherited", [{}, DEAD])
def test_a_run_names_the_process_that_runs_it(space, home, inherited):
    result = execute(space, home, job="ingest_documents", project="demo", tags=inherited)
    assert reconcile.process_tags().items() <= home.get_run_by_id(result.run_id).tags.items()


def test_the_sensor_closes_runs_of_dead_processes_alone(space, home):
    dead = _open_run(home, DEAD, Status.STARTED)
    ending = _open_run(home, DEAD, Status.CANCELING)
    mine = _open_run(home, reconcile.process_tags(), Status.STARTED)
    launching = _open_run(home, DEAD, Status.STARTING)  # names of the run that it repeats
    nameless = _open_run(home, {}, Status.STARTED)
    sensors.tick(space, home, None)
    ids = dg.RunsFilter(run_ids=[dead, ending])
    assert {run.status for run in home.get_runs(ids)} == {Status.FAILURE}
    left = {run: home.get_run_by_id(run).status for run in (mine, launching, nameless)}
    assert left == {
        mine: Status.STARTED,
        launching: Status.STARTING,
        nameless: Status.STARTED,
    }


def test_a_repeated_run_that_has_just_begun_is_at_work(space, home, monkeypatch):
    parent = _open_run(home, DEAD, Status.SUCCESS)
    family = {"parent_run_id": parent, "root_run_id": parent}
    repeated = _open_run(home, DEAD, Status.STARTING, **family)
    alone = _open_run(home, DEAD, Status.STARTING)
    for run in (repeated, alone):
        _begins(home, run)
    assert reconcile.mark_stale_runs(home, space.config) == [alone]
    monkeypatch.setattr(reconcile, "NAMING_S", 0.0)
    assert reconcile.mark_stale_runs(home, space.config) == [repeated]


def test_a_repeated_run_that_is_made_and_not_yet_launched_is_no_dead_one(space, home, monkeypatch):
    """Dagster's web server makes a run first and launches it then; the sensor may look between."""
    parent = _open_run(home, DEAD, Status.SUCCESS)
    family = {"parent_run_id": parent, "root_run_id": parent}
    repeated = _open_run(home, DEAD, Status.NOT_STARTED, **family)
    alone = _open_run(home, DEAD, Status.NOT_STARTED)
    assert reconcile.mark_stale_runs(home, space.config) == [alone]
    monkeypatch.setattr(reconcile, "NAMING_S", 0.0)
    assert reconcile.mark_stale_runs(home, space.config) == [repeated]


def test_a_run_that_ends_while_it_is_looked_at_has_ended_well(space, home, monkeypatch):
    run = _open_run(home, DEAD, Status.STARTED)

    def process_start(pid):
        home.report_dagster_event(dg.DagsterEvent("PIPELINE_SUCCESS", "ingest_documents"), run)
        return ""

    monkeypatch.setattr(reconcile, "process_start", process_start)
    assert reconcile.mark_stale_runs(home, space.config) == []
    assert home.get_run_by_id(run).status is Status.SUCCESS


def test_runs_with_the_names_of_before_are_still_known(space, home):
    mine, dead = (
        {before: tags[name] for name, before in NAMES.items()}
        for tags in (reconcile.process_tags(), DEAD)
    )
    ids = [_open_run(home, tags, Status.STARTED) for tags in (mine, dead)]
    repeated = _open_run(home, {**dead, **reconcile.process_tags()}, Status.STARTED)
    assert reconcile.mark_stale_runs(home, space.config) == [ids[1]]
    assert home.get_run_by_id(repeated).status is Status.STARTED


def test_a_run_of_another_container_on_this_host_is_not_ours_to_end(space, home):
    """Its pid is counted in a namespace of its own, so here it names nobody, or another process."""
    container = _open_run(home, {**DEAD, reconcile.SPACE_TAG: "1"}, Status.STARTED)
    unnamed = {name: value for name, value in DEAD.items() if name != reconcile.SPACE_TAG}
    before = _open_run(home, unnamed, Status.STARTED)
    assert reconcile.mark_stale_runs(home, space.config) == [before]
    assert home.get_run_by_id(container).status is Status.STARTED


def test_the_names_of_a_process_are_not_among_the_tags_that_people_see(space, home):
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import EmptyWorkspaceTarget
    from dagster_graphql.test.utils import execute_dagster_graphql

    run = _open_run(home, {**reconcile.process_tags(), "ragstream/stage": "a2"}, Status.STARTED)
    with WorkspaceProcessContext(home, EmptyWorkspaceTarget()) as process:
        context = process.create_request_context()
        answer = execute_dagster_graphql(context, VISIBLE, variables={"id": run})
    keys = {row["key"] for row in answer.data["runOrError"]["tags"]}
    assert "ragstream/stage" in keys and not any("pid" in key or "host" in key for key in keys)
