"""What 3,000 nearly equal notes cost once their Chroma collection is sealed: a no-op ingest.

    python -m tests.benchmarks.bench_near_equal [--notes 3000] [--repeat 5]

An approximate graph may miss some of them. A collection that was refused for that would be made
again at every ingest; so the no-op is compared with one that keeps no collection at all, in turn.
CPU seconds of whole processes, children included.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.bench_noop_ingest import RACY_S
from tests.benchmarks.measure import child_cpu, environment, table

ROOT = Path(__file__).parents[2]
SAME = (
    "The valve of the pump was opened, looked at, cleaned and closed again; nothing was found. " * 3
)
HASHED = {"RAGSTREAM_EMBEDDINGS__BACKEND": "hashed", "PYTHONPATH": str(ROOT)}
KEPT = {**HASHED, "RAGSTREAM_VECTOR_STORE__COLLECTION": "true"}
NONE = {**HASHED, "RAGSTREAM_VECTOR_STORE__COLLECTION": "false"}


def report(notes: int = 3_000, repeat: int = 5) -> str:
    """Measure; return the Markdown section."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        docs = data / "doc_raw" / "notes"
        docs.mkdir(parents=True)
        for n in range(notes):
            (docs / f"{n:05}.md").write_text(f"# Note {n}\n\n{SAME}Item {n}.\n", encoding="utf-8")
        time.sleep(RACY_S)
        base = [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(data)]
        ingest = [*base, "ingest", "notes"]
        first = child_cpu(ingest, env=KEPT)
        kept, none = [], []
        for _ in range(repeat):
            kept.append(child_cpu(ingest, env=KEPT))
            none.append(child_cpu(ingest, env=NONE))
        state = _collection(base)
    idle, bare = statistics.median(kept), statistics.median(none)
    sealed = (
        f"{state['rows']:,} rows sealed, {state['self_recall']:.1%} of a sample find themselves"
    )
    return f"## Ingesting {notes:,} nearly equal notes, hashed vectors\n\n" + table(
        ["what", "CPU s", "beside"],
        [
            ["first ingest and collection", f"{first:.2f}", sealed],
            ["no-op with the collection", f"{idle:.2f}", f"{idle / bare:.2f} × without one"],
            ["no-op without a collection", f"{bare:.2f}", ""],
        ],
    )


def _collection(base: list[str]) -> dict[str, float]:
    done = subprocess.run(
        [*base, "status", "notes", "--json"],
        env=environment(**KEPT),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)["projects"][0]["collection"]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=3_000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    sys.stdout.write(report(given.notes, given.repeat) + "\n")
