"""What a prompt costs beside its models, warm and cold, and what recording adds.

python -m tests.benchmarks.bench_prompt
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.measure import child_cpu, cpu, median_of, table

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
    command = [sys.executable, "-m", "ragstream_app.cli", "--data", str(data), "ingest", "handbook"]
    child_cpu([*command, "--no-record"])


class ModelClock:
    """Adds up the CPU seconds inside an embedder's methods and the MaxSim kernel."""

    def __init__(self, workspace) -> None:
        from ragstream_core.build import models
        from ragstream_core.retrieval import maxsim

        self.seconds = 0.0
        embedder = models.embedder(workspace.config)
        for name in ("embed_queries", "token_vectors"):
            setattr(embedder, name, self._timed(getattr(embedder, name)))
        maxsim.MaxSimScorer.score = self._timed(maxsim.MaxSimScorer.score)
        self._inside = False

    def _timed(self, call):
        def timed(*args, **kwargs):
            if self._inside:
                return call(*args, **kwargs)
            self._inside, started = True, time.process_time()
            try:
                return call(*args, **kwargs)
            finally:
                self._inside = False
                self.seconds += time.process_time() - started

        return timed


def warm(data: Path) -> list[list[object]]:
    """Ask ten questions in one process: first with a cold token cache, then with a warm one."""
    from ragstream_core.build.workspace import open_workspace
    from ragstream_core.config import quiet_environment
    from ragstream_core.orchestration.inputs import PromptRequest

    quiet_environment()
    space = open_workspace(data)
    ask = lambda q: space.run(space.pin(PromptRequest(q, ("handbook",))))  # noqa: E731
    ask("Is anything loaded?")
    clock = ModelClock(space)
    rows = []
    for label in ("token cache cold", "token cache warm"):
        totals, ratios = [], []
        for question in QUESTIONS:
            clock.seconds = 0.0
            total = cpu(lambda q=question: ask(q))
            totals.append(total)
            ratios.append(total / clock.seconds)
        rows.append(
            [f"prompt, {label}", f"{statistics.median(totals):.3f}",
             f"{statistics.median(ratios):.2f} × its models"]
        )  # fmt: skip
    return rows


def cold(data: Path) -> list[list[object]]:
    """Run the command in fresh processes: help, prompt without and with recording."""
    base = [sys.executable, "-m", "ragstream_app.cli", "--data", str(data)]
    ask = [*base, "prompt", QUESTIONS[0], "-p", "handbook", "--json"]
    child_cpu(ask)
    plain = median_of(3, lambda: child_cpu([*ask, "--no-record"]))
    recorded = median_of(3, lambda: child_cpu(ask))
    load = (
        "from ragstream_core.config import quiet_environment; quiet_environment();"
        "from ragstream_core.build.workspace import open_workspace;"
        "from ragstream_core.build.models import embedder;"
        f"embedder(open_workspace({str(data)!r}).config)"
    )
    model = median_of(3, lambda: child_cpu([sys.executable, "-c", load]))
    dagster = median_of(3, lambda: child_cpu([sys.executable, "-c", "import dagster"]))
    shown = median_of(3, lambda: child_cpu([*base, "--help"]))
    more = f"{recorded / plain:.2f} × unrecorded"
    return [
        ["`ragstream --help`, a process", f"{shown:.3f}", ""],
        ["embedder loaded, a process", f"{model:.2f}", ""],
        ["`import dagster`, a process", f"{dagster:.2f}", ""],
        ["`ragstream prompt --no-record`, cold", f"{plain:.2f}", ""],
        ["`ragstream prompt`, cold, recorded", f"{recorded:.2f}", more],
    ]  # fmt: skip


def report() -> str:
    """Measure everything; return the Markdown section."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        prepare(data)
        rows = [*warm(data), *cold(data)]
    head = ["over the handbook, ten questions", "CPU s (median)", "ratio"]
    return "## Prompts\n\n" + table(head, rows)


if __name__ == "__main__":
    print(report())
