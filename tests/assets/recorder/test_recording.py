"""Recording never fails the work, never blocks it for good, and keeps no text it should not."""

import contextlib
import os
import shutil
import sqlite3
import threading
import time

import dagster as dg
import pytest

from ragstream_assets import instance, reconcile, run_outcomes
from ragstream_assets.definitions import defs
from ragstream_assets.recorder import recorder
from ragstream_assets.recorder.writer import writer
from ragstream_assets.run_here import one_run
from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.prompts.chain import OPS, ops_of
from ragstream_core.records import to_json
from ragstream_core.records.identity import canonical_json
from ragstream_core.services.clear_history import clear
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt
from tests.recorded import record_prompt, record_stage
from tests.workspaces import docs_of

STARTED = dg.DagsterRunStatus.STARTED


def _json(prompt):
    return canonical_json(to_json(prompt))


def _hits(home_dir, canary):
    needle = canary.encode()
    return [str(p) for p in home_dir.rglob("*") if p.is_file() and needle in p.read_bytes()]


def _home_is_a_file(space):
    (space.data_dir / "dagster_home").write_text("not a folder")


def _storage_is_garbage(space):
    home = instance.dagster_home(space.data_dir)
    (home / "history").mkdir()
    (home / "history" / "runs.db").write_bytes(b"\x07garbage" * 999)


def _settings_are_garbage(space):
    (instance.dagster_home(space.data_dir) / "dagster.yaml").write_text("storage: [no, such: thing")


BREAKAGES = [_home_is_a_file, _storage_is_garbage, _settings_are_garbage]


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_dagster_home_is_a_warning(space, request_, breakage):
    breakage(space)
    stats, run_id = recorder.record_ingest(space, "demo")
    assert (stats.committed, run_id) == (True, "")
    assert "not recorded" in stats.warnings[-1]
    found = record_prompt(space, request_)
    assert found.run_id == "" and "not recorded" in found.warnings[-1]
    assert space.store.record(found.record.prompt_key)
    assert set(found.timings_ms) == set(OPS)


@pytest.mark.parametrize("events", [0, 3, 20])
def test_an_event_store_that_breaks_in_the_middle(space, request_, monkeypatch, events):
    ingest_project(space, "demo")
    home = instance.instance_of(space.data_dir)
    store = type(home.event_log_storage)
    real, count = store.store_event, []

    def store_event(self, event):
        count.append(1)
        if len(count) > events:
            raise sqlite3.OperationalError("disk I/O error")
        return real(self, event)

    monkeypatch.setattr(store, "store_event", store_event)
    inputs = pin_inputs(space, request_)
    monkeypatch.setattr(recorder, "pin_inputs", lambda *a: inputs)
    found = record_prompt(space, request_)
    assert found.run_id == "" and "not recorded" in found.warnings[0]
    assert _json(found.prompt) == _json(run_prompt(space, inputs))

    count.clear()
    (docs_of(space) / "late.md").write_text("# Late\n\nSomething new to say.\n")
    stats, run_id = recorder.record_ingest(space, "demo")
    assert (stats.generation, stats.committed, run_id) == (2, True, "")
    assert "not recorded" in stats.warnings[-1]


def test_after_a_breakage_recording_works_again(space, request_):
    ingest_project(space, "demo")
    _home_is_a_file(space)
    assert record_prompt(space, request_).run_id == ""
    (space.data_dir / "dagster_home").unlink()
    assert record_prompt(space, request_).run_id


def test_switched_off_nothing_of_dagster_is_made(root, open_root, request_):
    space = open_root(root, **{"dagster.record": "none"})
    assert recorder.record_ingest(space, "demo")[1] == ""
    found = record_prompt(space, request_)
    again = record_stage(space, found, ("prompt_builder",))
    recorder.close_stale_runs(space)
    assert (found.run_id, found.warnings, again.run_id, again.warnings) == ("", (), "", ())
    assert again.record.prompt_key == found.record.prompt_key
    assert not (root / "dagster_home").exists()
    assert not (root / "prompts" / "inbox").exists()


def test_an_ingest_does_not_wait_for_another_run_for_ever(space, monkeypatch):
    monkeypatch.setattr(recorder, "WAIT_S", 0.05)
    with one_run:
        stats, run_id = recorder.record_ingest(space, "demo")
    assert stats.committed and run_id == "" and "busy" in stats.warnings[-1]


def test_a_prompt_is_there_before_its_run(ingested, home, request_):
    """However long Dagster takes: here for ever, until the lock is given back."""
    with one_run:
        found = recorder.record_prompt(ingested, request_, fresh=True)
        again = recorder.record_stage(ingested, found, ("prompt_builder",))
        assert home.get_runs_count() == 0 and found.record and found.run_id
        assert not writer.flush(0.2) and found.warnings == ()
        kept = ingested.store.record(again.record.prompt_key)
        assert kept.run_id == again.run_id != found.run_id
    assert writer.flush(60) and found.warnings == again.warnings == ()
    parents = {run.run_id: run.parent_run_id for run in home.get_runs()}
    assert parents == {found.run_id: None, again.run_id: found.run_id}
    assert {r.status for r in home.get_runs()} == {dg.DagsterRunStatus.SUCCESS}


