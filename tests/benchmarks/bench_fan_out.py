"""What a second worker saves, with the default model: one and two workers, a thread each.

python -m tests.benchmarks.bench_fan_out

On a machine that is busy the wall times say nothing; how the work was split does: the CPU time of
the busiest worker beside that of all.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.benchmarks.measure import table
from tests.databases import PostgresServer
from tests.processes import children, until

TEXTS = 2_000
ROOT = Path(__file__).parents[2]
WORDS = (ROOT / "data" / "doc_raw" / "handbook" / "ingestion.md").read_text().split()
LOOK_S = 0.5
"""Between two looks at the table: each one is a connection, which takes from the cores measured."""
TICKS = os.sysconf("SC_CLK_TCK")


class Split(NamedTuple):
    """What one run took: wall seconds, and CPU seconds of each worker."""

    wall_s: float
    cpu_s: list[float]


def report(texts: int = TEXTS) -> str:
    """Measure once each; return the Markdown section."""
    head = f"## Embedding {texts:,} texts on workers of one machine\n\n"
    try:
        found = {count: _measured(count, texts) for count in (1, 2)}
    except pytest.skip.Exception as missing:
        return f"{head}Not measured: {missing}\n"
    lines = [
        (
            str(count),
            f"{run.wall_s:.1f}",
            f"{found[1].wall_s / run.wall_s:.2f} ×",
            " + ".join(f"{cpu:.1f}" for cpu in run.cpu_s),
            f"{sum(run.cpu_s) / max(run.cpu_s):.2f} ×",
        )
        for count, run in found.items()
    ]
    columns = ("workers", "wall s", "faster", "their CPU s", "all beside the busiest")
    return head + table(columns, lines)


def _measured(workers: int, texts: int) -> Split:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        docs = folder / "data" / "doc_raw" / "bench"
        docs.mkdir(parents=True)
        chance = random.Random(16)
        for n in range(texts):
            words = " ".join(chance.choices(WORDS, k=120))
            (docs / f"{n:05}.txt").write_text(f"{n} {words}", encoding="utf-8")
        postgres = PostgresServer()
        env = os.environ | {
            "PYTHONPATH": str(ROOT),
            "HF_HUB_OFFLINE": "1",
            "RAGSTREAM_EMBEDDINGS__WORKERS": "1",
            "RAGSTREAM_EMBEDDINGS__SHARED": postgres.url(),
            "RAGSTREAM_VECTOR_STORE__COLLECTION": "false",
        }
        started = [_worker(folder, env, n) for n in range(workers)]
        try:
            before = [_cpu(each) for each in started]
            began = time.perf_counter()
            ingest = subprocess.Popen(
                [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(folder / "data"),
                 "ingest", "bench", "--fan-out"],
                env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            url = postgres.url()
            while _vectors(url) < texts and ingest.poll() is None:
                time.sleep(LOOK_S)
            wall = time.perf_counter() - began
            after = [_cpu(each) for each in started]
            _, said = ingest.communicate()
            assert ingest.returncode == 0, said.decode()
        finally:
            for each in started:
                each.send_signal(signal.SIGTERM)
                each.wait()
            postgres.close()
    return Split(wall, [b - a for a, b in zip(before, after, strict=True)])


def _worker(folder: Path, env: dict[str, str], n: int) -> subprocess.Popen[bytes]:
    log = folder / f"worker-{n}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(folder / f"worker-{n}"),
             "worker", "--name", f"w{n}"],
            env=env, cwd=folder, stdout=out, stderr=out,
        )  # fmt: skip
    assert until(lambda: b"takes batches" in log.read_bytes(), 600), log.read_text()
    return process


def _vectors(url: str) -> int:
    with psycopg.connect(url) as db:
        there = db.execute("SELECT to_regclass('ragstream_vectors')").fetchone()
        if there is None or there[0] is None:
            return 0
        row = db.execute("SELECT count(*) FROM ragstream_vectors").fetchone()
    return int(row[0]) if row else 0


def _cpu(process: subprocess.Popen[bytes]) -> float:
    """Return the CPU seconds of a worker with its processes."""
    total = 0.0
    for pid in (process.pid, *children(process.pid)):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


if __name__ == "__main__":
    print(report(int(sys.argv[1]) if len(sys.argv) > 1 else TEXTS))
