"""`prompts gc` killed at random moments: the next call leaves what an undisturbed one leaves."""

from __future__ import annotations

import random
import shutil
import time

from ragstream_core.build.upkeep import expiring
from tests.faults.harness import CRASH, DONE, FULL, Child
from tests.unit.build.test_expiring import NOW, fill, space_of

KILLS = 100 if FULL else 15
ROWS = [(age, age % 7 == 0, "abc"[age % 3], age % 3) for age in range(2, 60)]


def state(root):
    return {path.relative_to(root) for path in root.rglob("*")}


def test_killed_at_random_moments(tmp_path):
    chance, killed, span = random.Random(7), 0, 0.05
    space = space_of(tmp_path, days=30, count=9)
    root = tmp_path / "prompts"
    fill(root, ROWS)
    expiring.gc(space, now=NOW)
    wanted = state(root)
    kept = {f"k{i}" for i, row in enumerate(ROWS) if row[1]}
    for _ in range(KILLS):
        fill(root, ROWS)
        child = Child(lambda: expiring.gc(space, now=NOW), tmp_path / "said")
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
            span = min(0.5, max(span, 1.05 * (time.perf_counter() - began)))
        assert kept <= set(space.store.keys())
        expiring.gc(space, now=NOW)
        assert state(root) == wanted
        shutil.rmtree(root)
    print(f"\n{killed} of {KILLS} killed, all completed by the next call")
    assert killed > 0
