"""Work in a thread that the page follows: where it is, how to stop it, what came of it.

Nothing here knows Streamlit. Work that is stopped leaves nothing behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from ragstream_app.failures import describe
from ragstream_app.progress import duration
from ragstream_core.errors import OperationFailed

T = TypeVar("T")


class BackgroundJob(Generic[T]):
    """One piece of work on its way; written by its thread, read by any other.

    Args:
        name: What it is, for people, e.g. ``the map``.
        work: Does it; is given a callback for (phase, done, total) that raises once the job is
            stopped.

    Attributes:
        result: What came of it; None before its end, and where it failed.
        problem: Why there is no result, as `describe` says it; empty where there is one.
    """

    def __init__(self, name: str, work: Callable[[Callable[[str, int, int], None]], T]) -> None:
        self.result: T | None = None
        self.problem: dict[str, str] = {}
        self._name = name
        self._line, self._fraction, self._began = "getting ready", 0.0, time.monotonic()
        self._ended, self._stop = threading.Event(), threading.Event()
        threading.Thread(target=self._run, args=(work,), name=name, daemon=True).start()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended.is_set()

    @property
    def line(self) -> str:
        """Where it is, for people."""
        return self._line

    @property
    def fraction(self) -> float:
        """How much of it is done, 0 to 1."""
        return self._fraction

    def stop(self) -> None:
        """Ask it to stop; it does at its next report of progress."""
        self._stop.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; return whether it has ended."""
        return self._ended.wait(timeout_s)

    def note(self, phase: str, done: int, total: int) -> None:
        """Take a report of progress.

        Args:
            phase: What is counted, e.g. ``step``.
            done: How many are done.
            total: How many there are; 0: not known.

        Raises:
            OperationFailed: It was stopped.
        """
        if self._stop.is_set():
            raise OperationFailed(f"{self._name} was stopped")
        spent = time.monotonic() - self._began
        left = f", about {duration(spent * (total - done) / done)} left" if done else ""
        self._line, self._fraction = f"{phase} {done:,} of {total:,}{left}", done / max(total, 1)

    def _run(self, work: Callable[[Callable[[str, int, int], None]], T]) -> None:
        """Do it once; whatever goes wrong is the job's problem, never the thread's."""
        try:
            self.result = work(self.note)
        except Exception as error:  # the page's error boundary
            self.problem = describe(error)
        finally:
            self._ended.set()
