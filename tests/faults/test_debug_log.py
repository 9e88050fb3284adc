"""The Debug Logger in a process that is killed: every line whose call came back is on the disk."""

import datetime as dt
import random
import shutil
import time

import pytest

from ragstream_core.platform.debug_log import DebugLog, DebugRules
from tests.faults.harness import Child
from tests.lengths import by_length

KILLS = by_length(5, 15, 100)
WHEN = dt.datetime(2026, 3, 1, 9, 5, 7, 0, dt.UTC)


def numbers(folder, keep):
    """The numbers of all whole lines, oldest file first."""
    base = folder / "debug_trace_20260301-090507_sess01.log"
    turned = [base.with_name(f"{base.name}.{n}") for n in range(keep, 0, -1)]
    raw = b"".join(path.read_bytes() for path in (*turned, base) if path.exists())
    whole = raw[: raw.rfind(b"\n") + 1].decode().splitlines()
    return [int(line.rsplit(" ", 1)[1]) for line in whole]


@pytest.mark.sweep
def test_killed_at_random_moments_no_finished_line_is_lost(tmp_path):
    chance, keep = random.Random(3), 2_000
    for _ in range(KILLS):
        folder, done = tmp_path / "logs", tmp_path / "done"
        rules = DebugRules(rotate_bytes=200, rotate_keep=keep)

        def work(folder=folder, done=done, rules=rules):
            log = DebugLog(folder, rules, str, lambda: WHEN)
            with done.open("ab", buffering=0) as said:
                for n in range(100_000):
                    log.log_write_text(f"line {n}")
                    said.write(b"%d\n" % n)

        child = Child(work)
        child.go()
        while not done.exists() or not done.stat().st_size:
            time.sleep(0.001)
        time.sleep(chance.random() * 0.1)
        child.kill()
        child.wait()
        finished = len(done.read_bytes().splitlines())
        found = numbers(folder, keep)
        assert found == list(range(len(found))) and len(found) >= finished
        shutil.rmtree(folder)
        done.unlink()
