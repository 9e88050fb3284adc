"""The mirror in Dagster: by name only, with its figures; an ingest never contacts anybody."""

import socket

import pytest

from ragstream_assets.definitions import defs
from ragstream_assets.documents import (
    FILE_MANIFEST,
    INDEX,
    INGEST_JOB,
    SYNC_JOB,
    IngestConfig,
)
from ragstream_assets.events import MIRROR
from ragstream_core.services.projects import AddRequest, add
from tests.assets.executing import execute, shown
from tests.remote_servers import WebServer
from tests.workspaces import DOCS, hashed_workspace, write_docs

SYNC = {"ingest": {"sync": True}}
"""What the Launchpad fills in for the job `sync_documents`."""


@pytest.fixture
def web():
    with WebServer() as server:
        server.address = server.put({path: text.encode() for path, text in DOCS.items()})
        yield server


def test_the_job_fetches_and_ingests(tmp_path, home, web):
    space = hashed_workspace(tmp_path / "data")
    add(space, "guide", AddRequest([web.address]))
    result = execute(space, home, job="sync_documents", ops=SYNC, project="guide")
    assert result.success
    told = shown(result, MIRROR.key)
    assert (told["fetched"], told["failed"], told["complete"]) == (len(DOCS), 0, True)
    assert told["bytes"] == sum(map(len, web.files.values())) - len(web.files["/docs/SHA256SUMS"])
    assert shown(result, INDEX.key)["documents"] == len(DOCS)


def test_a_place_that_does_not_answer_leaves_what_was_fetched(tmp_path, home, web):
    space = hashed_workspace(tmp_path / "data")
    add(space, "guide", AddRequest([web.address]))
    assert execute(space, home, job="sync_documents", ops=SYNC, project="guide").success
    web.shutdown()
    web.server_close()
    result = execute(space, home, job="sync_documents", ops=SYNC, project="guide")
    assert [event.node_name for event in result.get_step_failure_events()] == ["ingest"]
    assert shown(result, FILE_MANIFEST.key)["unchanged"] == len(DOCS)
    again = execute(space, home, job="ingest_documents", project="guide")
    assert shown(again, FILE_MANIFEST.key)["unchanged"] == len(DOCS)


def test_an_ingest_and_every_sensor_leave_the_network_alone(tmp_path, home, web):
    space = hashed_workspace(tmp_path / "data")
    add(space, "guide", AddRequest([web.address]))
    execute(space, home, job="sync_documents", ops=SYNC, project="guide")
    asked = len(web.seen)
    result = execute(space, home, job="ingest_documents", project="guide")
    keys = [event.asset_key for event in result.get_asset_materialization_events()]
    assert result.success and MIRROR.key not in keys
    assert len(web.seen) == asked
    by_itself = [sensor.job_name for sensor in defs.sensors or () if sensor.has_jobs]
    by_itself += [schedule.job_name for schedule in defs.schedules or ()]
    assert INGEST_JOB in by_itself and SYNC_JOB not in by_itself
    assert IngestConfig().sync is False


def test_a_project_of_this_machine_has_nothing_to_fetch(tmp_path, home, monkeypatch):
    space = hashed_workspace(tmp_path / "data")
    write_docs(space.data_dir)

    def refuse(*words):
        raise AssertionError("nobody was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    result = execute(space, home, job="sync_documents", ops=SYNC, project="demo")
    assert result.success and shown(result, MIRROR.key)["fetched"] == 0


def test_the_job_syncs_as_it_stands():
    config = defs.resolve_job_def(SYNC_JOB).partitioned_config
    assert config.get_run_config_for_partition_key("guide")["ops"] == {
        "ingest": {"config": {"sync": True}}
    }
