"""What starting costs: commands that need no model, beside the imports they avoid.

python -m tests.benchmarks.bench_starts
"""

import importlib.util
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.benchmarks.measure import child_cpu, median_of, table

IMPORTS = ("dagster", "chromadb", "torch", "sentence_transformers")


def report(repeat: int = 5) -> str:
    """Measure; return the Markdown section."""
    with tempfile.TemporaryDirectory() as folder:
        docs = Path(folder) / "doc_raw" / "bench"
        docs.mkdir(parents=True)
        (docs / "one.md").write_text("# One\n\nA short page.\n", encoding="utf-8")
        base = [sys.executable, "-m", "ragstream_app.cli.main", "--data", folder]
        env = {"RAGSTREAM_EMBEDDINGS__BACKEND": "hashed", "HF_HUB_OFFLINE": "1"}
        child_cpu([*base, "ingest", "bench"], env=env)
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "`ragstream --help`": [*base, "--help"],
            "`ragstream status`": [*base, "status"],
            "`ragstream ingest`, nothing to do": [*base, "ingest", "bench"],
            **{
                f"`import {name}`": [sys.executable, "-c", f"import {name}"]
                for name in IMPORTS
                if importlib.util.find_spec(name) is not None
            },
        }
        rows = [
            [what, f"{median_of(repeat, partial(child_cpu, command, env=env)):.3f}"]
            for what, command in commands.items()
        ]
    return "## Starts\n\n" + table(["a process", "CPU s"], rows)


if __name__ == "__main__":
    print(report())
