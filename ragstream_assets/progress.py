"""Progress of a long run: to whoever waits for it, and now and then into the run's log."""

import time
from collections.abc import Callable

LOG_EVERY_S = 10.0
Progress = Callable[[str, int, int], None]


def reporter(log: Callable[[str], object], also: Progress | None) -> Progress:
    """Return a progress callback; a log line is an event on disk, so there are few of them.

    Args:
        log: Takes a line for the run's log.
        also: Told about everything.
    """
    last = time.monotonic()

    def report(phase: str, done: int, total: int) -> None:
        nonlocal last
        if also is not None:
            also(phase, done, total)
        if time.monotonic() - last >= LOG_EVERY_S:
            last = time.monotonic()
            log(f"{phase}: {done} of {total}")

    return report
