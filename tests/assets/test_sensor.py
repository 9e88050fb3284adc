"""The folder sensor: asks when there is something to do, and not again."""

import json
import os

import dagster as dg

from ragstream_assets import documents, sensors
from ragstream_assets.definitions import defs
from ragstream_core.errors import ProjectLocked, UsageError
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.projects import AddRequest, add
from tests.assets.executing import execute
from tests.workspaces import docs_of


def _tick(space, home, cursor=None):
    result = sensors.tick(space, home, cursor)
    for request in result.dynamic_partitions_requests or []:
        home.add_dynamic_partitions("project", request.partition_keys)
    return result


def test_a_new_folder_is_a_partition_and_a_request(space, home):
    result = _tick(space, home)
    (request,) = result.run_requests
    digest = sensors.folder_digest(space, "demo")
    assert request.partition_key == "demo"
    assert request.tags == {"ragstream/project": "demo", "dagster/max_retries": "3"}
    assert home.get_dynamic_partitions("project") == ["demo"]
    assert json.loads(result.cursor) == {"v": 1, "projects": {"demo": digest}}


def test_a_folder_that_is_no_project_is_told_with_its_reason(space, home):
    (space.data_dir / "doc_raw" / "two words").mkdir()
    first = _tick(space, home)
    second = _tick(space, home, first.cursor)
    assert "two words is not a project: not a project name" in second.skip_reason.skip_message


def test_unchanged_is_skipped_with_counts(space, home):
    again = _tick(space, home, _tick(space, home).cursor)
    assert not again.run_requests and not again.dynamic_partitions_requests
    assert again.skip_reason.skip_message == "no folder changed, of 1"


def test_what_was_ingested_by_hand_is_not_requested(ingested, home):
    assert not _tick(ingested, home).run_requests


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_requested(ingested, home):
    """As `rsync -t`, `cp -p` and a restored backup leave it."""
    cursor = _tick(ingested, home).cursor
    path = next(docs_of(ingested).rglob("*.md"))
    was, text = path.stat(), path.read_text()
    fresh = path.with_suffix(".new")
    fresh.write_text(text[::-1])
    os.utime(fresh, ns=(was.st_atime_ns, was.st_mtime_ns))
    fresh.replace(path)
    (request,) = _tick(ingested, home, cursor).run_requests
    assert request.partition_key == "demo"


def test_a_changed_file_is_requested_once(ingested, home):
    cursor = _tick(ingested, home).cursor
    (docs_of(ingested) / "lock.md").write_text("# Locks\n\nA longer and newer text.\n")
    changed = _tick(ingested, home, cursor)
    assert len(changed.run_requests) == 1
    assert not _tick(ingested, home, changed.cursor).run_requests


def test_what_may_pass_is_tried_again_where_nobody_waits(space, home, monkeypatch):
    """A run of a sensor waits for the lock; a person is told at once."""
    monkeypatch.setattr(dg.RetryPolicy, "calculate_delay", lambda self, attempt: 0)
    real, tries = documents.ingest_project, []

    def ingest(*given, **config):
        tries.append(1)
        if len(tries) < 3:
            raise ProjectLocked("demo is being written by process 1")
        return real(*given, **config)

    monkeypatch.setattr(documents, "ingest_project", ingest)
    by_hand = execute(space, home, job="ingest_documents", project="demo")
    assert not by_hand.success and len(tries) == 1
    tags = {"dagster/sensor_name": "folder_sensor"}
    assert execute(space, home, job="ingest_documents", project="demo", tags=tags).success
    assert len(tries) == 3


def test_a_failed_state_waits_for_a_change(space, home, monkeypatch):
    def ingest(*given, **config):
        raise UsageError("the settings are wrong")

    monkeypatch.setattr(documents, "ingest_project", ingest)
    first = _tick(space, home)
    tags = {"dagster/sensor_name": "folder_sensor", **first.run_requests[0].tags}
    result = execute(space, home, job="ingest_documents", project="demo", tags=tags)
    assert not result.success and len(result.get_failed_step_keys()) >= 1
    assert not _tick(space, home, first.cursor).run_requests
    (docs_of(space) / "lock.md").write_text("# Locks\n\nA longer and newer text.\n")
    assert _tick(space, home, first.cursor).run_requests


def test_a_damaged_cursor_costs_one_look(ingested, home):
    for cursor in ("", "{", "[]", '{"v": 2, "projects": {"demo": "x"}}', '{"v": 1, "projects": 3}'):
        assert not _tick(ingested, home, cursor).run_requests


def test_five_requests_a_tick_and_the_rest_later(space, home, make_project):
    for n in range(6):
        make_project(f"project{n}")
    first = _tick(space, home)
    second = _tick(space, home, first.cursor)
    assert (len(first.run_requests), len(second.run_requests)) == (5, 2)
    keys = {r.partition_key for r in [*first.run_requests, *second.run_requests]}
    assert len(keys) == 7
    assert len(home.get_dynamic_partitions("project")) == 7


def test_it_runs_by_default_and_evaluates_with_its_resource(space, home):
    from ragstream_assets.resources import WorkspaceResource

    sensor = defs.resolve_sensor_def("folder_sensor")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    resource = WorkspaceResource(
        data_dir=str(space.data_dir), settings={"embeddings.backend": "hashed"}
    )
    context = dg.build_sensor_context(instance=home, definitions=defs)
    result = sensors.folder_sensor(context, workspace=resource)
    assert len(result.run_requests) == 1


def test_a_folder_in_place_is_a_partition_and_its_absence_is_no_request(space, home, tmp_path):
    away = tmp_path / "notes"
    away.mkdir()
    (away / "a.md").write_text("# A\n\nalpha words\n")
    add(space, "notes", AddRequest([away]))
    first = _tick(space, home)
    assert {request.partition_key for request in first.run_requests} == {"demo", "notes"}
    for project in ("demo", "notes"):
        ingest_project(space, project)
    there = _tick(space, home, first.cursor)
    away.rename(tmp_path / "aside")
    gone = _tick(space, home, there.cursor)
    assert not there.run_requests and not gone.run_requests
    (tmp_path / "aside" / "b.md").write_text("# B\n\nbeta words\n")
    (tmp_path / "aside").rename(away)
    (back,) = _tick(space, home, gone.cursor).run_requests
    assert back.partition_key == "notes"


def test_a_project_that_cannot_be_read_does_not_keep_the_others_from_being_looked_at(space, home):
    (space.data_dir / "projects" / "broken").mkdir(parents=True)
    (space.data_dir / "projects" / "broken" / "project.yaml").write_text("roots: 7\n")
    found = _tick(space, home).run_requests
    assert [request.partition_key for request in found] == ["broken", "demo"]
