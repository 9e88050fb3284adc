"""What it costs to keep a turn, and to read the newest ones of a large journal.

    python -m tests.benchmarks.bench_journal [--log-mb 1000] [--repeat 400]

The floor of an append is one write and one fdatasync of as many bytes to a file beside it, run in
turn. Medians of wall time; the processor's share of an append is measured beside it, because on a
fast disk it is what differs.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ragstream_core.conversations.journal.journal import SEGMENT_BYTES, Journal
from ragstream_core.conversations.journal.records import Turn, record_json
from ragstream_core.conversations.journal.segments import NO_CHAIN, chain_of, frame_line
from ragstream_core.conversations.recent_history import Scope, layer_g
from tests.benchmarks.measure import table

PAIRS = 5


def turn(n: int) -> Turn:
    """A turn whose line has about 1 KB."""
    return Turn(
        f"01999999-0000-7000-8000-{n:012d}",
        f"20261005-{n // 500:06d}",
        "2026-10-05T14:07:09.123+02:00",
        f"question {n} " + "u" * 300,
        f"answer {n} " + "a" * 380,
        projects=("handbook",),
    )


def wall(call: Callable[[], object]) -> float:
    """Return the seconds of a call on the clock of the wall."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _write(file: int, data: bytes, at: int) -> None:
    os.pwrite(file, data, at)
    os.fdatasync(file)


def appends(folder: Path, repeat: int) -> list[list[str]]:
    """Append and write bare, in turn."""
    log = Journal(folder / "logs")
    log.append([turn(0)])
    data = (folder / "logs" / "conversation.log").read_bytes()
    bare = os.open(folder / "bare", os.O_RDWR | os.O_CREAT)
    floor, ours, cpu = [], [], []
    for n in range(1, repeat + 1):
        floor.append(wall(partial(_write, bare, data, n * len(data))))
        began = time.process_time()
        ours.append(wall(partial(log.append, [turn(n)])))
        cpu.append(time.process_time() - began)
    os.close(bare)
    base, took, busy = (statistics.median(times) for times in (floor, ours, cpu))
    return [
        ["one write + fdatasync", f"{len(data)}", f"{base * 1e6:.0f}", "", "1.00"],
        ["append", f"{len(data)}", f"{took * 1e6:.0f}", f"{busy * 1e6:.0f}", f"{took / base:.2f}"],
    ]


def large(folder: Path, megabytes: int) -> Journal:
    """Make a journal of so many MB, in closed segments and a current one."""
    log = Journal(folder)
    folder.mkdir()
    seq, chain, total, first = 0, NO_CHAIN, 0, 1
    while total < megabytes << 20:
        lines, size = [], 0
        room = min(SEGMENT_BYTES - 2048, (megabytes << 20) - total)
        while size < room:
            seq += 1
            rec = json.dumps(record_json(turn(seq)), separators=(",", ":")).encode()
            lines.append(frame_line(seq, chain, rec))
            chain = chain_of(lines[-1])
            size += len(lines[-1])
        total += size
        last = total >= megabytes << 20
        name = "conversation.log" if last else f"conversation-{first}.log"
        (folder / name).write_bytes(b"".join(lines))
        first = seq + 1
    return log


def reading(folder: Path, megabytes: int, repeat: int) -> list[list[str]]:
    """Read the newest turns, and verify what the first append of a process verifies."""
    log = large(folder / "large", megabytes)
    newest = next(log.backwards()).record
    assert isinstance(newest, Turn)
    session = newest.session_id
    elsewhere = Scope("new", PAIRS, fill="all")
    rows = []
    for what, call in (
        (f"last {PAIRS} pairs of the running session", lambda: layer_g(log, Scope(session, PAIRS))),
        (f"last {PAIRS} pairs for a new session", lambda: layer_g(log, elsewhere)),
        ("position of the newest record", log.newest),
    ):
        times = [wall(call) for _ in range(repeat)]
        rows.append([what, f"{megabytes} MB", f"{statistics.median(times) * 1e3:.3f}"])
    size = (folder / "large" / "conversation.log").stat().st_size
    first = wall(lambda: Journal(folder / "large").append([turn(1)]))
    rows.append(["first append of a process", f"{size >> 20} MB segment", f"{first * 1e3:.0f}"])
    return rows


def report(megabytes: int = 1000, repeat: int = 400) -> str:
    """Measure; return the Markdown section."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept = table(["keep a turn", "bytes", "µs", "CPU µs", "ratio"], appends(folder, repeat))
        read = table(["read", "journal", "ms"], reading(folder, megabytes, min(repeat, 100)))
    return f"## Conversation journal\n\n{kept}\n\n{read}\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log-mb", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=400)
    given = parser.parse_args()
    print(report(given.log_mb, given.repeat))


if __name__ == "__main__":
    main()
