"""What keeping the Chroma collection costs, beside the bare calls that it is made of.

python -m tests.benchmarks.bench_chroma [--files 500]

Rows come from an index, so nothing is embedded here. A sync copies the last collection, deletes
and adds, and a second process checks that vectors find themselves: CPU seconds of all processes.
The bare side is the calls of `add`, or of `upsert` for live ids, alone.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ragstream_core.index.view import open_view
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.ports import Progress
from ragstream_core.services.ingest import ingest_project
from tests.benchmarks.bench_noop_ingest import ENV, process
from tests.benchmarks.measure import table

SHARE = 20  # every so many-th file changes
VERB = """
import json, sys, time
from pathlib import Path
import chromadb
import numpy as np
from chromadb.config import Settings
folder, given, verb, step = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
rows = client.get_or_create_collection("bench", embedding_function=None,
                                       metadata={"hnsw:space": "cosine"})
ids = json.loads((given / "ids.json").read_text())[::step]
vectors = np.load(given / "vectors.npy")[::step]
began = time.process_time()
for at in range(0, len(ids), 500):
    part = ids[at : at + 500]
    getattr(rows, verb)(ids=part, embeddings=vectors[at : at + 500], documents=part,
                        metadatas=[{"source": i} for i in part])
print(time.process_time() - began)
"""


class Scattered(HashedEmbedder):
    """An embedder of random unit vectors, always the same one for a text."""

    fingerprint = "5" * 64

    def embed_documents(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> np.ndarray:
        """Return a row a text."""
        rows = [np.random.default_rng(zlib.crc32(t.encode())).standard_normal(384) for t in texts]
        made: np.ndarray = np.asarray(rows).reshape(-1, 384)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return made.astype(np.float32)


def corpus(docs: Path, files: int) -> None:
    """Write files of ten paragraphs, each a chunk of its own."""
    chance, words = random.Random(1), [f"word{i}" for i in range(5000)]
    docs.mkdir(parents=True)
    for n in range(files):
        parts = [f"## Part {i}\n\n{' '.join(chance.choices(words, k=120))}" for i in range(10)]
        (docs / f"{n:05}.md").write_text("\n\n".join([f"# File {n}", *parts]), encoding="utf-8")


def sync(data: Path, project: str) -> tuple[float, list[int]]:
    """Bring a collection up to its index.

    Returns:
        CPU seconds, children included, and how many rows were added, deleted and verified.
    """
    script = (
        "import json, sys\n"
        "from ragstream_core.proposers.collections import collection_of\n"
        "from ragstream_core.wiring.workspace import open_workspace\n"
        "report = collection_of(open_workspace(sys.argv[1]), sys.argv[2]).sync()\n"
        "print(json.dumps([report.added, report.deleted, report.verified]))\n"
    )
    seconds, said = process(script, data, project)
    counts: list[int] = json.loads(said.splitlines()[-1])
    return seconds, counts


def bare(folder: Path, given: Path, verb: str, step: int = 1) -> float:
    """Call one verb for every ``step``-th row; return the CPU seconds of the calls alone."""
    done = subprocess.run(
        [sys.executable, "-c", VERB, str(folder), str(given), verb, str(step)],
        capture_output=True, text=True, env=ENV, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    return float(done.stdout.splitlines()[-1])


def report(files: int = 500) -> str:
    """Measure; return the Markdown section."""
    from ragstream_core.models.embedders.registry import register_embedding_backend
    from ragstream_core.wiring.workspace import open_workspace

    register_embedding_backend("scattered", Scattered)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        docs, given, plain = data / "doc_raw" / "bench", Path(folder), Path(folder) / "plain"
        corpus(docs, files)
        space = open_workspace(data, explicit={"embeddings.backend": "scattered"})
        ingest_project(space, "bench", collection=False)
        view = open_view(space.index_dir("bench"))
        np.save(given / "vectors.npy", view.vectors)
        (given / "ids.json").write_text(json.dumps(list(view.chunk_ids)))
        made, (rows, _, checked) = sync(data, "bench")
        added = bare(plain, given, "add")
        for path in sorted(docs.iterdir())[::SHARE]:
            path.write_text(path.read_text(encoding="utf-8").replace("word", "other"), "utf-8")
        ingest_project(space, "bench", collection=False)
        delta, (new, gone, again) = sync(data, "bench")
        upserted = bare(plain, given, "upsert", SHARE)
        start = 2 * process("import chromadb")[0]
        shutil.rmtree(plain)
    live = len(range(0, rows, SHARE))
    changed = f"sync of {gone:,} rows out, {new:,} in, {again:,} vectors checked"
    return "## The Chroma collection\n\n" + table(
        ["what", "rows", "CPU s", "rows/s"],
        [
            line(f"first sync, {checked:,} vectors checked", rows, made),
            line("bare `add` of the same rows", rows, added),
            line(changed, gone + new, delta),
            line("bare `upsert` of live ids", live, upserted),
            ["two processes that import chromadb, part of each sync", "", f"{start:.2f}", ""],
        ],
    )


def line(what: str, rows: int, seconds: float) -> list[object]:
    """Return a row of the table."""
    return [what, f"{rows:,}", f"{seconds:.2f}", f"{rows / seconds:,.0f}"]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=500)
    print(report(parser.parse_args().files))


if __name__ == "__main__":
    main()
