"""What a conversation adds to a prompt, and what a worker that is busy, stopped or dead changes.

python -m tests.benchmarks.bench_conversation

Prompts over the handbook with the real model: without a conversation, with one of 400 turns, and
while a worker holds the history's lock, first running, then stopped by SIGSTOP, then killed.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import Workspace
from tests.benchmarks.bench_prompt import QUESTIONS, prepare
from tests.benchmarks.measure import cpu, environment, table

TURNS = 400
HOLDER = """
import sys, time
from pathlib import Path
from ragstream_core.index.schema import project_lock
with project_lock(Path(sys.argv[1])):
    print("held", flush=True)
    while True:
        sum(range(20_000)); time.sleep(0.02)
"""


def talk(data: Path) -> None:
    """Say `TURNS` pairs about the handbook and embed them."""
    from ragstream_core.conversations.journal.records import Turn
    from ragstream_core.services.history_update import embed
    from ragstream_core.wiring.journal import append_records
    from ragstream_core.wiring.workspace import open_workspace

    space = open_workspace(data)
    words = sorted(Path(data / "doc_raw" / "handbook").glob("*.md"))
    texts = [line for page in words for line in page.read_text().splitlines() if len(line) > 80]
    turns = [
        Turn("", f"s{n % 7}", f"2026-{n % 9 + 1:02d}-11T10:00:00+00:00", QUESTIONS[n % 10],
             texts[(n * 13) % len(texts)])
        for n in range(TURNS)
    ]  # fmt: skip
    append_records(space, turns)
    embed(space)


def _prompt(space: Workspace, request: PromptRequest) -> None:
    run_prompt(space, pin_inputs(space, request))


def asked(data: Path, rounds: int = 2) -> list[float]:
    """Return the CPU seconds of every question, warm, the token cache filled."""
    from ragstream_core.config import quiet_environment
    from ragstream_core.wiring.workspace import open_workspace

    quiet_environment()
    space = open_workspace(data)
    times: list[float] = []
    for round_no in range(rounds + 1):
        for question in QUESTIONS:
            request = PromptRequest(question, ("handbook",), session="s1")
            seconds = cpu(partial(_prompt, space, request))
            times += [seconds] if round_no else []
    return times


def with_worker(data: Path, how: str) -> list[float]:
    """Ask while a process holds the lock that is ``running``, ``stopped`` or ``killed``."""
    index = data / "history" / "index"
    worker = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(index)], stdout=subprocess.PIPE, env=environment()
    )
    try:
        assert worker.stdout is not None
        worker.stdout.readline()
        if how == "stopped":
            os.kill(worker.pid, signal.SIGSTOP)
        elif how == "killed":
            worker.kill()
            worker.wait()
        return asked(data)
    finally:
        worker.kill()
        worker.wait()
        if worker.stdout:
            worker.stdout.close()


def report() -> str:
    """Measure everything; return the Markdown section."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        data = Path(folder)
        prepare(data)
        bare = statistics.median(asked(data))
        talk(data)
        known = statistics.median(asked(data))
        rows: list[list[object]] = [
            ["no conversation", f"{bare:.3f}", "1 ×"],
            [f"{TURNS} turns, embedded", f"{known:.3f}", f"{known / bare:.2f} ×"],
        ]
        for how in ("running", "stopped", "killed"):
            seconds = statistics.median(with_worker(data, how))
            rows.append(
                [f"the same, a worker that is {how} holds the lock", f"{seconds:.3f}",
                 f"{seconds / known:.2f} × without it"]
            )  # fmt: skip
    head = ("a warm prompt over the handbook", "CPU s (median of 20)", "ratio")
    return "## The conversation in a prompt\n\n" + table(head, rows)


if __name__ == "__main__":
    print(report())
