"""Recording never fails the work, never blocks it for good, and keeps no text it should not."""

import contextlib
import os
import sqlite3
import threading
import time

import dagster as dg
import pytest

from ragstream_assets import instance, recorder
from ragstream_core.records import to_json
from ragstream_core.records.identity import canonical_json


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
    found = recorder.record_prompt(space, request_)
    assert found.run_id == "" and "not recorded" in found.warnings[-1]
    assert found.record.run_id == "" and space.store.record(found.record.prompt_key)
    assert set(found.timings_ms) == set(recorder.OPS)


@pytest.mark.parametrize("events", [0, 3, 20])
def test_an_event_store_that_breaks_in_the_middle(space, request_, monkeypatch, events):
    space.ingest("demo")
    home = instance.instance_of(space.data_dir)
    store = type(home.event_log_storage)
    real, count = store.store_event, []

    def store_event(self, event):
        count.append(1)
        if len(count) > events:
            raise sqlite3.OperationalError("disk I/O error")
        return real(self, event)

    monkeypatch.setattr(store, "store_event", store_event)
    inputs = space.pin(request_)
    monkeypatch.setattr(type(space), "pin", lambda *a: inputs)
    found = recorder.record_prompt(space, request_)
    assert found.run_id == "" and "not recorded" in found.warnings[0]
    assert _json(found.prompt) == _json(space.run(inputs))

    count.clear()
    (space.doc_dir("demo") / "late.md").write_text("# Late\n\nSomething new to say.\n")
    stats, run_id = recorder.record_ingest(space, "demo")
    assert (stats.generation, stats.committed, run_id) == (2, True, "")
    assert "not recorded" in stats.warnings[-1]


def test_after_a_breakage_recording_works_again(space, request_):
    space.ingest("demo")
    _home_is_a_file(space)
    assert recorder.record_prompt(space, request_).run_id == ""
    (space.data_dir / "dagster_home").unlink()
    assert recorder.record_prompt(space, request_).run_id


def test_switched_off_nothing_of_dagster_is_made(root, open_root, request_):
    space = open_root(root, **{"dagster.record": "none"})
    assert recorder.record_ingest(space, "demo")[1] == ""
    found = recorder.record_prompt(space, request_)
    again = recorder.record_stage(space, found, ("prompt_builder",))
    assert (found.run_id, found.warnings, again.run_id, again.warnings) == ("", (), "", ())
    assert again.record.prompt_key == found.record.prompt_key
    assert not (root / "dagster_home").exists()
    assert not (root / "prompts" / "inbox").exists()


def test_a_run_that_stays_busy_is_not_waited_for_for_ever(ingested, request_, monkeypatch):
    monkeypatch.setattr(recorder, "WAIT_S", 0.05)
    with recorder._one_run:
        found = recorder.record_prompt(ingested, request_)
    assert found.record and found.run_id == "" and "busy" in found.warnings[0]


def test_two_threads_both_get_recorded_runs(ingested, home, request_):
    found, errors = [], []

    def ask():
        try:
            found.append(recorder.record_prompt(ingested, request_))
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
        recorder.record_prompt(ingested, request_)
        (ingested.doc_dir("demo") / "late.md").write_text("# Late\n\nSomething new to say.\n")
        recorder.record_ingest(ingested, "demo")
    finally:
        stop.set()
        thread.join()
    home_dir = ingested.data_dir / "dagster_home"
    assert _hits(home_dir, "canary-fd1-8c2e") == _hits(home_dir, "canary-fd2-8c2e") == []


def test_recording_is_silent(ingested, request_, capfd):
    recorder.record_prompt(ingested, request_)
    assert capfd.readouterr() == ("", "")


def test_text_is_in_no_file_of_dagster_but_the_previews(space, request_, monkeypatch):
    """Failing at every stage, with the text in every exception, leaves none of it."""
    canary = "canaryprompt7b31"
    (space.doc_dir("demo") / "lock.md").write_text(
        "# Locks\n\nThe lock canarydocument7b31 holds.\n"
    )
    space.ingest("demo")
    asked = type(request_)(f"# Task\nWhat of the {canary} lock?", ("demo",))
    real = type(space).stage
    for op in recorder.OPS[:-1]:

        def stage(self, name, prompt, *, files=None, at=op):
            made = real(self, name, prompt, files=files)
            if name != at:
                return made

            def fail(given):
                made(given)
                raise ValueError(f"{canary} canarydocument7b31 in an exception")

            return fail

        monkeypatch.setattr(type(space), "stage", stage)
        with pytest.raises(ValueError, match=canary):
            recorder.record_prompt(space, asked)
    home_dir = space.data_dir / "dagster_home"
    assert len(list((home_dir / "history" / "runs").glob("*-*.db"))) == len(recorder.OPS) - 1
    assert _hits(home_dir, canary) == _hits(home_dir, "canarydocument7b31") == []


def test_a_finished_prompts_text_is_in_its_preview_alone(ingested, home, request_):
    asked = type(request_)("# Task\nWhat of the canaryprompt7b31 lock?", ("demo",))
    found = recorder.record_prompt(ingested, asked)
    holders = []
    for record in home.get_records_for_run(found.run_id).records:
        entry = record.event_log_entry
        if "canaryprompt7b31" not in str(entry):
            continue
        assert "canaryprompt7b31" not in entry.message
        holders.append(entry.step_key)
        data = entry.dagster_event.step_output_data.metadata
        assert [k for k, v in data.items() if "canaryprompt7b31" in str(v)] == ["super_prompt"]
    assert holders == ["prompt_builder"]


def test_a_locked_store_does_not_hold_the_prompt_for_ever(ingested, home, request_):
    recorder.record_prompt(ingested, request_)
    instance.drop_instances()
    path = ingested.data_dir / "dagster_home" / "history" / "runs.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        started = time.monotonic()
        found = recorder.record_prompt(ingested, request_)
        waited = time.monotonic() - started
    assert found.record and found.run_id == "" and "locked" in found.warnings[0]
    assert waited < 60
