"""What an ingest costs without the model: no-op, 1 % changed, 1 % deleted, and the first one.

A tick of the folder sensor is measured on the same files, and the first ingest of a tenth of them
for its peak memory.

CPU seconds of whole processes, user and system, each side run in turn; ratios, no thresholds.

    python -m tests.benchmarks.bench_noop_ingest [--files 10000] [--repeat 7]

The peer of the no-op is a bare Python process that calls scandir and stat on the same files. The
embedder is a fixed vector a text, so that what is measured is everything but the model.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.measure import child_cpu, environment, median_of, table

RACY_S = 2.5  # files written this close to a scan are hashed again by the next one
ROOT = Path(__file__).parents[2]
ENV = environment(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
WORDS = ["index", "chunk", "vector", "catalog", "file", "text", "query", "score", "prompt", "model"]

TICK = """
import sys, time
from pathlib import Path
from ragstream_assets import sensors
from ragstream_core.wiring.workspace import open_workspace
class Instance:
    def get_runs(self, *args, **kwargs):
        return []
    get_run_records = get_runs
    def get_dynamic_partitions(self, name):
        return ["bench"]
space = open_workspace(sys.argv[2], explicit={"embeddings.backend": "hashed"})
def bare(folder):
    import os
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            bare(entry.path)
        else:
            entry.stat(follow_symlinks=False)
cursor = sensors.tick(space, Instance(), None).cursor
ticks, walks = [], []
for _ in range(int(sys.argv[3])):
    for times, call in ((walks, lambda: bare(sys.argv[1])),
                        (ticks, lambda: sensors.tick(space, Instance(), cursor))):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
middle = len(ticks) // 2
print(sorted(ticks)[middle], sorted(walks)[middle])
"""

BARE = """
import os, sys
def walk(folder):
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            walk(entry.path)
        else:
            entry.stat(follow_symlinks=False)
walk(sys.argv[1])
"""

IMPORTS = """
import ragstream_core.ingestion.forecast
import ragstream_core.ingestion.ingestion_config
"""

NO_OP = """
import sys
from pathlib import Path
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.document_tree import DocumentTree
from ragstream_core.ingestion.forecast import inspect
docs = DocumentTree.of(Path(sys.argv[1]))
due = inspect(Path(sys.argv[2]), docs, scan_fp=IngestionConfig().scan_fp).pending
if due is not None:
    sys.exit(f"not a no-op: {due.reason}")
"""

INGEST = """
import json, resource, sys, time, zlib
from pathlib import Path
import numpy as np
from ragstream_core.text.chunker import ChunkPiece
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.ingestion_manager import IngestionManager

class Fixed:
    name, fingerprint, dimension, window = "fixed", "f" * 64, 384, 256
    truncated_inputs = 0
    def count(self, text):
        return len(text) // 4
    def embed_documents(self, texts, *, progress=None):
        rows = np.zeros((len(texts), 384), dtype=np.float32)
        for row, text in zip(rows, texts):
            row[zlib.crc32(text.encode()) % 384] = 1
        return rows

class Simple:
    version = "simple-1000"
    def chunk(self, text, *, file_type):
        return [ChunkPiece(i, text[at : at + 1000], at, min(at + 1000, len(text)), "")
                for i, at in enumerate(range(0, len(text), 1000))]

if len(sys.argv) > 4:  # the model in memory, as in the program; its vectors are not waited for
    from ragstream_core.models.embedders.registry import EmbeddingOptions, create_embeddings
    options = EmbeddingOptions(models_dir=Path(sys.argv[4]))
    create_embeddings("onnx", options).embed_documents(["a " * 200] * 16)
docs = Path(sys.argv[1])
late = int(sys.argv[3])  # far from any mtime: nothing is racy afterwards
manager = IngestionManager(docs.parent, Path(sys.argv[2]).parent, embedder=Fixed(),
                           chunkers=lambda name: Simple(), clock=lambda: time.time_ns() + late)
began = time.process_time()
stats = manager.run(docs.name, IngestionConfig()).to_json()
use = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"cpu": time.process_time() - began, "peak_mib": use.ru_maxrss / 1024,
                  "wall": stats["seconds"], "files": stats["files"], "chunks": stats["chunks"]}))
"""

OPEN = """
import sys, time
from pathlib import Path
import numpy, ragstream_core.text.bm25
from ragstream_core.index.view import forget_views, open_view
times, keep = [], sys.argv[3] == "keep"
for _ in range(5):
    forget_views()
    began = time.process_time()
    view = open_view(Path(sys.argv[2]), project="bench", keep=keep)
    times.append(time.process_time() - began)
