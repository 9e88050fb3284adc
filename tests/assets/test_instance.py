"""The Dagster home: ours until somebody edits it; its storage, readable or with a way out."""

import os
import shutil
import sqlite3
import stat

import pytest

from ragstream_assets.instance import dagster_home, drop_instances, instance_of
from ragstream_core.errors import OperationFailed


def test_settings_hold(space):
    home = instance_of(space.data_dir)
    assert not home.telemetry_enabled and not home.nux_enabled
    assert type(home.compute_log_manager).__name__ == "NoOpComputeLogManager"
    assert type(home.run_coordinator).__name__ == "QueuedRunCoordinator"
    queue = home.get_concurrency_config().run_queue_config
    assert queue.max_concurrent_runs == 2
    assert queue.tag_concurrency_limits[0]["key"] == "ragstream/project"
    assert home.run_monitoring_enabled
    assert os.environ["DAGSTER_HOME"] == str(space.data_dir / "dagster_home")
    assert instance_of(space.data_dir) is home


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


def test_runs_that_were_emptied_hide_no_others(space, fresh_home):
    shutil.copytree(fresh_home, space.data_dir / "dagster_home")
    with sqlite3.connect(space.data_dir / "dagster_home" / "history" / "runs.db") as db:
        db.execute("INSERT INTO runs(pipeline_name, status) VALUES('build_prompt', 'SUCCESS')")
    assert instance_of(space.data_dir).get_run_records() == []


def test_the_folder_is_private(space):
    assert stat.S_IMODE(dagster_home(space.data_dir).stat().st_mode) == 0o700


def test_an_edited_file_stays_and_an_old_one_of_ours_is_replaced(space):
    path = dagster_home(space.data_dir) / "dagster.yaml"
    ours = path.read_text()
    path.write_text(ours + "# mine\n")
    dagster_home(space.data_dir)
    assert path.read_text().endswith("# mine\n")
    from ragstream_assets.instance import STAMP
    from ragstream_core.records.identity import sha256_hex

    path.write_text(f"{STAMP}{sha256_hex('telemetry: {}')}\ntelemetry: {{}}")
    dagster_home(space.data_dir)
    assert path.read_text() == ours
