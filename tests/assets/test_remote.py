"""The mirror in Dagster: by name only, with its figures; an ingest never contacts anybody."""

import socket

import pytest

from ragstream_assets.definitions import defs
from ragstream_assets.document_assets import FILE_MANIFEST, MIRROR_KEY
from ragstream_assets.instance import instance_of
from ragstream_assets.recorder.sync_run import STEP, record_sync
from ragstream_core.errors import Stopped, UsageError
from ragstream_core.services.projects import AddRequest, add
from ragstream_core.services.sync_project import SyncRequest
from tests.assets.executing import execute, shown, values_of
from tests.remote_servers import WebServer
from tests.workspaces import DOCS, hashed_workspace, write_docs


@pytest.fixture
def web():
    with WebServer() as server:
        server.address = server.put({path: text.encode() for path, text in DOCS.items()})
        yield server


def test_the_job_fetches_and_ingests(tmp_path, home, web):
    space = hashed_workspace(tmp_path / "data")
    add(space, "guide", AddRequest([web.address]))
    result = execute(space, home, job="sync_documents", project="guide")
    assert result.success
    told = shown(result, MIRROR_KEY)
    assert (told["fetched"], told["failed"], told["complete"]) == (len(DOCS), 0, True)
    assert told["bytes"] == sum(map(len, web.files.values())) - len(web.files["/docs/SHA256SUMS"])
    steps = [event.node_name for event in result.get_step_success_events()]
    assert steps.index("remote__mirror") < steps.index("ingest")


def test_a_place_that_does_not_answer_leaves_what_was_fetched(tmp_path, home, web):
    space = hashed_workspace(tmp_path / "data")
    add(space, "guide", AddRequest([web.address]))
    assert execute(space, home, job="sync_documents", project="guide").success
    web.shutdown()
    web.server_close()
    result = execute(space, home, job="sync_documents", project="guide")
    assert [event.node_name for event in result.get_step_failure_events()] == ["remote__mirror"]
    assert shown(result, FILE_MANIFEST.key)["unchanged"] == len(DOCS)


def test_an_ingest_and_every_sensor_leave_the_network_alone(tmp_path, home, web):
    space = hashed_workspace(tmp_path / "data")
    add(space, "guide", AddRequest([web.address]))
    execute(space, home, job="sync_documents", project="guide")
    asked = len(web.seen)
    assert execute(space, home, job="ingest_documents", project="guide").success
    assert len(web.seen) == asked
    by_itself = [sensor.job_name for sensor in defs.sensors or () if sensor.has_jobs]
    by_itself += [schedule.job_name for schedule in defs.schedules or ()]
    for name in by_itself:
        job = defs.resolve_job_def(name)
        assert MIRROR_KEY not in job.asset_layer.executable_asset_keys, name


def test_a_project_of_this_machine_has_nothing_to_fetch(tmp_path, home, monkeypatch):
    space = hashed_workspace(tmp_path / "data")
    write_docs(space.data_dir)

    def refuse(*words):
        raise AssertionError("nobody was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    result = execute(space, home, job="sync_documents", project="demo")
    assert result.success and shown(result, MIRROR_KEY)["fetched"] == 0


def test_a_sync_by_a_person_is_a_run_of_the_mirror_alone(tmp_path, home, web):
    space = hashed_workspace(tmp_path / "data", {"dagster.record": "dagster"})
    add(space, "guide", AddRequest([web.address]))
    made = record_sync(space, "guide")
    assert made.done.totals()["fetched"] == len(DOCS) and not made.warning
    instance = instance_of(space.data_dir)
    run = instance.get_run_by_id(made.run_id)
    assert run.is_success and run.job_name == "sync_documents"
    assert list(run.step_keys_to_execute) == [STEP]
    (record,) = instance.fetch_materializations(MIRROR_KEY, limit=9).records
    told = values_of(record.event_log_entry.dagster_event.event_specific_data)
    assert (told["fetched"], told["complete"]) == (len(DOCS), True)
    assert record.partition_key == "guide"
    asked = len(web.seen)
    assert web.seen.count(("GET", "/docs/SHA256SUMS")) == 1, "the run itself contacts nobody"
    again = record_sync(space, "guide")
    assert len(web.seen) > asked and again.run_id == "", "nothing came, nothing is written"
    assert len(instance.get_runs()) == 1


def test_what_could_not_be_had_has_a_run_as_well(tmp_path, home, web):
    space = hashed_workspace(tmp_path / "data", {"dagster.record": "dagster"})
    add(space, "guide", AddRequest([web.address]))
    web.files["/docs/catalog.md"] = b"changed"
    part = record_sync(space, "guide")
    assert part.run_id and not part.done.is_complete
    web.status["/docs/SHA256SUMS"] = 404
    with pytest.raises(UsageError, match="there is no such file"):
        record_sync(space, "guide")
    instance = instance_of(space.data_dir)
    with pytest.raises(UsageError, match="no project"):
        record_sync(space, "guides")
    newest, before = instance.get_runs()
    assert before.run_id == part.run_id and before.is_success and not newest.is_success
    web.status.clear()
    web.files["/docs/catalog.md"] = DOCS["catalog.md"].encode()
    looked = record_sync(space, "guide", SyncRequest(dry_run=True))
    silent = record_sync(space, "guide", record=False)
    assert looked.done.is_changed and silent.done.is_changed
    assert looked.run_id == silent.run_id == "" and len(instance.get_runs()) == 2


def test_a_sync_that_was_stopped_has_a_failed_run(tmp_path, home, web):
    space = hashed_workspace(tmp_path / "data", {"dagster.record": "dagster"})
    away = f"{web.url}/away/notes.md"
    add(space, "guide", AddRequest([web.address, away], labels=["here", "away"]))

    def progress(phase, done, total):
        if phase == "fetching":
            raise Stopped("you stopped it")

    with pytest.raises(Stopped):
        record_sync(space, "guide", progress=progress)
    (run,) = instance_of(space.data_dir).get_runs()
    assert run.is_finished and not run.is_success
    assert ("HEAD", "/away/notes.md") not in web.seen and ("GET", "/away/notes.md") not in web.seen


def test_nothing_wrong_with_dagster_stops_a_sync(tmp_path, web):
    space = hashed_workspace(tmp_path / "data", {"dagster.record": "dagster"})
    add(space, "guide", AddRequest([web.address]))
    (space.data_dir / "dagster_home").write_text("no folder")
    made = record_sync(space, "guide")
    assert made.done.is_complete and made.run_id == "" and "not recorded" in made.warning
