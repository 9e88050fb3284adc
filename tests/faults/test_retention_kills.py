"""`runs gc` killed at random moments: the next call leaves what an undisturbed one leaves."""

from __future__ import annotations

import random
import time

import pytest

from ragstream_assets import retention
from ragstream_assets.instance import drop_instances, instance_of
from ragstream_core.build.workspace import open_workspace
from tests.assets.retained import NOW, Archive, name, wanted
from tests.faults.harness import CRASH, DONE, FULL, Child

KILLS = 60 if FULL else 12
ROWS = [(60 - n, n - 4 if n % 4 == 0 else -1, n % 9 != 1, n % 7 == 0) for n in range(24)]


@pytest.fixture
def archive(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", "")
    explicit = {"embeddings.backend": "hashed", "retention.run_days": "45"}
    space = open_workspace(tmp_path / "data", explicit=explicit)
    yield Archive(space, instance_of(space.data_dir))
    drop_instances()


def test_killed_at_random_moments(archive, tmp_path):
    chance, killed, span = random.Random(5), 0, 0.1
    stays = {name(n) for n in wanted(ROWS, 45, 2_000)}
    assert 3 < len(stays) < len(ROWS) - 3
    for _ in range(KILLS):
        archive.fill(ROWS)
        child = Child(
            lambda: retention.gc(archive.space, instance=archive.home, now=NOW), tmp_path / "said"
        )
        began = time.perf_counter()
        child.go()
        time.sleep(chance.random() * span)
        child.kill()
        status = child.wait()
        assert status != CRASH, child.words()
        if status == DONE:
            span *= 0.9
        else:
            killed += 1
            span = min(1.0, max(span, 1.05 * (time.perf_counter() - began)))
        assert stays <= archive.runs() and all(stays <= files for files in archive.files())
        retention.gc(archive.space, instance=archive.home, now=NOW)
        assert archive.runs() == stays and archive.files() == (stays, stays, stays)
    print(f"\n{killed} of {KILLS} killed, all completed by the next call")
    assert killed > 0
