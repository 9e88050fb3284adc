"""What a prompt costs as a command.

python -m tests.benchmarks.bench_prompt
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.measure import child_cpu, median_of, table

ROOT = Path(__file__).parents[2]
QUESTIONS = [
    "How does RAGstream score a long question?",
    "What happens to a file that changes while it is being read?",
    "Which settings shorten a prompt for a small context window?",
    "How do I see why a passage was dropped?",
    "Can a document give instructions to the model?",
    "What do I do when the project is locked?",
    "How are embeddings reused after a file is renamed?",
    "Where does a citation lead?",
    "How do I run one stage again with another setting?",
    "What leaves my machine?",
]


def prepare(data: Path) -> None:
    """Copy the handbook and ingest it once."""
    shutil.copytree(ROOT / "data" / "doc_raw" / "handbook", data / "doc_raw" / "handbook")
    command = [
        sys.executable,
        "-m",
        "ragstream_app.cli.main",
        "--data",
        str(data),
        "ingest",
        "handbook",
    ]
    child_cpu([*command])


def cold(data: Path) -> list[list[object]]:
    """Run commands in fresh processes: help, a prompt made, and one answered from its record."""
    base = [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(data)]
    ask = [*base, "prompt", QUESTIONS[0], "-p", "handbook", "--json"]
    child_cpu(ask)
    plain = median_of(3, lambda: child_cpu([*ask, "--fresh"]))
    again = median_of(3, lambda: child_cpu(ask))
    load = (
        "from ragstream_core.config import quiet_environment; quiet_environment();"
        "from ragstream_core.wiring.workspace import open_workspace;"
        "from ragstream_core.wiring.models import embedder;"
        f"embedder(open_workspace({str(data)!r}).config)"
    )
    model = median_of(3, lambda: child_cpu([sys.executable, "-c", load]))
    dagster = median_of(3, lambda: child_cpu([sys.executable, "-c", "import dagster"]))
    shown = median_of(3, lambda: child_cpu([*base, "--help"]))
    return [
        ["`ragstream --help`, a process", f"{shown:.3f}", ""],
        ["embedder loaded, a process", f"{model:.2f}", ""],
        ["`import dagster`, a process", f"{dagster:.2f}", ""],
        ["`ragstream prompt`, cold", f"{plain:.2f}", ""],
        ["the same asked again", f"{again:.2f}", f"{again / plain:.2f} × cold"],
    ]  # fmt: skip


def report() -> str:
    """Measure everything; return the Markdown section."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        prepare(data)
        rows = cold(data)
    head = ["over the handbook, a process", "CPU s", ""]
    return "## A prompt as a command\n\n" + table(head, rows)


if __name__ == "__main__":
    print(report())
