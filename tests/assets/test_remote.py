"""The mirror in Dagster: by name only, with its figures; an ingest never contacts anybody."""

import socket

import pytest

from ragstream_assets.definitions import defs
from ragstream_assets.document_assets import FILE_MANIFEST, MIRROR_KEY
from ragstream_core.services.projects import AddRequest, add
from tests.assets.executing import execute, shown
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
