"""What a press on the page costs over its stages' own work, and what writing its run takes.

python -m tests.benchmarks.bench_recording
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

from ragstream_app.page.prompt_session import PromptSession
from ragstream_core.wiring.workspace import Workspace
from tests.benchmarks.bench_prompt import QUESTIONS, prepare
from tests.benchmarks.measure import table

Row = tuple[float, float, float]
"""Seconds over the stages' own work until the result is there; from there until the run is written,
and the CPU seconds of that."""


def press(space: Workspace, desk: PromptSession, button: str, question: str) -> Row:
    """Press a button as the page does; wait for the result, then for the run."""
    from ragstream_app.page.jobs import presses
    from ragstream_app.page.prompt_session import BUILD
    from ragstream_assets.recorder.writer import writer
    from ragstream_core.prompts.inputs import PromptRequest

    started = time.perf_counter()
    job = presses.start(desk, button, PromptRequest(question, ("handbook",)), space, fresh=True)
    job.get()
    delivered, cpu = time.perf_counter() - started, time.process_time()
    assert desk.last
    steps = [*desk.steps.values()] if button == BUILD else [desk.last]
    own = sum(sum(step.timings_ms.values()) for step in steps) / 1000
    writer.flush(600)
    written = time.perf_counter() - started
    return delivered - own, written - delivered, time.process_time() - cpu


def ways(data: Path) -> list[list[object]]:
    """Press single buttons and "Build prompt" with recording on and off, in turn."""
    from ragstream_app.page.prompt_session import BUILD
    from ragstream_core.config import quiet_environment
    from ragstream_core.prompts.chain import BUTTONS
    from ragstream_core.wiring.workspace import open_workspace

    quiet_environment()
    os.environ["DAGSTER_HOME"] = ""
    sides = {
        name: open_workspace(data, explicit={"dagster.record": record})
        for name, record in (("recorded", "dagster"), ("unrecorded", "none"))
    }
    found: dict[tuple[str, str], list[Row]] = {}
    for number, question in enumerate([QUESTIONS[0], *QUESTIONS]):
        for side, space in sides.items():
            desk = PromptSession()
            for button in [BUILD, *BUTTONS[1:]]:
                row = press(space, desk, button, question)
                if number:  # the first round loads models and Dagster
                    what = button if button == BUILD else "one stage"
                    found.setdefault((what, side), []).append(row)
    return [
        [f"{what}, {side}", len(rows), *(_spread([row[i] for row in rows]) for i in range(3))]
        for (what, side), rows in sorted(found.items())
    ]


def _spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{statistics.median(ordered):.3f} (p95 {ordered[int(len(ordered) * 0.95)]:.3f})"


def report() -> str:
    """Measure everything; return the Markdown section."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        prepare(data)
        rows = ways(data)
    head = ["over the handbook, ten questions, warm", "presses",
            "s over the stages' own work until it is there", "s more until its run is written",
            "CPU s of that"]  # fmt: skip
    return "## A press on the page and its run\n\n" + table(head, rows)


if __name__ == "__main__":
    print(report())
