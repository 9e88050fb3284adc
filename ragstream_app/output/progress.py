"""How a long ingest shows that it moves: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ragstream_app.output.words import duration
from ragstream_app.session import console, note

if TYPE_CHECKING:
    from ragstream_core.ports import PhaseProgress

# Seconds between two lines where stderr is not a terminal.
QUIET_S = 10.0
# What goes on in a phase after the commit, for people; from there on nothing is left to stop.
AFTER_COMMIT = {
    "publish": "committed; writing the term arrays and the manifest",
    "suspicion": "committed; looking for passages that try to command a model",
    "collection": "committed; making the Chroma collection",
    "lists": "committed; making the inverted lists",
    "graph": "committed; bringing pgvector's graph up to date",
    "checks": "committed; checking the new generation",
}

_UNITS = {"read": "files", "embed": "chunks", "workers": "batches by workers"}


@contextmanager
def ingest_progress(project: str) -> Iterator[PhaseProgress]:
    """Yield a callback (phase, done, total) that draws on stderr."""
    with _bar(project) if sys.stderr.isatty() else _lines(project) as report:
        yield report


class ReportRate:
    """Where a long ingest is: files read, chunks embedded, chunks a second, time left."""

    def __init__(self) -> None:
        """Start with nothing done."""
        self._seen: dict[str, tuple[int, int]] = {}
        self._first: tuple[float, int] | None = None

    def note(self, phase: str, done: int, total: int, *, now: float) -> str:
        """Take one report; return the line to show.

        Args:
            phase: As the ingest names it.
            done: Items done.
            total: Items in all, 0 where it is not known.
            now: Seconds on any clock that only goes forward.
        """
        self._seen[phase] = (done, total)
        if phase == "embed" and self._first is None:
            self._first = (now, done)
        parts = []
        for name, unit in (("read", "files"), ("embed", "chunks")):
            if name in self._seen:
                have, of = self._seen[name]
                parts.append(f"{have:,}/{of:,} {unit}" if of else f"{have:,} {unit}")
        if phase in AFTER_COMMIT:
            return AFTER_COMMIT[phase]
        if phase not in ("read", "embed"):
            parts.append(f"{phase} {done:,}/{total:,}" if total else phase)
        return ", ".join([*parts, *self._speed(now)])

    def _speed(self, now: float) -> list[str]:
        if self._first is None or "embed" not in self._seen:
            return []
        began, before = self._first
        done, total = self._seen["embed"]
        if done <= before or now <= began:
            return []
        speed = (done - before) / (now - began)
        left = [f"about {duration((total - done) / speed)} left"] if total > done else []
        return [f"{speed:,.0f} chunks/s", *left]


@contextmanager
def _lines(project: str) -> Iterator[PhaseProgress]:
    """Say where it is every `QUIET_S`, also in a phase that reports nothing while it lasts."""
    pace, ended = ReportRate(), threading.Event()
    line = ""

    def report(phase: str, done: int, total: int) -> None:
        nonlocal line
        line = pace.note(phase, done, total, now=time.monotonic())

    def speak() -> None:
        while not ended.wait(QUIET_S):
            if line:
                note(f"{project}: {line}")

    voice = threading.Thread(target=speak, name=f"progress {project}", daemon=True)
    voice.start()
    try:
        yield report
    finally:
        ended.set()
        voice.join()


@contextmanager
def _bar(project: str) -> Iterator[PhaseProgress]:
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
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:

        def report(phase: str, done: int, total: int) -> None:
            known = total or None  # an unknown total shows a moving bar, not "of 0"
            if phase not in phases:
                shown = AFTER_COMMIT.get(phase) or _UNITS.get(phase, phase)
                phases[phase] = bar.add_task(f"{project} · {shown}", total=known)
            bar.update(phases[phase], completed=done, total=known)

        yield report
