"""The Dagster home: ours until somebody edits it; its storage, readable or with a way out."""

import os
import shutil
import sqlite3
import stat
import time

import pytest

from ragstream_assets.definitions import defs
from ragstream_assets.instance import dagster_home, drop_instances, instance_of
from ragstream_core.errors import OperationFailed, Refused
from tests.workspaces import confirm


def test_settings_hold(space):
    home = instance_of(space.data_dir)
    assert not home.telemetry_enabled and not home.nux_enabled
    assert type(home.compute_log_manager).__name__ == "NoOpComputeLogManager"
    assert type(home.run_coordinator).__name__ == "QueuedRunCoordinator"
    queue = home.get_concurrency_config().run_queue_config
    assert queue.max_concurrent_runs == 2
    keys = [limit["key"] for limit in queue.tag_concurrency_limits]
    assert keys == ["ragstream/project", "dagster/partition"]
    assert home.run_monitoring_enabled
    assert os.environ["DAGSTER_HOME"] == str(space.data_dir / "dagster_home")
    assert instance_of(space.data_dir) is home


def test_of_one_project_one_run_goes_on_whoever_launched_it(space):
    """The pages name a project by its partition alone."""
    from dagster import DagsterRun
    from dagster._utils.tags import TagConcurrencyLimitsCounter

    limits = instance_of(space.data_dir).get_concurrency_config().run_queue_config
    by_hand = DagsterRun("__ASSET_JOB", tags={"dagster/partition": "demo"})
    by_sensor = DagsterRun("a", tags={"dagster/partition": "demo", "ragstream/project": "demo"})
    other = DagsterRun("a", tags={"dagster/partition": "other", "ragstream/project": "other"})
    history = DagsterRun("a", tags={"ragstream/project": "~history"})
    for going in (by_hand, by_sensor):
        counter = TagConcurrencyLimitsCounter(limits.tag_concurrency_limits, [going, history])
        assert counter.is_blocked(by_hand) and counter.is_blocked(by_sensor)
        assert counter.is_blocked(history) and not counter.is_blocked(other)


def test_a_run_of_the_asset_pages_may_take_days(space, home):
    """Its job is Dagster's own, so no tag of ours lifts a limit."""
    import logging
    from types import SimpleNamespace

    from dagster._daemon.monitoring.run_monitoring import check_run_timeout

    found = instance_of(space.data_dir)
    run = home.create_run_for_job(defs.resolve_job_def("__ASSET_JOB"))
    record = SimpleNamespace(dagster_run=run, start_time=time.time() - 40 * 24 * 3600)
    limit = found.run_monitoring_max_runtime_seconds
    check_run_timeout(home, record, logging.getLogger("test"), limit)
    assert home.get_run_by_id(run.run_id).status == run.status


def test_tables_of_an_older_dagster_name_the_command_that_brings_them_up(space, fresh_home):
    home = space.data_dir / "dagster_home"
    shutil.copytree(fresh_home, home)
    with sqlite3.connect(home / "history" / "runs.db") as db:
        db.execute("UPDATE alembic_version SET version_num = 'f495c27d5019'")
    instance_of(space.data_dir)  # what is new is not needed
    drop_instances()
    with sqlite3.connect(home / "history" / "runs.db") as db:
        db.execute("DROP INDEX idx_run_range")
        db.execute("ALTER TABLE runs DROP COLUMN update_timestamp")
    with pytest.raises(OperationFailed) as error:
        instance_of(space.data_dir)
    assert f"DAGSTER_HOME={home} dagster instance migrate" in error.value.message


def test_the_folder_is_private(space):
    assert stat.S_IMODE(dagster_home(space.data_dir).stat().st_mode) == 0o700


def test_an_edited_file_stays_and_an_old_one_of_ours_is_replaced(space):
    path = dagster_home(space.data_dir) / "dagster.yaml"
    ours = path.read_text()
    path.write_text(ours + "# mine\n")
    with pytest.raises(Refused, match="not confirmed it"):  # it may have come with the folder
        dagster_home(space.data_dir)
    confirm(path)
    dagster_home(space.data_dir)
    assert path.read_text().endswith("# mine\n")
    from ragstream_core.platform.confirmed_files import STAMP
    from ragstream_core.records.identity import sha256_hex

    path.write_text(f"{STAMP}{sha256_hex('telemetry: {}')}\ntelemetry: {{}}")
    dagster_home(space.data_dir)
    assert path.read_text() == ours
