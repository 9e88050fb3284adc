"""A process of another host that is gone is noticed through PostgreSQL; whoever answers is not."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import dagster as dg
import psycopg
import pytest
from dagster import DagsterRunStatus as Status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstream_assets import instance, reconcile, roll_call
from ragstream_assets.definitions import defs
from ragstream_core.config import child_environment
from tests.processes import until
from tests.worker_hosts import ELSEWHERE, REPOSITORY

WAIT_S = 180
STARTED = dg.RunsFilter(statuses=[Status.STARTED])
QUICK = {"EVERY_S": 0.5, "APART_S": 0.6}
"""The seconds of the tests, a fortieth: a dead process is noticed in ten of them."""
TEXTS = 60


@pytest.fixture
def shared(open_root, root, database, monkeypatch):
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "")  # restored afterwards
    return open_root(root, **{"dagster.storage": database, "dagster.max_runs": "1"})


@pytest.fixture
def quick(monkeypatch):
    for name, seconds in QUICK.items():
        monkeypatch.setattr(roll_call, name, seconds)


@pytest.fixture
def elsewhere(shared, database, tmp_path):
    """Starts an ingest on another host, whose records lie in the same database."""
    started = []
    folder = tmp_path / "other" / "doc_raw" / "demo"
    folder.mkdir(parents=True)
    for n in range(TEXTS):
        (folder / f"{n:03}.md").write_text(f"some words of document {n}\n")
    env = child_environment(shared.config) | {
        "RAGSTREAM_DAGSTER__STORAGE": database, "RAGSTREAM_DATA_DIR": str(tmp_path / "other"),
        "RAGSTREAM_EMBEDDINGS__BACKEND": "tests.slow_words:make", "PYTHONPATH": str(REPOSITORY),
        "DAGSTER_HOME": "", "RAGSTREAM_VECTOR_STORE__COLLECTION": "false",
    }  # fmt: skip

    def start(text_s):
        words = [sys.executable, "-c", ELSEWHERE, str(QUICK["EVERY_S"]), "ingest", "demo", "--json"]
        out, err = (tmp_path / name for name in ("out", "err"))
        with out.open("wb") as o, err.open("wb") as e:
            made = subprocess.Popen(
                words, env=env | {"TEST_TEXT_S": str(text_s)}, stdout=o, stderr=e
            )
        started.append(made)
        home = instance.instance_for(shared.config)
        assert until(lambda: made.poll() is not None or home.get_runs(STARTED), WAIT_S)
        assert made.poll() is None, err.read_text()
        return made, lambda: json.loads(out.read_text())

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def statuses(home):
    return [run.status for run in home.get_runs()]


def looks(home, shared, seconds):
    """Look as the folder sensor does, for a while or until a run was failed; return which."""
    failed = []
    end = time.monotonic() + seconds
    while not failed and time.monotonic() < end:
        failed = reconcile.mark_stale_runs(home, shared.config)
        time.sleep(0.1)
    return failed


def open_run(home, config, host="elsewhere", *, answers=True, job="ingest_documents"):
    """Record a run of a process of another host."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: host)
        tags = reconcile.process_tags(config if answers else None)
    tags |= {reconcile.PROJECT_TAG: "demo"}
    made = home.create_run_for_job(
        defs.resolve_job_def(job), tags=tags, status=Status.STARTED, asset_selection=None
    )
    return made.run_id


def look_often(home, shared, times=roll_call.CALLS):
    return [run for _ in range(times) for run in reconcile.mark_stale_runs(home, shared.config)]


