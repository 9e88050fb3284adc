"""One piece of work in a thread, which any tab can follow, stop, and take the result from."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from ragstream_app.output.words import duration
from ragstream_core.errors import Stopped

T = TypeVar("T")

# Takes (phase, done, total); raises `Stopped` once a person has asked for the end.
Report = Callable[[str, int, int], None]


class BackgroundJob(Generic[T]):
    """Work that is written by its thread and read by any other; `start` begins it.

    Nothing here knows Streamlit: a page that is drawn again, or goes away, changes nothing.

    Args:
        name: What it is, for people, e.g. ``the map``.
        work: Does it; whatever it raises becomes the job's error.
        line: Where it is until the first report.
        line_of: Returns the line for (phase, done, total); default: a count and the time left.

    Attributes:
        result: What came of it; None before its end, and if it failed.
        error: Why there is no result; None if there is one.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Report], T],
        *,
        line: str = "getting ready",
        line_of: Callable[[str, int, int], str] | None = None,
    ) -> None:
        self.result: T | None = None
        self.error: BaseException | None = None
        self._name, self._work = name, work
        self._line, self._line_of = line, line_of or self._counted
        self._fraction, self._seconds, self._began = 0.0, 0.0, time.monotonic()
        self._ended, self._stop = threading.Event(), threading.Event()

    def start(self) -> Self:
        """Begin in a thread of its own; return the job.

        Raises:
            RuntimeError: The system has no thread left.
        """
        threading.Thread(target=self._run, name=self._name, daemon=True).start()
        return self

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended.is_set()

    @property
    def stopped(self) -> bool:
        """Whether a person asked for its end."""
        return self._stop.is_set()

    @property
    def line(self) -> str:
        """Where it is, for people."""
        return self._line

    @property
    def detail(self) -> str:
        """What is through and what waits, for people; empty if there is nothing to tell."""
        return ""

    @property
    def fraction(self) -> float:
        """How much of it is done, 0 to 1."""
        return self._fraction

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was made, or that it took."""
        return time.monotonic() - self._began if self.running else self._seconds

    def stop(self) -> None:
        """Ask for its end; it comes with the next report of progress."""
        self._stop.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; return whether it has ended."""
        return self._ended.wait(timeout_s)

    def get(self, timeout_s: float | None = None) -> T | None:
        """Wait for its end; return its result, or raise its error.

        Raises:
            TimeoutError: It is still running.
            BaseException: What the work raised.
        """
        if not self.wait(timeout_s):
            raise TimeoutError(f"{self._name} is still running")
        if self.error is not None:
            raise self.error
        return self.result

    def report(self, phase: str, done: int, total: int) -> None:
        """Take a report of progress.

        Args:
            phase: What is counted, e.g. ``step``.
            done: How many are done.
            total: How many there are; 0: not known.

        Raises:
            Stopped: A person asked for its end.
        """
        if self.stopped:
            raise Stopped(f"{self._name} was stopped")
        self._line = self._line_of(phase, done, total)
        self._fraction = min(1.0, done / total) if total else 0.0

    def _counted(self, phase: str, done: int, total: int) -> str:
        left = f", about {duration(self.elapsed_s * (total - done) / done)} left" if done else ""
        return f"{phase} {done:,} of {total:,}{left}"

    def _run(self) -> None:
        """Do the work once."""
        try:
            self.result = self._work(self.report)
        except BaseException as error:  # the page's error boundary; a job must end
            self.error = error
        finally:
            self._seconds = time.monotonic() - self._began
            self._ended.set()
