"""Processes that open a fresh data root at the same moment all get its storage whole."""

import subprocess
import sys
from pathlib import Path

CHILDREN, ROUNDS = 4, 4
OPEN = """
import os, sys, time
from pathlib import Path
import dagster
from ragstream_assets.instance import drop_instances, instance_of

gate, children, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


def opened(me):
    for n in range(rounds):
        (gate / f"{n}-{me}").touch()
        while len(list(gate.glob(f"{n}-*"))) < children:
            time.sleep(0.0005)
        drop_instances()
        instance = instance_of(gate / f"data{n}")
        found = f"{instance.get_runs_count()} {len(instance.all_instigator_state())}\\n"
        os.write(1, found.encode())


for me in range(children):
    if os.fork() == 0:
        code = 1
        try:
            opened(me)
            code = 0
        finally:
            os._exit(code)
for _ in range(children):
    if os.wait()[1]:
        os.killpg(0, 9)  # one that waits for another that failed would wait for ever
"""


def test_a_fresh_storage_is_made_once(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(tmp_path), str(CHILDREN), str(ROUNDS)],
        capture_output=True, text=True, timeout=120, start_new_session=True, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "0 0\n" * ROUNDS * CHILDREN
    assert "CommandError" not in done.stderr
