"""Retention of recorded runs: what is needed stays, all else goes with every byte of it."""

import contextlib
import os
import time

import dagster as dg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_assets import run_retention
from ragstream_assets.instance import drop_instances, instance_for, instance_of
from ragstream_core.platform.disk import size_of
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services import prompt_retention
from ragstream_core.services.prompt_retention import DAY_S
from tests.assets.executing import execute
from tests.assets.retained import NOW, Archive, name, wanted
from tests.recorded import config_of, record_ingest, record_prompt, run_steps
from tests.workspaces import hashed_workspace

YEAR = 365 * DAY_S


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    root = tmp_path_factory.mktemp("retention")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", "")
        space = hashed_workspace(root)
        yield Archive(space, instance_of(root))
        drop_instances()


def with_rules(archive, days, count):
    explicit = {"retention.run_days": str(days), "retention.run_count": str(count)}
    return hashed_workspace(archive.space.data_dir, explicit)


@st.composite
def histories(draw):
    seldom = st.sampled_from([False] * 5 + [True])
    ages = sorted(draw(st.lists(st.integers(1, 60), min_size=1, max_size=10)), reverse=True)
    return [
        (age, draw(st.integers(-1, n - 1)), draw(seldom) is False, draw(seldom))
        for n, age in enumerate(ages)
    ]  # fmt: skip


@given(rows=histories(), days=st.integers(1, 60), count=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_laws(archive, rows, days, count):
    archive.fill(rows)
    every = {name(n) for n in range(len(rows))}
    space = with_rules(archive, days, count)
    said = run_retention.gc(space, instance=archive.home, now=NOW + 1e-3, dry_run=True)
    assert archive.runs() == every and archive.files() == (every, every)
    done = run_retention.gc(space, instance=archive.home, now=NOW + 1e-3)
    stays = {name(n) for n in wanted([(age + 1e-9, *rest) for age, *rest in rows], days, count)}
    assert archive.runs() == stays and archive.files() == (stays, stays)
    assert archive.tags() <= stays
    assert said.runs == done.runs == tuple(sorted(every - stays))
    assert done.bytes >= 5_000 * len(done.runs) and said.bytes <= done.bytes
    again = run_retention.gc(space, instance=archive.home, now=NOW + 1e-3)
    assert (again.runs, again.bytes) == ((), 0)


@given(rows=histories(), stop=st.integers(0, 40))
@settings(max_examples=25, deadline=None)
def test_stopped_anywhere_the_next_call_completes_it(archive, rows, stop):
    archive.fill(rows)
    space = with_rules(archive, 20, 3)
    calls = iter(range(stop))

    def limited(call):
        def once(*given):
            next(calls)  # StopIteration: the process is gone
            return call(*given)

        return once

    with pytest.MonkeyPatch.context() as patch:
        storage = archive.home.run_storage
        patch.setattr(run_retention, "remove_path", limited(run_retention.remove_path))
        patch.setattr(storage, "delete_run", limited(storage.delete_run))
        with contextlib.suppress(StopIteration):
            run_retention.gc(space, instance=archive.home, now=NOW)
    stays = {name(n) for n in wanted(rows, 20, 3)}
    assert stays <= archive.runs()
    run_retention.gc(space, instance=archive.home, now=NOW)
    assert archive.runs() == stays and archive.files() == (stays, stays)


def test_event_files_without_a_run_go_after_a_day_and_others_are_not_ours(archive):
    archive.fill([(2, -1, True, False)])
    shards = archive.root / "history" / "runs"
    for number, age in ((70, 2), (71, 0.5)):
        archive.write(shards / f"{name(number)}.db", "x", age)
    done = run_retention.gc(with_rules(archive, 9, 9), instance=archive.home, now=NOW)
    assert done.orphans == 1
    assert archive.files()[0] == {name(0), name(71)}
    assert (shards / "index.db").exists()


def test_old_debug_logs_go(tmp_path):
    space = hashed_workspace(tmp_path)
    (tmp_path / "logs").mkdir()
    old, new = "20260301-090507_sess01.log", "20260302-090507_sess01.log"
    for file, age in ((f"debug_trace_{old}", 31), (f"debug_vars_{old}.2", 31),
                      (f"debug_trace_{new}", 29), ("page.log", 99), ("debug_of_mine_1.log", 99),
                      ("debug_trace_of_a_server.log", 99)):  # fmt: skip
        path = tmp_path / "logs" / file
        path.write_text("x" * 9)
        os.utime(path, (NOW - age * DAY_S,) * 2)
    assert run_retention.gc(space, now=NOW, dry_run=True).bytes == 18
    done = run_retention.gc(space, now=NOW)
    assert (done.logs, done.bytes) == (2, 18)
    assert {p.name for p in (tmp_path / "logs").iterdir()} == {
        f"debug_trace_{new}", "page.log", "debug_of_mine_1.log", "debug_trace_of_a_server.log",
    }  # fmt: skip
    assert not (tmp_path / "dagster_home").exists()  # nothing is made in order to clean it


def _recorded(space, request, n=1):
    return [record_prompt(space, request) for _ in range(n)]


def test_real_runs_after_a_year(space, home, request_):
    stats, ingest_run = record_ingest(space, "demo")
    assert stats.committed and ingest_run
    forgotten = _recorded(space, request_, 2)
    held = _recorded(space, PromptRequest("Who holds the lock of a project?", ("demo",)))[0]
    prompt_retention.keep(space, held.key)
    newest = _recorded(space, request_)[0]
    before = size_of(space.data_dir)
    done = run_retention.gc(space, instance=home, now=time.time() + YEAR)
    assert set(done.runs) == {each.run_id for each in forgotten}
    assert done.bytes >= 0.9 * (before - size_of(space.data_dir)) > 100_000
    left = {run.run_id for run in home.get_runs()}
    assert left == {ingest_run, newest.run_id, held.run_id}
    # what stays still works: the latest state of the asset, and going on from any step
    event = home.get_latest_materialization_event(dg.AssetKey(["documents", "index"]))
    assert event is not None and event.run_id == ingest_run
    steps = OPS[OPS.index("reranker") :]
    config = config_of(home, held.run_id)
    assert run_steps(space, home, config, parent=held.run_id, steps=steps).is_success
    assert not [run_id for run_id in done.runs if home.get_run_by_id(run_id)]
    with home.event_log_storage.index_connection() as db:
        rows = db.exec_driver_sql("SELECT DISTINCT run_id FROM event_logs").fetchall()
    assert not set(done.runs) & {run_id for (run_id,) in rows}


def test_in_postgresql_runs_go_as_well(root, open_root, database, monkeypatch):
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "")  # restored afterwards
    space = open_root(root, **{"dagster.storage": database, "retention.run_count": "1"})
    home = instance_for(space.config)
    made = [
        execute(space, home, job=job, project="demo" if job == "ingest_documents" else "").run_id
        for job in ("ingest_documents", "ingest_documents", "retention")
    ]
    left = {run.run_id for run in home.get_runs()}
    assert left == {made[1], made[2]}, "the second one holds the latest of every asset"
    assert not home.all_logs(made[0]) and home.all_logs(made[1])
    assert run_retention.gc(space).runs == ()