def test_a_run_that_leaves_its_calls_unanswered_is_failed(shared, monkeypatch):
    monkeypatch.setattr(roll_call, "APART_S", 0.0)
    home = instance.instance_for(shared.config)
    run = open_run(home, shared.config)
    assert look_often(home, shared, roll_call.CALLS - 1) == []
    assert look_often(home, shared, 1) == [run]
    assert statuses(home) == [Status.FAILURE]
    said = [
        entry.dagster_event.message
        for entry in home.all_logs(run)
        if entry.dagster_event and entry.dagster_event.is_failure
    ]
    (said,) = said
    assert f"Process {os.getpid()} on elsewhere" in said and "16 calls" in said
    assert said.endswith("next: on elsewhere: `ragstream ingest demo`")
    assert look_often(home, shared) == []


def test_runs_that_do_not_answer_or_have_other_names_are_left_alone(shared, database, monkeypatch):
    """Earlier versions do not; a run that is repeated has the names of the one before at first."""
    monkeypatch.setattr(roll_call, "APART_S", 0.0)
    home = instance.instance_for(shared.config)
    open_run(home, shared.config, answers=False)
    taken_over = open_run(home, shared.config)
    home.add_run_tags(taken_over, {reconcile.PID_TAG: "1"})
    mine = open_run(home, shared.config, host=socket.gethostname())
    assert reconcile.ANSWERS_TAG in home.get_run_by_id(mine).tags
    assert look_often(home, shared) == []
    with psycopg.connect(database) as db:
        assert db.execute("SELECT to_regclass('ragstream_roll_call')").fetchone() == (None,)


def test_a_run_named_anew_while_it_is_called_is_left_alone(shared, monkeypatch):
    monkeypatch.setattr(roll_call, "APART_S", 0.0)
    home = instance.instance_for(shared.config)
    run = open_run(home, shared.config)
    real = roll_call.call

    def call(*given):
        home.add_run_tags(run, reconcile.process_tags(shared.config))
        return real(*given)

    monkeypatch.setattr(roll_call, "call", call)
    assert look_often(home, shared) == []
    assert statuses(home) == [Status.STARTED]


def test_a_table_that_cannot_be_made_leaves_runs_as_they_are(shared, database, monkeypatch):
    monkeypatch.setattr(roll_call, "APART_S", 0.0)
    home = instance.instance_for(shared.config)
    open_run(home, shared.config)
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("CREATE TABLE ragstream_schema (part text PRIMARY KEY, version integer)")
        db.execute("INSERT INTO ragstream_schema VALUES ('roll_call', 2)")
    assert look_often(home, shared) == []
    assert statuses(home) == [Status.STARTED]


@pytest.fixture
def records(database):
    return roll_call.database_at(database, setting="dagster.storage")


def answer_once(records, run_id):
    """Answer as the thread of a process does."""

    class Ended:
        def __init__(self):
            self.waits = iter((False, True))

        def wait(self, seconds):
            return next(self.waits)

    roll_call._answer(records, run_id, Ended())


@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
@given(events=st.lists(st.sampled_from(["call a", "call both", "a answers", "b answers"])))
def test_silent_is_who_left_so_many_calls_in_a_row_unanswered(records, monkeypatch, events):
    monkeypatch.setattr(roll_call, "APART_S", 0.0)
    monkeypatch.setattr(roll_call, "CALLS", 3)
    for run in "ab":
        answer_once(records, run)
    unanswered = {"a": 0, "b": 0}
    for event in events:
        if event.endswith("answers"):
            answer_once(records, event[0])
            unanswered[event[0]] = 0
            continue
        called = ["a"] if event == "call a" else ["a", "b"]
        for run in called:
            unanswered[run] += 1
        silent = {run for run in called if unanswered[run] >= 3}
        assert roll_call.call(records, called) == silent


def test_calls_near_each_other_are_one_and_a_clock_put_back_holds_nothing_up(records, database):
    for _ in range(2 * roll_call.CALLS):
        assert roll_call.call(records, ["a"]) == set()
    with psycopg.connect(database, autocommit=True) as db:
        calls = "SELECT calls FROM ragstream_roll_call"
        assert db.execute(calls).fetchall() == [(1,)]
        for change in ("- interval '26 s'", "+ interval '1 h'"):
            db.execute(f"UPDATE ragstream_roll_call SET called = now() {change}")
            roll_call.call(records, ["a"])
        assert db.execute(calls).fetchall() == [(3,)]
        db.execute("UPDATE ragstream_roll_call SET called = now() - interval '2 days'")
        roll_call.call(records, ["b"])
        assert db.execute("SELECT run_id FROM ragstream_roll_call").fetchall() == [("b",)]


