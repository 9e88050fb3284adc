"""Dagster's records in PostgreSQL by one setting: shared by several data roots and web servers."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import dagster as dg
import psycopg
import pytest

from ragstream_assets import failures, instance
from ragstream_core.config import child_environment
from ragstream_core.errors import OperationFailed, UnknownSetting
from ragstream_core.ingestion.ingestion_manager import IngestionManager
from ragstream_core.services.replay import replay_prompt
from tests.processes import free_port, until
from tests.recorded import record_ingest, record_prompt

SUCCESS = dg.DagsterRunStatus.SUCCESS
WAIT_S = 120


@pytest.fixture
def shared(open_root, root, database, monkeypatch):
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "")  # restored afterwards
    return open_root(root, **{"dagster.storage": database, "dagster.max_runs": "7"})


def runs(space):
    return instance.instance_for(space.config).get_runs()


def test_runs_are_recorded_there_and_prompts_replay(shared, request_):
    stats, run_id = record_ingest(shared, "demo")
    assert stats.committed and not stats.warnings
    found = record_prompt(shared, request_)
    assert found.run_id and not found.warnings
    assert {run.run_id for run in runs(shared)} == {run_id, found.run_id}
    assert {run.status for run in runs(shared)} == {SUCCESS}
    home = instance.instance_for(shared.config)
    assert "postgres" in type(home.event_log_storage).__module__
    assert home.get_concurrency_config().run_queue_config.max_concurrent_runs == 7
    assert not list((shared.data_dir / "dagster_home").rglob("*.db"))
    assert replay_prompt(shared, found.record.prompt_key).verdict == "identical"


def test_what_lies_in_sqlite_stays_and_comes_back(space, open_root, root, database, monkeypatch):
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "")
    _, run_id = record_ingest(space, "demo")
    moved = open_root(root, **{"dagster.storage": database})
    assert runs(moved) == []
    assert [run.run_id for run in runs(space)] == [run_id]


def test_the_file_holds_no_address_and_a_wrong_one_is_named(open_root, root, database, monkeypatch):
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "")
    secret = "hunter" + "2secret"
    space = open_root(root, **{"dagster.storage": database.replace("m@", f"m:{secret}@")})
    home = instance.ready_home(space.config)
    written = "".join(path.read_text() for path in home.glob("*.yaml"))
    assert "env: DAGSTER_POSTGRES_URL" in written and secret not in written
    away = f"postgresql://me:{secret}@127.0.0.1:1/none"
    with pytest.raises(OperationFailed, match=r"127\.0\.0\.1:1") as told:
        record_ingest(open_root(root, **{"dagster.storage": away}), "demo")
    assert "check host, port" in told.value.hint and secret not in str(told.value)
    with pytest.raises(UnknownSetting, match="no address of a database"):
        instance.ready_home(open_root(root, **{"dagster.storage": "mysql://x/y"}).config)


NOWHERE = {"RAGSTREAM_DAGSTER__STORAGE": "postgresql://me:s3cret-word@127.0.0.1:1/none"}
OPEN = {"RAGSTREAM_PAGE__ADDRESS": "0.0.0.0"}


@pytest.mark.parametrize(
    ("module", "given", "code", "said"),
    [
        ("ragstream_app.server.dagster_servers web", NOWHERE, 1, "nobody answers there"),
        ("ragstream_app.server.dagster_servers daemon", NOWHERE, 1, "nobody answers there"),
        ("ragstream_app.server.page", OPEN, 3, "would open the page to others"),
        ("ragstream_app.api.server", {"RAGSTREAM_EMBEDDINGS__NONE": "1"}, 2, "embeddings.none"),
    ],
)
def test_a_server_that_cannot_begin_says_why_and_what_next(root, module, given, code, said):
    done = subprocess.run(
        [sys.executable, "-m", *module.split()], capture_output=True, text=True, check=False,
        timeout=WAIT_S, env={**os.environ, "RAGSTREAM_DATA_DIR": str(root), **given},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    error, next_ = done.stderr.strip().splitlines()[-2:]
    assert error.startswith("error: ") and said in error and next_.startswith("  next: ")
    assert "Traceback" not in done.stderr and "s3cret" not in done.stderr


def test_tables_that_cannot_be_read_or_made_say_why(shared, database):
    instance.instance_for(shared.config)
    instance.drop_instances()
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("ALTER TABLE runs RENAME COLUMN update_timestamp TO other")
        with pytest.raises(OperationFailed, match=r"column runs\.update_timestamp does not exist"):
            instance.instance_for(shared.config)
        db.execute("UPDATE alembic_version SET version_num = 'f495c27d5019'")
        with pytest.raises(OperationFailed, match="dagster instance migrate") as error:
            instance.instance_for(shared.config)
        assert "DAGSTER_POSTGRES_URL" in error.value.hint
        db.execute("DROP SCHEMA public CASCADE")
        with pytest.raises(OperationFailed, match="no schema has been selected") as error:
            instance.instance_for(shared.config)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_database_that_restarts_while_a_run_goes_on(shared, postgres, monkeypatch, how):
    real = IngestionManager.run

    def run(self, *args, **more):
        postgres.restart(how)
        return real(self, *args, **more)

    monkeypatch.setattr(IngestionManager, "run", run)
    stats, run_id = record_ingest(shared, "demo")
    assert stats.committed and not stats.warnings
    (one,) = runs(shared)
    assert (one.run_id, one.status) == (run_id, SUCCESS)


def test_a_database_that_is_away_in_the_middle_of_a_run_costs_it_a_line(
    shared, postgres, monkeypatch
):
    monkeypatch.setattr(failures, "LOG_EVERY_S", 0.0)
    real = IngestionManager.run

    def run(self, *args):
        postgres.stop(signal.SIGKILL)
        self._progress("read", 0, 1)
        postgres.restart(signal.SIGKILL)
        return real(self, *args)

    monkeypatch.setattr(IngestionManager, "run", run)
    stats, run_id = record_ingest(shared, "demo")
    assert stats.committed and not stats.warnings
    (one,) = runs(shared)
    assert (one.run_id, one.status) == (run_id, SUCCESS)


@pytest.mark.slow
def test_a_second_web_server_of_another_data_root_shows_the_run(
    shared, open_root, tmp_path, database
):
    _, run_id = record_ingest(shared, "demo")
    other = open_root(tmp_path / "other", **{"dagster.storage": database})
    port = free_port()
    env = {**child_environment(other.config), "RAGSTREAM_DAGSTER__STORAGE": database,
           "RAGSTREAM_DAGSTER__PORT": str(port)}  # fmt: skip
    log = (tmp_path / "web.log").open("wb")
    command = [sys.executable, "-m", "ragstream_app.server.dagster_servers", "web"]
    with subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True) as web:
        try:
            assert until(lambda: asked(port, "{ version }"), WAIT_S)
            query = "{ runsOrError { ... on Runs { results { runId status } } } }"
            found = asked(port, query)["data"]["runsOrError"]["results"]
        finally:
            os.killpg(web.pid, signal.SIGTERM)
    assert found == [{"runId": run_id, "status": "SUCCESS"}]


def asked(port, query):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql",
        json.dumps({"query": query}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except OSError:
        return None
