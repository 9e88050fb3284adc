"""`ragstream runs gc`, and the Debug Logger switched on for a command."""

import json
import os
import time

import pytest

from ragstream_core.wiring import debug_log

OLD = 31 * 86_400


@pytest.fixture
def logs(indexed):
    return lambda kind="*": sorted((indexed / "history" / "logs").glob(f"debug_{kind}_*"))


@pytest.fixture(autouse=True)
def no_command_before():
    """The session of a command lasts as long as its process, which here is that of the tests."""
    token = debug_log._session.set("")
    yield
    debug_log._session.reset(token)


def test_a_command_leaves_a_trace_and_prints_the_same(indexed, run, logs, monkeypatch):
    words = ("prompt", "What does the lock do?", "-p", "manual")
    plain = run(*words)
    assert plain[0] == 0 and logs() == []
    monkeypatch.setenv("RAGSTREAM_DEBUG__ENABLED", "1")
    assert run(*words)[:2] == plain[:2]
    (trace,) = logs()
    lines = trace.read_text().splitlines()
    assert lines[0].endswith("[INFO] command ragstream prompt")
    assert " prompt_builder ends: " in lines[-2] and lines[-1].count("vars: ") == 1
    assert "What does" not in trace.read_text()
    trace.unlink()
    assert run(*words, "--no-persist")[0] == 0
    assert logs() == []


def test_runs_gc_without_any_run(indexed, run):
    assert run("runs", "gc")[1].startswith("0 runs, 0 event files without a run, 0 debug logs")
    assert not (indexed / "dagster_home").exists()


def test_runs_gc_drops_recorded_runs_and_old_logs(indexed, run, logs, spawn, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_RETENTION__RUN_COUNT", "1")
    monkeypatch.setenv("RAGSTREAM_DEBUG__ENABLED", "1")
    for text in ("What does the lock do?", "What does a citation carry?"):
        assert spawn("prompt", text, "-p", "manual", "--dagster").returncode == 0
    monkeypatch.delenv("RAGSTREAM_DEBUG__ENABLED")
    then = time.time() - OLD
    os.utime(logs()[0], (then, then))
    said = json.loads(run("runs", "gc", "--dry-run", "--json")[1])
    assert said["dry_run"] and (len(said["runs"]), said["logs"]) == (1, 1)
    shards = indexed / "dagster_home" / "history" / "runs"
    assert (shards / f"{said['runs'][0]}.db").exists() and len(logs()) == 2
    code, out, _ = run("runs", "gc")
    assert code == 0 and out.startswith("1 run, 0 event files") and "freed" in out
    assert not (shards / f"{said['runs'][0]}.db").exists() and len(logs()) == 1