def test_without_a_database_nothing_is_asked_and_nothing_begins(space, home, monkeypatch):
    monkeypatch.setattr(roll_call, "sessions", None)
    monkeypatch.setattr(roll_call.threading, "Thread", None)
    run = open_run(home, space.config)
    assert reconcile.ANSWERS_TAG not in home.get_run_by_id(run).tags
    with roll_call.answering(space.config, run):
        assert look_often(home, space) == []


def test_a_killed_process_of_another_host_ends_its_run(shared, elsewhere, quick):
    process, _ = elsewhere(text_s=5)
    home = instance.instance_for(shared.config)
    assert looks(home, shared, 12) == [], "it lives"
    process.kill()
    (run,) = home.get_runs()
    assert looks(home, shared, WAIT_S) == [run.run_id]
    assert statuses(home) == [Status.FAILURE]


def test_a_database_that_restarts_under_a_run_takes_nobody_for_dead(
    shared, elsewhere, quick, postgres
):
    process, stats = elsewhere(text_s=0.3)
    home = instance.instance_for(shared.config)
    for how in (signal.SIGINT, signal.SIGKILL):
        assert looks(home, shared, 5) == []
        postgres.restart(how)
    while process.poll() is None:
        assert looks(home, shared, 2) == []
    assert process.returncode == 0 and stats()["committed"]
    assert statuses(home) == [Status.SUCCESS]


def test_a_process_that_was_not_heard_for_long_goes_on_and_its_run_ends_well(
    shared, elsewhere, quick
):
    """As after a long cut of its network: it is taken for dead, and nothing of it is lost."""
    process, stats = elsewhere(text_s=0.3)
    home = instance.instance_for(shared.config)
    process.send_signal(signal.SIGSTOP)
    try:
        assert looks(home, shared, WAIT_S)
        assert statuses(home) == [Status.FAILURE]
    finally:
        process.send_signal(signal.SIGCONT)
    assert process.wait(WAIT_S) == 0
    assert stats()["committed"] and not stats()["warnings"]
    assert statuses(home) == [Status.SUCCESS]


@pytest.mark.slow
def test_the_queue_goes_on_when_a_dead_run_is_failed(shared, database, tmp_path, quick):
    home = instance.instance_for(shared.config)
    dead = open_run(home, shared.config)
    env = {**child_environment(shared.config), "RAGSTREAM_DAGSTER__STORAGE": database,
           "RAGSTREAM_EMBEDDINGS__BACKEND": "hashed"}  # fmt: skip
    env["RAGSTREAM_DAGSTER__MAX_RUNS"] = "1"
    command = [sys.executable, "-m", "ragstream_assets.servers.daemon"]
    ours = dg.RunsFilter(job_name="ingest_documents", tags={"dagster/partition": "demo"})
    with (
        (tmp_path / "daemon.log").open("wb") as log,
        subprocess.Popen(
            command, env=env, stdout=log, stderr=log, start_new_session=True
        ) as daemon,
    ):
        try:
            assert until(lambda: home.get_runs(ours), WAIT_S), "the folder sensor requests it"
            time.sleep(5)  # the daemon looks at its queue each second
            assert [run.status for run in home.get_runs(ours)] == [Status.QUEUED]
            assert looks(home, shared, WAIT_S) == [dead]
            assert until(lambda: home.get_runs(ours)[0].status is Status.SUCCESS, WAIT_S)
        finally:
            os.killpg(daemon.pid, signal.SIGTERM)
