"""How much of a first ingest is spent inside the real model.

python -m tests.benchmarks.bench_model_share
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from ragstream_core.services.ingest import ingest_project
from tests.benchmarks.measure import table

if TYPE_CHECKING:
    from ragstream_core.ports import F32, Progress

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
        inside: list[float] = []
        original = embedder.embed_documents

        def timed(texts: Sequence[str], *, progress: Progress | None = None) -> F32:
            started = time.process_time()
            try:
                return original(texts, progress=progress)
            finally:
                inside.append(time.process_time() - started)

        with patch.object(embedder, "embed_documents", timed):
            started = time.process_time()
            stats = ingest_project(space, "handbook")
            whole = time.process_time() - started
    model = sum(inside)
    rows = [
        ["whole ingest", f"{whole:.2f}", f"{stats.chunks['embedded']} chunks"],
        ["inside the model", f"{model:.2f}", f"{model / whole:.1%}"],
    ]
    return "## First ingest with the model\n\n" + table(["what", "CPU s", ""], rows)


if __name__ == "__main__":
    print(report())
