"""What happens by the calendar, and what it leaves alone."""

import datetime as dt

import dagster as dg

from ragstream_assets import schedules
from ragstream_assets.definitions import defs
from ragstream_assets.resources import WorkspaceResource, adopt
from ragstream_core.index.schema import project_lock
from ragstream_core.index.view import open_view
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring import quality_gate
from tests.assets.executing import execute
from tests.workspaces import docs_of

SUNDAY = dt.datetime(2026, 3, 1, 3, 30, tzinfo=dt.UTC)


def _resource(space):
    return WorkspaceResource(**adopt(space))


def _requests(schedule, home, **resources):
    context = dg.build_schedule_context(instance=home, scheduled_execution_time=SUNDAY)
    found = schedule(context, **resources)
    return found if isinstance(found, dg.RunRequest) else list(found)


def test_both_run_by_default_on_sundays():
    for name, cron in (("weekly_verify", "30 3 * * 0"), ("weekly_retention", "30 4 * * 0")):
        schedule = defs.resolve_schedule_def(name)
        assert schedule.cron_schedule == cron
        assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


def test_every_project_that_is_a_partition_is_verified_once_a_week(space, home, make_project):
    make_project("other")
    (skip,) = _requests(schedules.weekly_verify, home, workspace=_resource(space))
    assert isinstance(skip, dg.SkipReason)
    home.add_dynamic_partitions("project", ["demo", "gone"])
    (request,) = _requests(schedules.weekly_verify, home, workspace=_resource(space))
    assert (request.partition_key, request.run_key) == ("demo", "verify:demo:2026-03-01")
    result = defs.resolve_job_def("ingest_documents").execute_in_process(
        instance=home,
        partition_key="demo",
        run_config={
            **request.run_config, "resources": {"workspace": {"config": adopt(space)}},
        },
    )  # fmt: skip
    assert result.success and open_view(space.index_dir("demo")).generation == 1


def _change(space, n):
    (docs_of(space) / "lock.md").write_text(f"# Locks\n\nVersion {n} of the text.\n")
    return ingest_project(space, "demo")


def test_retention_drops_what_the_settings_no_longer_keep(ingested, home, open_root, make_project):
    make_project("other")
    for n in range(4):
        _change(ingested, n)
    space = open_root(ingested.data_dir, **{"ingestion.retain_generations": "2"})
    result = execute(space, home, job="retention")
    (output,) = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    metadata = output.step_output_data.metadata
    rows = {r.data["project"]: r.data for r in metadata["dropped"].value.records}
    assert rows["demo"]["generations"] == 3 and rows["demo"]["chunks"] > 0
    assert rows["other"]["note"] == "never ingested"
    assert open_view(space.index_dir("demo")).generation == 5
    again = schedules.collected(space, "demo")
    assert (again["generations"], again["chunks"]) == (0, 0)


def test_a_locked_project_is_left_for_the_next_time(ingested):
    with project_lock(ingested.index_dir("demo")):
        assert "next time" in schedules.collected(ingested, "demo")["note"]


def test_the_quality_check_shows_figures_and_fails_after_a_refusal(space, home, open_root):
    from ragstream_assets.documents import QUALITY, checked

    space = open_root(space.data_dir, **{"ingestion.gold_k": "1"})
    path = quality_gate.gold_path(space, "demo")
    path.parent.mkdir(parents=True)
    path.write_text('{"question": "Who holds the lock of a project?", "file": "lock.md"}\n')

    def check():
        (found,) = [r for r in checked(space, "demo") if r.check_name == QUALITY]
        return found

    ingest_project(space, "demo")
    found = check()
    assert found.passed and found.metadata["recall"].value == 1.0
    assert found.metadata["questions"].value == 1
    before = (docs_of(space) / "lock.md").read_text()
    (docs_of(space) / "lock.md").write_text("# Soup\n\nIt is served at noon.\n")
    assert ingest_project(space, "demo").refused
    found = check()
    assert not found.passed and "a newer state was refused: recall@1" in found.description
    (docs_of(space) / "lock.md").write_text(before + "\nIt is a file.\n")
    assert ingest_project(space, "demo").committed and check().passed
