"""What it costs to commit ten new turns, whatever the size of the history; the model not counted.

CPU time of this process. Committed: texts and vectors recorded and the generation made, all of it
durable. The whole run also reads and cuts the journal's tail, takes the lock, opens the catalog and
derives the terms. The floor: the same vectors written and synced, and one SQLite transaction.

    python -m tests.benchmarks.bench_history_commit [--turns 1000 20000 100000] [--repeat 15]
"""

import argparse
import contextlib
import os
import random
import sqlite3
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.conversations.units import TurnChunker
from ragstream_core.index.catalog import Catalog
from ragstream_core.index.history import commit_turns
from ragstream_core.ingestion import history_worker
from ragstream_core.ingestion.history_worker import HistoryIngestionWorker
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.platform.files import pwrite_durable
from ragstream_core.ports import Progress
from tests.benchmarks.measure import table

DELTA = 10
WORDS = ["index", "brake", "noise", "sensor", "report", "meeting", "limit", "model", "road", "gear"]


class Fixed(HashedEmbedder):
    """A vector a text, in no time; what it takes is taken off."""

    spent = 0.0

    def count(self, text: str) -> int:
        """Return a number of tokens."""
        return len(text) // 4

    def embed_documents(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> np.ndarray:
        """Return one axis a text."""
        began = time.process_time()
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[zlib.crc32(text.encode()) % self.dimension] = 1
        Fixed.spent += time.process_time() - began
        return rows


def turns(first: int, count: int) -> list[Turn]:
    """Return turns of about 1 KB in sessions of 50."""
    rng = random.Random(first)
    return [
        Turn(
            id=f"{n:032x}",
            session_id=f"s{n // 50}",
            timestamp=f"2026-{1 + n % 12:02}-05T10:{n % 60:02}:00+00:00",
            user_text=f"{n} " + " ".join(rng.choices(WORDS, k=60)),
            assistant_text=" ".join(rng.choices(WORDS, k=90)),
        )
        for n in range(first, first + count)
    ]


@contextlib.contextmanager
def measured(spent: list[float]) -> Iterator[None]:
    """Add to ``spent[0]`` what the writing calls cost, in CPU seconds."""
    record = Catalog.record_texts
    with (
        patch.object(Catalog, "record_texts", lambda *a, **kw: timed(record, spent, *a, **kw)),
        patch.object(history_worker, "commit_turns", partial(timed, commit_turns, spent)),
    ):
        yield


def timed(call: Callable[..., object], spent: list[float], *args: object, **kw: object) -> object:
    """Call; add the CPU seconds."""
    began = time.process_time()
    try:
        return call(*args, **kw)
    finally:
        spent[0] += time.process_time() - began


def delta(
    worker: HistoryIngestionWorker, journal: Journal, first: int, spent: list[float]
) -> tuple[float, float, float]:
    """Append ten turns and embed them; return CPU of the commit, of the run, and wall seconds."""
    journal.append(turns(first, DELTA))
    Fixed.spent = spent[0] = 0.0
    began, wall = time.process_time(), time.perf_counter()
    stats = worker.run()
    whole = time.process_time() - began - Fixed.spent
    assert stats.embedded == DELTA and stats.committed, stats
    return spent[0], whole, time.perf_counter() - wall


def floor(folder: Path, repeat: int) -> float:
    """Return the CPU seconds of the writes alone: vectors synced, one transaction of ten rows."""
    db = sqlite3.connect(folder / "floor.sqlite", isolation_level=None)
    db.execute("PRAGMA synchronous=EXTRA")
    db.execute("CREATE TABLE t(h TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID")
    times, stride = [], DELTA * 384 * 4
    for n in range(repeat):
        began = time.process_time()
        pwrite_durable(folder / "floor.f32", os.urandom(stride), offset=n * stride)
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO t VALUES(?, ?)", ((f"{n}-{i}", "x" * 1000) for i in range(10)))
        db.execute("COMMIT")
        times.append(time.process_time() - began)
    db.close()
    return statistics.median(times)


def measure(size: int, repeat: int, folder: Path) -> list[object]:
    """Build a history of some turns; return a row of what a delta costs."""
    journal, spent = Journal(folder / "logs"), [0.0]
    worker = HistoryIngestionWorker(
        journal, folder / "history" / "index", embedder=Fixed(), chunker=TurnChunker()
    )
    for at in range(0, size, 1000):
        journal.append(turns(at, min(1000, size - at)))
    began = time.process_time()
    worker.run()
    first = time.process_time() - began
    with measured(spent):
        for n in range(3):
            delta(worker, journal, size + n * DELTA, spent)
        found = [delta(worker, journal, size + (3 + n) * DELTA, spent) for n in range(repeat)]
    commit, run, wall = (statistics.median(column) * 1e3 for column in zip(*found, strict=True))
    worst = max(c for c, _, _ in found) * 1e3
    return [
        f"{size:,}", f"{commit:.2f}", f"{worst:.2f}", f"{run:.2f}", f"{wall:.1f}", f"{first:.1f}"
    ]  # fmt: skip


def report(sizes: tuple[int, ...] = (1_000, 20_000, 100_000), repeat: int = 25) -> str:
    """Measure; return the Markdown section."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        low = floor(Path(folder), repeat) * 1e3
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(size, repeat, Path(folder)))
    head = [
        "turns there", "committed, CPU ms", "worst", "whole run, CPU ms", "its wall ms",
        "first run of all, CPU s",
    ]  # fmt: skip
    note = f"Writing the same vectors and rows alone: {low:.2f} ms CPU."
    title = "## Ten new turns into the history, the model not counted"
    return f"{title}\n\n{table(head, rows)}\n\n{note}"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=[1_000, 20_000, 100_000])
    parser.add_argument("--repeat", type=int, default=25)
    given = parser.parse_args()
    print(report(tuple(given.turns), given.repeat))


if __name__ == "__main__":
    main()
