"""Progress of a long run: to whoever waits for it, and now and then into the run's log.

The error boundary of every op: Dagster stores what passes it, so only our own words may.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

import dagster as dg

from ragstream_assets.run_outcomes import outcome
from ragstream_core.errors import RagstreamError, UsageError


def failure(said: str, next_: str = "") -> dg.Failure:
    """Return what a step raises to say what is wrong and what to do next, in the first two lines.

    Args:
        said: What is wrong, and where.
        next_: What to do; empty where nobody knows.
    """
    text = f"{said}\nnext: {next_}" if next_ else said
    return dg.Failure(text, metadata={"next": next_ or "-"}, allow_retries=False)


def chosen(context: dg.AssetExecutionContext, what: str = "project") -> list[str]:
    """Return the partitions that a run works on; Dagster launches one without them as well.

    Args:
        context: Of the run.
        what: What a partition is, for people.

    Raises:
        UsageError: None is chosen.
    """
    try:
        return list(context.partition_keys)
    except dg.DagsterInvariantViolationError:
        raise UsageError(
            f"no {what} is chosen", hint=f"launch it again with a {what} as its partition"
        ) from None


@contextlib.contextmanager
def short_errors(run_id: str) -> Iterator[None]:
    """Turn whatever is raised inside into a Dagster failure without foreign text.

    A message from below may quote a prompt or a document, and Dagster would keep it. The error
    itself stays in this process, for the recorder.

    Raises:
        Failure: Our message and what to do next, or the bare type of an unexpected error.
    """
    try:
        yield
    except RagstreamError as error:
        outcome(run_id).error = error
        raise failure(error.message, error.hint) from None
    except Exception as error:  # the boundary of everything
        outcome(run_id).error = error
        again = "run it with --no-record --traceback to see it"
        raise failure(f"{type(error).__name__}: unexpected", again) from None


@contextlib.contextmanager
def derived_errors() -> Iterator[None]:
    """As `short_errors`, for what comes after the commit: the recorder is not told.

    A collection that could not be made never makes an ingest fail that has been committed.

    Raises:
        Failure: Our message and what to do next, or the bare type of an unexpected error.
    """
    try:
        yield
    except RagstreamError as error:
        raise failure(error.message, error.hint) from None
    except Exception as error:  # the boundary of everything
        raise failure(f"{type(error).__name__}: unexpected") from None


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
