"""Dagster lost, locked or garbled costs run history and nothing else; forget reaches it too."""

import random
import shutil
import sqlite3
import threading
import time

import pytest

from ragstream_assets import instance, sensors
from ragstream_core.errors import OperationFailed, Refused
from ragstream_core.index.check import Part
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.ingestion import scan
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services import verify
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest, ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.copies import said
from tests.lengths import by_length
from tests.recorded import record_ingest, record_prompt
from tests.workspaces import docs_of

SECRET = (
    "# Payroll\n\nThe salary of Zebulon Quatermain is four thousand nine hundred doubloons "
    "a month, and the phrase of the vault is umbrella marzipan cathedral.\n"
)


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setattr(scan, "RACY_NS", 0)
    folder = tmp_path / "data" / "doc_raw" / "demo"
    folder.mkdir(parents=True)
    for n in range(6):
        (folder / f"{n}.md").write_text(f"# Part {n}\n\nWhat part {n} of the manual says.\n")
    yield open_workspace(tmp_path / "data", explicit={"embeddings.backend": "hashed"})
    instance.drop_instances()


def garble(cursor, rng):
    """Lose, cut, flip or age a cursor."""
    kind = rng.randrange(5)
    if kind == 0:
        return None
    if kind == 1:
        return cursor[: rng.randrange(len(cursor))]
    if kind == 2:
        return cursor.replace('"v": 1', '"v": 0')
    raw = list(cursor)
    for _ in range(kind):
        raw[rng.randrange(len(raw))] = chr(rng.randrange(32, 1000))
    return "".join(raw)


def test_deleting_dagsters_home_loses_runs_and_no_work(space):
    stats, run_id = record_ingest(space, "demo")
    assert run_id and stats.chunks["embedded"] == 6
    prompt = record_prompt(space, PromptRequest("What does part 2 say?", ("demo",)))
    digest = open_view(space.index_dir("demo")).digest
    for _ in range(2):
        instance.drop_instances()
        shutil.rmtree(space.data_dir / "dagster_home")
        again, _ = record_ingest(space, "demo")
        assert again.chunks["embedded"] == 0 and not again.committed
        (docs_of(space) / "0.md").write_text(f"# Part 0\n\nanother {time.time_ns()}\n")
        stats, run_id = record_ingest(space, "demo")
        assert run_id and stats.chunks["embedded"] == 1
    assert open_view(space.index_dir("demo"), generation=1).digest == digest
    assert replay_prompt(space, prompt.record.prompt_key).verdict == "identical"


@pytest.mark.sweep
def test_a_garbled_cursor_embeds_nothing_again_and_misses_no_file(space):
    record_ingest(space, "demo")
    home = instance.instance_of(space.data_dir)
    cursor = sensors.tick(space, home, None).cursor
    rng = random.Random(30)
    for n in range(by_length(8, 20, 100)):
        bad = garble(cursor, rng)
        result = sensors.tick(space, home, bad)
        assert not result.run_requests or not ingest_project(space, "demo").chunks["embedded"]
        path = docs_of(space) / f"new{n}.md"
        path.write_text(f"# New\n\nfile number {n} after a garbled cursor\n")
        found = sensors.tick(space, home, garble(cursor, rng))
        assert len(found.run_requests) == 1, (n, bad)
        assert ingest_project(space, "demo").chunks["embedded"] == 1
        cursor = sensors.tick(space, home, found.cursor).cursor


def databases(space):
    found = [p for p in (space.data_dir / "dagster_home").rglob("*.db") if p.stat().st_size]
    assert {"runs.db", "index.db", "schedules.db"} <= {p.name for p in found}
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("held_s", [by_length(1.0, 2.0, 60.0)])
def test_locked_storage_delays_no_commit(space, held_s):
    """Every database of Dagster is locked while an ingest runs, then while none of it is there."""
    record_ingest(space, "demo")
    held = [sqlite3.connect(p, check_same_thread=False, isolation_level=None)
            for p in databases(space)]  # fmt: skip
    for db in held:
        db.execute("PRAGMA busy_timeout=60000")
        db.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(held_s, lambda: [db.rollback() for db in held])
    release.start()
    try:
        (docs_of(space) / "0.md").write_text("# Part 0\n\nwhile Dagster was locked\n")
        stats = ingest(space, "demo")
        assert stats.committed and stats.chunks["embedded"] == 1
    finally:
        release.join()
        for db in held:
            db.close()
    require_sound(space)
    instance.drop_instances()
    shutil.rmtree(space.data_dir / "dagster_home")
    again = ingest(space, "demo", verify=True)
    assert again.chunks["embedded"] == 0 and not again.committed
    require_sound(space)


def require_sound(space):
    forget_views()
    assert verify.verify_project(space, "demo", part=Part(1, 1)).findings == []


@pytest.mark.parametrize("name", ["runs.db", "index.db", "schedules.db", "dagster.yaml"])
def test_damaged_storage_costs_the_record_and_no_data(space, name):
    record_ingest(space, "demo")
    instance.drop_instances()
    for path in (space.data_dir / "dagster_home").rglob(name):
        path.write_bytes(b"garbage" * 4096)
    (docs_of(space) / "0.md").write_text("# Part 0\n\nwhile Dagster was damaged\n")
    assert ingest(space, "demo").chunks["embedded"] == 1  # nothing of Dagster is in its way
    (docs_of(space) / "1.md").write_text("# Part 1\n\nthe job itself\n")
    try:
        stats, run_id = record_ingest(space, "demo")
        assert stats.committed and run_id
    except (OperationFailed, Refused) as error:  # of a file that is not ours: a person confirms it
        assert "Dagster" in error.message or "dagster.yaml" in error.message
    require_sound(space)


def test_forgetting_reaches_what_dagster_recorded(space):
    (docs_of(space) / "secret.md").write_text(SECRET)
    record_ingest(space, "demo")
    question = "What is the phrase of the vault, and what is the salary of Zebulon Quatermain?"
    made = record_prompt(space, PromptRequest(question, ("demo",)))
    assert hits(space.data_dir, b"marzipan")
    instance.drop_instances()
    forget(space, "demo", "secret.md", delete=True)
    assert hits(space.data_dir, b"marzipan") == hits(space.data_dir, b"doubloons") == []
    assert made.record.prompt_key not in set(space.store.keys())
    stats, _ = record_ingest(space, "demo")
    assert stats.chunks["embedded"] == 0
    (docs_of(space) / "7.md").write_text("# Part 7\n\nand recording goes on\n")
    _, run_id = record_ingest(space, "demo")
    assert run_id


def hits(root, needle):
    files = (p for p in root.rglob("*") if p.is_file())
    return sorted(str(p) for p in files if needle in said(p).lower())
