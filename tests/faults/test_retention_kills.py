"""`runs gc` killed at random moments: the next call leaves what an undisturbed one leaves."""

import pytest

from ragstream_assets import run_retention
from ragstream_assets.instance import drop_instances, instance_of
from ragstream_core.wiring.workspace import open_workspace
from tests.assets.retained import NOW, Archive, name, wanted
from tests.faults.harness import Child, Killer
from tests.lengths import by_length

KILLS = by_length(4, 12, 60)
ROWS = [(60 - n, n - 4 if n % 4 == 0 else -1, n % 9 != 1, n % 7 == 0) for n in range(24)]


@pytest.fixture
def archive(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", "")
    explicit = {"embeddings.backend": "hashed", "retention.run_days": "45"}
    space = open_workspace(tmp_path / "data", explicit=explicit)
    yield Archive(space, instance_of(space.data_dir))
    drop_instances()


@pytest.mark.sweep
def test_killed_at_random_moments(archive, tmp_path):
    killer = Killer(5, 0.1, most_s=1.0)
    stays = {name(n) for n in wanted(ROWS, 45, 2_000)}
    assert 3 < len(stays) < len(ROWS) - 3
    for _ in killer.times(KILLS):
        archive.fill(ROWS)
        task = Child(
            lambda: run_retention.gc(archive.space, instance=archive.home, now=NOW),
            tmp_path / "said",
        )
        killer.strike(task)
        assert stays <= archive.runs() and all(stays <= files for files in archive.files())
        run_retention.gc(archive.space, instance=archive.home, now=NOW)
        assert archive.runs() == stays and archive.files() == (stays, stays)
    print(f"\n{killer.line()}, all completed by the next call")
