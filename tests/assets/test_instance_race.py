"""Processes that open a fresh data root at the same moment all get its storage whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHILDREN, ROUNDS = 4, 4
OPEN = """
import sys, time
from pathlib import Path
import dagster
from ragstream_assets.instance import drop_instances, instance_of

gate, me, children, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for n in range(rounds):
    (gate / f"{n}-{me}").touch()
    while len(list(gate.glob(f"{n}-*"))) < children:
        pass
    drop_instances()
    instance = instance_of(gate / f"data{n}")
    print(instance.get_runs_count(), len(instance.all_instigator_state()))
"""


def test_a_fresh_storage_is_made_once(tmp_path):
    words = [sys.executable, "-c", OPEN, str(tmp_path)]
    children = [
        subprocess.Popen(
            [*words, str(number), str(CHILDREN), str(ROUNDS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for number in range(CHILDREN)
    ]
    try:
        said = [child.communicate(timeout=120) for child in children]
    finally:
        for child in children:
            child.kill()  # one that waits for another that failed would wait for ever
    assert [out for out, _ in said] == ["0 0\n" * ROUNDS] * CHILDREN, [
        err[-600:] for _, err in said
    ]
    assert all("CommandError" not in err for _, err in said)
