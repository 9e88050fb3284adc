"""What inverted lists cost and find, beside exact search of the same rows.

python -m tests.benchmarks.bench_inverted_lists [--rows 10000 100000 1000000] [--topics 100000]

Rows are unit vectors of 384 dimensions around topics that lie in 64 of them, with a common mean and
noise in all, as sentence embeddings do. Questions are such rows that are not among them. One
thread; CPU time of this process.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from ragstream_core.proposers import list_training
from ragstream_core.proposers.list_file import Entries, IvfFile, blocks
from ragstream_core.retrieval.scoring import exact_cosines, propose, top
from tests.benchmarks.measure import table

DIMENSION, SPACE, BLOCK = 384, 64, 50_000
QUESTIONS, DEPTH = 50, 100
PROBES = (16, 64, 256)
Found = TypeVar("Found")


def mixture(rows: int, topics: int, seed: int = 1) -> np.ndarray:
    """Return unit vectors like those of sentences, shape (rows, 384)."""
    chance = np.random.default_rng(seed)
    basis = chance.standard_normal((SPACE, DIMENSION)).astype(np.float32) / 8
    centers = chance.standard_normal((topics, SPACE)).astype(np.float32)
    mean = 0.3 * chance.standard_normal(DIMENSION).astype(np.float32)
    found = np.empty((rows, DIMENSION), dtype=np.float32)
    for at in range(0, rows, BLOCK):
        part = found[at : at + BLOCK]
        near = centers[chance.integers(0, topics, len(part))]
        near = near + 0.7 * chance.standard_normal(near.shape).astype(np.float32)
        noise = 0.35 * chance.standard_normal(part.shape).astype(np.float32)
        part[:] = near @ basis + noise + mean
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return found


def exact(rows: np.ndarray, question: np.ndarray) -> np.ndarray:
    """Return the nearest rows as the catalog finds them."""
    near = propose(rows @ question, DEPTH)
    scores = exact_cosines(rows[near], question[None, :])[:, 0]
    return near[top([f"{row:08}" for row in near.tolist()], scores, DEPTH)]


def timed(work: Callable[[], Found]) -> tuple[Found, float]:
    """Return what some work returns, and its CPU seconds."""
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def measured(rows: int, topics: int, home: Path) -> list[list[str]]:
    """Return the lines of one number of rows."""
    every = mixture(rows + QUESTIONS, topics)
    held, questions = every[:rows], every[rows:]
    entries = Entries.of(np.arange(rows), held)
    training, trained_s = timed(lambda: list_training.train(held))
    path = home / "lists"
    made = blocks({}, training, added=entries)
    _, filled_s = timed(lambda: path.write_bytes(b"".join(made)))
    file, opened_s = timed(lambda: IvfFile(path))
    wanted, exact_s = timed(lambda: [exact(held, question) for question in questions])
    added = Entries(np.arange(rows, rows + QUESTIONS), every, np.arange(rows, rows + QUESTIONS))
    _, delta_s = timed(lambda: [None for _ in blocks({}, training, added=added, old=file)])
    size = path.stat().st_size / 1e6
    lines: list[list[str]] = []
    for nprobe in PROBES:
        found, search_s = timed(
            lambda: [file.search(q[None, :], DEPTH, nprobe)[0] for q in questions]  # noqa: B023
        )
        shares = [
            np.mean([len(np.intersect1d(a, b[:k])) / k for a, b in zip(found, wanted, strict=True)])
            for k in (20, DEPTH)
        ]
        first = not lines
        lines.append([
            f"{rows:,}" if first else "",
            f"{exact_s / QUESTIONS * 1e3:,.1f}" if first else "",
            f"{min(nprobe, training.lists)} of {training.lists:,}",
            f"{search_s / QUESTIONS * 1e3:,.1f}",
            *(f"{share:.3f}" for share in shares),
            f"{trained_s + filled_s:,.1f}" if first else "",
            f"{delta_s:,.2f}" if first else "",
            f"{opened_s:,.2f}" if first else "",
            f"{size:,.0f}" if first else "",
        ])  # fmt: skip
        if nprobe >= training.lists:
            break
    return lines


def report(counts: Sequence[int] = (10_000, 100_000, 1_000_000), topics: int = 100_000) -> str:
    """Return the section of docs/benchmarks.md."""
    lines = []
    with tempfile.TemporaryDirectory() as home:
        for rows in counts:
            lines += measured(rows, min(topics, max(rows // 10, 1)), Path(home))
    head = [
        "chunks", "exact, ms", "lists looked at", "lists, ms", "of 20 nearest", "of 100 nearest",
        "making, s", "delta of 50, s", "opening, s", "MB",
    ]  # fmt: skip
    return (
        "## Inverted lists beside exact search\n\n"
        "CPU time of one thread; synthetic mixtures of 384 dimensions with ten rows a topic, "
        f"{QUESTIONS} questions. `lists` names candidates; their exact scores cost the same on "
        "both sides and are not counted.\n\n" + table(head, lines)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--topics", type=int, default=100_000)
    given = parser.parse_args()
    print(report(given.rows, given.topics))
