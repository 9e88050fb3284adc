"""How much of a first ingest is spent inside the real model.

python -m tests.benchmarks.bench_model_share
"""

import shutil
import tempfile
import time
from pathlib import Path

from ragstream_core.services.ingest import ingest_project
from tests.benchmarks.measure import cpu, table

ROOT = Path(__file__).parents[2]


def report() -> str:
    """Ingest the handbook; return the Markdown section."""
    from ragstream_core.config import quiet_environment
    from ragstream_core.wiring import models
    from ragstream_core.wiring.workspace import open_workspace

    quiet_environment()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        shutil.copytree(ROOT / "data" / "doc_raw" / "handbook", data / "doc_raw" / "handbook")
        space = open_workspace(data)
        embedder = models.embedder(space.config)
        embedder.embed_documents(["warm"])
        inside, original = [], embedder.embed_documents

        def timed(texts, **given):
            started = time.process_time()
            try:
                return original(texts, **given)
            finally:
                inside.append(time.process_time() - started)

        embedder.embed_documents = timed
        found = []
        whole = cpu(lambda: found.append(ingest_project(space, "handbook")))
        (stats,) = found
    model = sum(inside)
    rows = [
        ["whole ingest", f"{whole:.2f}", f"{stats.chunks['embedded']} chunks"],
        ["inside the model", f"{model:.2f}", f"{model / whole:.1%}"],
    ]
    return "## First ingest with the model\n\n" + table(["what", "CPU s", ""], rows)


if __name__ == "__main__":
    print(report())
