"""The Dagster home: ours until somebody edits it."""

import os
import stat

from ragstream_assets.instance import dagster_home, instance_of


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
