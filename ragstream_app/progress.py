"""How a long ingest shows that it moves: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ragstream_app.session import note

QUIET_S = 10.0
"""Seconds between two lines where stderr is not a terminal."""

IngestProgress = Callable[[str, int, int], None]


@contextmanager
def ingest_progress(project: str) -> Iterator[IngestProgress]:
    """Yield a callback (phase, done, total) that draws on stderr."""
    if sys.stderr.isatty():
        with _bar(project) as report:
            yield report
    else:
        yield _lines(project)


def _lines(project: str) -> IngestProgress:
    last = time.monotonic()

    def report(phase: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= QUIET_S:
            last = now
            note(f"{project}: {phase} {done}/{total}")

    return report


@contextmanager
def _bar(project: str) -> Iterator[IngestProgress]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        """Items a second, the question people ask of an encoder."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="dim")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Speed(),
        TimeRemainingColumn(),
    )
    phases: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def report(phase: str, done: int, total: int) -> None:
            if phase not in phases:
                phases[phase] = bar.add_task(f"{project} · {phase}", total=total)
            bar.update(phases[phase], completed=done, total=total)

        yield report