def test_where_the_run_before_is_lost_the_next_one_is_recorded_from_the_start(
    ingested, request_, home
):
    first = record_prompt(ingested, request_, through="a3")
    home.delete_run(first.run_id)
    second = record_stage(ingested, first, ops_of("A4 Condenser"))
    assert second.run_id and "from the start" in second.warnings[0]
    run = home.get_run_by_id(second.run_id)
    assert run.parent_run_id is None and run.status is dg.DagsterRunStatus.SUCCESS
    records = home.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_SUCCESS).records
    assert len(records) == OPS.index("a2_audit") + 1
    third = record_stage(ingested, second, ops_of("A5 Format Enforcer"))
    assert home.get_run_by_id(third.run_id).parent_run_id == run.run_id and not third.warnings


def test_nothing_more_is_queued_while_the_storage_is_stuck(ingested, request_, monkeypatch):
    monkeypatch.setattr("ragstream_assets.recorder.writer.MOST_WAITING", 1)
    with one_run:
        found = [recorder.record_prompt(ingested, request_, through="a2") for _ in range(3)]
    assert writer.flush(60) and found[0].run_id
    refused = [one for one in found if not one.run_id]  # one or two: the writer may have taken one
    assert refused and all("waiting" in one.warnings[0] for one in refused)


def test_a_prompt_that_was_removed_meanwhile_is_not_written_after_all(ingested, request_, home):
    with one_run:
        found = recorder.record_prompt(ingested, request_, fresh=True)
        shutil.rmtree(ingested.store.root / found.record.prompt_key)
    assert writer.flush(60) and "not kept any more" in found.warnings[0]
    assert home.get_runs_count() == 0 and not (ingested.store.root / "runs").exists()


def test_what_was_cleared_meanwhile_is_not_written_after_all(ingested, request_, home):
    append_turn(ingested, Turn("", "mine", "", "Hello", "Hi"))
    with one_run:
        found = recorder.record_prompt(ingested, request_, through="a2")
        clear(ingested, Choice(everything=True))
    assert writer.flush(60) and "were cleared" in found.warnings[0]
    assert home.get_runs_count() == 0 and not list((ingested.store.root / "inbox").glob("*"))


def test_nothing_of_a_written_run_stays_in_memory(ingested, request_):
    found = record_prompt(ingested, request_, through="a2")
    assert found.run_id and found.run_id not in run_outcomes._outcomes


def test_runs_of_a_dead_process_are_closed_at_the_start(ingested, home, request_, monkeypatch):
    found = record_prompt(ingested, request_, through="a2")
    run = home.get_run_by_id(found.run_id)
    ours = {**run.tags, reconcile.PID_TAG: str(2**22 + 1), reconcile.START_TAG: "0"}
    dead = home.create_run_for_job(defs.resolve_job_def("build_prompt"), tags=ours, status=STARTED)
    alive = home.create_run_for_job(
        defs.resolve_job_def("build_prompt"), tags=run.tags, status=STARTED
    )
    recorder.close_stale_runs(ingested)
    assert writer.flush(60)
    assert home.get_run_by_id(dead.run_id).status is dg.DagsterRunStatus.FAILURE
    assert home.get_run_by_id(alive.run_id).status is STARTED


def test_two_threads_both_get_recorded_runs(ingested, home, request_):
    found, errors = [], []

    def ask():
        try:
            found.append(record_prompt(ingested, request_))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(t.is_alive() for t in threads)
    assert len({f.run_id for f in found}) == 2 and all(f.run_id for f in found)
    assert {r.status for r in home.get_runs()} == {dg.DagsterRunStatus.SUCCESS}


def test_output_of_other_threads_is_in_no_file_of_dagster(ingested, home, request_):
    stop = threading.Event()

    def chatter():
        while not stop.is_set():
            os.write(1, b"canary-fd1-8c2e\n")
            os.write(2, b"canary-fd2-8c2e\n")
            time.sleep(0.005)

    thread = threading.Thread(target=chatter)
    thread.start()
    try:
        record_prompt(ingested, request_)
        (docs_of(ingested) / "late.md").write_text("# Late\n\nSomething new to say.\n")
        recorder.record_ingest(ingested, "demo")
    finally:
        stop.set()
        thread.join()
    home_dir = ingested.data_dir / "dagster_home"
    assert _hits(home_dir, "canary-fd1-8c2e") == _hits(home_dir, "canary-fd2-8c2e") == []


def test_recording_is_silent(ingested, request_, capfd):
    record_prompt(ingested, request_)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["runs.db", pytest.param("index.db", marks=pytest.mark.slow)])
def test_a_locked_store_costs_the_run_and_no_time(ingested, home, request_, name):
    """Held until the prompt has been delivered; the run then gives up by itself or is written."""
    record_prompt(ingested, request_)
    instance.drop_instances()
    path = next((ingested.data_dir / "dagster_home").rglob(name))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        found = recorder.record_prompt(ingested, request_, fresh=True)
        assert found.record and not found.recording.done
        assert writer.flush(240)
    assert found.run_id == "" and "locked" in found.warnings[0]
    assert record_prompt(ingested, request_).run_id
