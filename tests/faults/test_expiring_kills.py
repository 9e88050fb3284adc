"""`prompts gc` killed at random moments: the next call leaves what an undisturbed one leaves."""

import shutil

import pytest

from ragstream_core.services import prompt_retention
from tests.faults.harness import Child, Killer
from tests.lengths import by_length
from tests.unit.services.test_prompt_retention import NOW, fill, space_of

KILLS = by_length(5, 15, 100)
ROWS = [(age, age % 7 == 0, "abc"[age % 3], age % 3) for age in range(2, 60)]


def state(root):
    return {path.relative_to(root) for path in root.rglob("*")}


@pytest.mark.sweep
def test_killed_at_random_moments(tmp_path):
    killer = Killer(7)
    space = space_of(tmp_path, days=30, count=9)
    root = tmp_path / "prompts"
    fill(root, ROWS)
    prompt_retention.gc(space, now=NOW)
    wanted = state(root)
    kept = {f"k{i}" for i, row in enumerate(ROWS) if row[1]}
    for _ in killer.times(KILLS):
        fill(root, ROWS)
        killer.strike(Child(lambda: prompt_retention.gc(space, now=NOW), tmp_path / "said"))
        assert kept <= set(space.store.keys())
        prompt_retention.gc(space, now=NOW)
        assert state(root) == wanted
        shutil.rmtree(root)
    print(f"\n{killer.line()}, all completed by the next call")