print(sorted(times[1:] if keep else times)[2])
"""


def process(script: str, *args: object) -> tuple[float, str]:
    """Run a script in a process of its own; return its CPU seconds and output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run(
        [sys.executable, "-c", script, *map(str, args)],
        capture_output=True, text=True, env=ENV, check=False,
    )  # fmt: skip
    if answer.returncode:
        sys.exit(answer.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, answer.stdout


def corpus(docs: Path, files: int) -> None:
    """Write Markdown files of about 4 KB in folders of 100."""
    rng = random.Random(0)
    for n in range(files):
        folder = docs / f"{n // 100:03}"
        folder.mkdir(parents=True, exist_ok=True)
        body = " ".join(rng.choices(WORDS, k=620))
        (folder / f"{n:05}.md").write_text(f"# File {n}\n\n{body} {n}\n", encoding="utf-8")


def in_turn(repeat: int, **scripts: tuple[str, tuple[object, ...]]) -> dict[str, float]:
    """Return the median CPU seconds of each script, run in turn."""
    times: dict[str, list[float]] = {name: [] for name in scripts}
    for _ in range(repeat):
        for name, (script, args) in scripts.items():
            times[name].append(process(script, *args)[0])
    return {name: statistics.median(values) for name, values in times.items()}


def ingest(docs: Path, index: Path, what: str) -> list[object]:
    """Ingest once; return a row of what it cost."""
    found = json.loads(process(INGEST, docs, index, 10**11)[1])
    chunks, peak = found["chunks"], found["peak_mib"]
    said = f"{chunks['embedded']} of {chunks['live']} chunks embedded, peak {peak:.0f} MiB"
    return [what, f"{found['cpu']:.2f}", said]


def peaks(small: Path, docs: Path, data: Path) -> list[object]:
    """Return a row of the peak memory of two first ingests with the model in memory."""
    runs = []
    for number, where in enumerate((small, small, docs)):  # the first one exports the model
        index = data / f"peak{number}" / where.name
        runs.append(json.loads(process(INGEST, where, index, 10**11, data / "models")[1]))
    one, ten = (run["peak_mib"] for run in runs[1:])
    said = f"{one:.0f} and {ten:.0f} MiB: {ten / one:.2f} ×"
    return ["peak of both with the model in memory", "", said]


def command_line(data: Path, repeat: int) -> float:
    """Return the CPU seconds of a no-op `ragstream ingest` over the same files."""
    env = {"RAGSTREAM_EMBEDDINGS__BACKEND": "hashed"}
    base = [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(data), "ingest", "bench"]
    child_cpu([*base], env=env)
    time.sleep(RACY_S)
    child_cpu([*base], env=env)
    return median_of(repeat, lambda: child_cpu(base, env=env))


def change(docs: Path, share: int) -> None:
    """Change one word in every ``share``-th file."""
    for path in sorted(docs.rglob("*.md"))[::share]:
        path.write_text(path.read_text(encoding="utf-8").replace("index", "INDEX", 1), "utf-8")


def remove(docs: Path, share: int) -> None:
    """Remove every ``share``-th file."""
    for path in sorted(docs.rglob("*.md"))[1::share]:
        path.unlink()


def report(files: int = 10_000, repeat: int = 5) -> str:
    """Measure; return the Markdown section."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        docs, index = data / "doc_raw" / "bench", data / "library" / "bench"
        corpus(docs, files)
        small = data / "doc_raw" / "small"
        corpus(small, files // 10)
        rows = [
            ingest(small, data / "library" / "small", f"first ingest of {files // 10:,} files"),
            ingest(docs, index, "first ingest"),
            peaks(small, docs, data),
        ]
        found = in_turn(
            repeat,
            bare=(BARE, (docs,)),
            no_op=(NO_OP, (docs, index)),
            imports=(IMPORTS, ()),
            python=("pass", ()),
        )
        line = command_line(data, repeat)
        rows += [["bare scandir + stat, a process", f"{found['bare']:.3f}", "1 ×"]]
        rows += [["no-op, library alone, a process", f"{found['no_op']:.3f}",
                  f"{found['no_op'] / found['bare']:.2f} ×"]]  # fmt: skip
        rows += [["no-op `ragstream ingest`, a process", f"{line:.3f}",
                  f"{line / found['bare']:.2f} ×"]]  # fmt: skip
        tick, walk = map(float, process(TICK, docs, data, repeat)[1].split())
        rows += [["a tick of the folder sensor, nothing changed", f"{tick:.3f}",
                  f"{tick / walk:.2f} × scandir + stat in the same process"]]  # fmt: skip
        read, kept = (float(process(OPEN, docs, index, how)[1]) for how in ("read", "keep"))
        rows += [["newest generation opened from the catalog", f"{read:.3f}", "1 ×"]]
        rows += [["the same, its rows kept by an earlier process", f"{kept:.3f}",
                  f"{kept / read:.2f} ×"]]  # fmt: skip
        change(docs, 100)
        rows.append(ingest(docs, index, "1 % changed"))
        remove(docs, 100)
        rows.append(ingest(docs, index, "1 % deleted"))
    return f"## Ingestion without the model, {files:,} files\n\n" + table(
        ["what", "CPU s", "beside it"], rows
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    print(report(given.files, given.repeat))


if __name__ == "__main__":
    main()
