"""What a run in this process needs: one at a time, signals that end it, its failures in words.

Ctrl-C and SIGTERM are noticed while Dagster runs: it turns them into a step that failed.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ragstream_core.errors import RagstreamError
from ragstream_core.ports import PhaseProgress

if TYPE_CHECKING:
    from dagster import DagsterEvent

SILENT = {"console": {"config": {"log_level": "CRITICAL"}}}
one_run = threading.Lock()
"""Held around a run: two at a time deadlock inside Python's logging."""
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM})


@contextlib.contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Yield what says whether a signal to end came since, whoever handled it and how.

    Python writes each signal's number into a pipe before any handler runs. Only the main thread
    gets signals: elsewhere the answer is always no.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    seen = set[int]()

    def came() -> bool:
        seen.update(_read(reader))
        return not seen.isdisjoint(_ENDING)

    try:
        yield came
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


def _read(fd: int) -> bytes:
    with contextlib.suppress(BlockingIOError):
        return os.read(fd, 1024)
    return b""


def stopping(progress: PhaseProgress | None, interrupted: Callable[[], bool]) -> PhaseProgress:
    """Return a progress callback that stops the work after a signal which something swallowed.

    An exception raised by a handler is lost where it hits a destructor or a weak reference.

    Raises:
        KeyboardInterrupt: From the callback, after a signal.
    """

    def report(phase: str, done: int, total: int) -> None:
        """Report, or stop.

        Raises:
            KeyboardInterrupt: A signal came.
        """
        if interrupted():
            raise KeyboardInterrupt
        if progress is not None:
            progress(phase, done, total)

    return report


def said(event: "DagsterEvent") -> str:
    """Return which step failed, why and what to do next, in our own words only."""
    ours = event.step_failure_data.user_failure_data
    why, _, next_ = (ours.description or "" if ours else "").partition("\nnext: ")
    error = event.step_failure_data.error
    why = why or (f"{error.cls_name}: unexpected" if error else "no reason was given")
    next_ = next_ or "`ragstream ingest` with --traceback shows it"
    return f"step {event.step_key} failed: {why} (next: {next_})"


def brief(error: BaseException) -> str:
    """Return an error of ours with what to do next, of another its type and its first line."""
    if isinstance(error, RagstreamError):
        return str(error)
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
