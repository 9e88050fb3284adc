"""G9: the published history from cold to its first answer, and what publishing costs.

    python -m tests.benchmarks.bench_snapshot [--rows 100000] [--repeat 9]

Each repetition is a new process, the file in the page cache. The floor maps a bare file of the same
vectors and multiplies once; both sides run in turn. An answer is exact: the rows that BLAS proposes
are scored by the deciding kernel. The imports of NumPy and of the modules are not counted.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ragstream_core.conversations.columns import SelectedRow
from tests.benchmarks.measure import table

ROOT = Path(__file__).parents[2]
DIMENSION = 384

READ = """
import json, sys, time
import numpy as np
from ragstream_core.index.snapshot import open_snapshot
from ragstream_core.retrieval.scoring import exact_cosines, propose, top
from ragstream_core.conversations.eligible_turns import Filters, bias, eligible
from ragstream_core.settings.prompts import HistoryConfig
from pathlib import Path
path, query = Path(sys.argv[1]), np.load(sys.argv[2])
began = time.perf_counter()
view = open_snapshot(path)
opened = time.perf_counter()
rows = propose((view.vectors @ query.T)[:, 0], 100)
scores = exact_cosines(view.vectors[rows], query)[:, 0]
best = [view.chunk_ids[rows[i]] for i in top([view.chunk_ids[r] for r in rows], scores, 10)]
answered = time.perf_counter()
view.verify()
verified = time.perf_counter()
columns = view.columns
eligible(columns, Filters(sessions=("s1",), exclude_tags=("BLUE",), now_ns=10**18))
bias(columns, HistoryConfig(recency_weight=0.05), 10**18)
selected = time.perf_counter()
assert "pyarrow" not in sys.modules and "pandas" not in sys.modules
print(json.dumps([opened - began, answered - began, verified - answered, selected - verified]))
"""

FLOOR = """
import json, sys, time
import numpy as np
path, query = sys.argv[1], np.load(sys.argv[2])
began = time.perf_counter()
vectors = np.memmap(path, "<f4", "r").reshape(-1, query.shape[1])
best = int(np.argmax(vectors @ query[0]))
print(json.dumps([time.perf_counter() - began]))
"""


def history(count: int) -> tuple[list[SelectedRow], np.ndarray]:
    """Return rows and vectors of a synthetic history."""
    from ragstream_core.records.identity import sha256_hex
    from ragstream_core.text.terms import term_blob

    rng = np.random.default_rng(7)
    vectors = rng.standard_normal((count, DIMENSION), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    words = [f"word{n}" for n in range(5_000)]
    rows = []
    for n, picked in enumerate(rng.integers(0, len(words), (count, 40)), 1):
        text = "[2026-10-05 14:07] user: " + " ".join(words[i] for i in picked)
        rows.append(
            SelectedRow(
                f"history::s{n % 200}::{n}-{n}::0", n, 0, text, sha256_hex(text), term_blob(text),
                f"s{n % 200}", f"turn-{n}", n * 10**9, ("GOLD",) if n % 50 == 0 else (),
                importance=(n % 10) / 10, sha256=sha256_hex(text),
            )
        )  # fmt: skip
    return rows, vectors


def _run(code: str, *args: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", code, *args], cwd=ROOT, capture_output=True, text=True, check=True
    )
    times: list[float] = json.loads(done.stdout)
    return times


def report(count: int = 100_000, repeat: int = 9) -> str:
    """Measure; return the Markdown section."""
    from ragstream_core.conversations.journal.records import Position
    from ragstream_core.index.history import Mark
    from ragstream_core.index.selection import build, publish

    with tempfile.TemporaryDirectory() as folder:
        path, bare, query = (Path(folder, n) for n in ("history_store.arrow", "bare", "query.npy"))
        rows, vectors = history(count)
        mark = Mark(1, Position(count, "0" * 32), "model", "index", "0" * 64)
        wall, cpu = time.perf_counter(), time.process_time()
        made = publish(build(rows, vectors, mark=mark, cap=count), path)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        bare.write_bytes(vectors.tobytes())
        np.save(query, vectors[5:6])
        del rows, vectors
        ours, floors = [], []
        for _ in range(repeat):
            floors.append(_run(FLOOR, str(bare), str(query))[0])
            ours.append(_run(READ, str(path), str(query)))
    opened, answered, verified, selected = (statistics.median(x) * 1e3 for x in zip(*ours))  # noqa: B905
    floor = statistics.median(floors) * 1e3
    lines = [
        ["open", f"{opened:.2f} ms", "goal ≤ 2 ms at 100k"],
        ["open and first exact answer", f"{answered:.1f} ms", "goal ≤ 25 ms at 100k"],
        ["page in and one GEMV, a bare file", f"{floor:.1f} ms", f"{answered / floor:.2f} ×"],
        ["check every value, once a process", f"{verified:.0f} ms", ""],
        ["filters and biases of all rows", f"{selected:.1f} ms", ""],
        ["publish", f"{wall:.2f} s", f"{cpu:.2f} CPU s, {made.size / 1e6:.0f} MB"],
    ]
    return f"## Published history, {count:,} rows\n\n" + table(["what", "median", ""], lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=9)
    given = parser.parse_args()
    print(report(given.rows, given.repeat))