def test_the_job_says_what_went_and_a_dry_run_only_what_would(ingested, home, request_, open_root):
    _recorded(ingested, request_, 3)
    space = open_root(ingested.data_dir, **{"retention.run_count": "1"})
    figures = []
    for dry_run in (True, False):
        result = execute(space, home, job="retention", ops={"drop_unneeded": {"dry_run": dry_run}})
        (output,) = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
        figures.append(output.step_output_data.metadata)
        rows = {r.data["what"]: r.data for r in figures[-1]["freed"].value.records}
        assert rows["recorded runs"]["went"] == figures[-1]["runs"].value
        assert figures[-1]["dry_run"].value is dry_run
    assert figures[0]["runs"].value == 3 and figures[1]["runs"].value == 4  # and the dry run's own
    assert figures[1]["bytes"].value > 3 * 10_000
    assert len(list(home.get_runs())) == 1


def test_it_runs_from_the_launchpad_as_it_stands(ingested, home):
    assert execute(ingested, home, job="retention").success


COUNT = 8
PER_PROMPT = 600_000
"""Bytes that a recorded prompt may take, all in all: what the handbook states, for small ones."""


@pytest.mark.slow
def test_recorded_prompts_take_what_the_handbook_says(ingested, home, request_, open_root):
    _recorded(ingested, request_)
    before = size_of(ingested.data_dir)
    for n in range(COUNT):
        _recorded(ingested, PromptRequest(f"Who holds lock number {n}?", ("demo",)))
    grown = size_of(ingested.data_dir) - before
    print(f"\n{grown / COUNT:,.0f} bytes a recorded prompt")
    assert grown < COUNT * PER_PROMPT
    space = open_root(ingested.data_dir, **{"retention.run_count": "1"})
    done = run_retention.gc(space, instance=home)
    assert len(done.runs) == COUNT
    assert size_of(ingested.data_dir) - before < grown - 0.9 * done.bytes
