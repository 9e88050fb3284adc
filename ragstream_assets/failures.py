"""What the steps of all jobs share: their errors, their partitions, their progress.

Dagster stores the errors that leave a step, so only our own words may leave one.
"""

import contextlib
import time
from collections.abc import Iterator

import dagster as dg

from ragstream_assets.resources import RunState
from ragstream_core.errors import (
    EmbeddingFailed,
    ProjectLocked,
    RagstreamError,
    StoreFailed,
    UsageError,
)
from ragstream_core.ports import PhaseProgress

# For what may pass: three and a half minutes in all, since a run holds one of few places.
RETRIES = dg.RetryPolicy(max_retries=3, delay=30, backoff=dg.Backoff.EXPONENTIAL)
PASSING = (ProjectLocked, StoreFailed, EmbeddingFailed)
_Context = dg.OpExecutionContext | dg.AssetExecutionContext
UNATTENDED = ("dagster/sensor_name", "dagster/schedule_name")


def unattended(context: _Context) -> bool:
    """Whether nobody waits for a run, so that it may wait itself for what may pass."""
    return any(name in context.run.tags for name in UNATTENDED)


def failure(said: str, next_: str = "", *, again: bool = False) -> dg.Failure:
    """Return what a step raises: what is wrong and what to do next, in its first two lines."""
    text = f"{said}\nnext: {next_}" if next_ else said
    return dg.Failure(text, metadata={"next": next_ or "-"}, allow_retries=again)


def chosen(context: dg.AssetExecutionContext, what: str = "project") -> list[str]:
    """Return the partitions that a run works on; Dagster launches one without them as well."""
    try:
        return list(context.partition_keys)
    except dg.DagsterInvariantViolationError:
        raise UsageError(
            f"no {what} is chosen", hint=f"launch it again with a {what} as its partition"
        ) from None


@contextlib.contextmanager
def short_errors(run: RunState | None = None, *, again: bool = False) -> Iterator[None]:
    """Turn whatever is raised inside into a Dagster failure without foreign text.

    A message from below may quote a prompt or a document, and Dagster would keep it. The caller of
    the run in this process gets the error itself if `run` is given; work after the commit gives
    none, since it never makes an ingest fail that has been committed.
    """
    try:
        yield
    except Exception as error:  # the boundary of everything
        if run is not None:
            run.error = error
        if isinstance(error, RagstreamError):
            may_pass = again and isinstance(error, PASSING)
            raise failure(error.message, error.hint, again=may_pass) from None
        look = "`ragstream ingest` or `prompt` with --traceback shows it" if run else ""
        raise failure(f"{type(error).__name__}: unexpected", look) from None


LOG_EVERY_S = 10.0

# Seconds without a line after one that Dagster could not write; each try of it takes a while.
QUIET_S = 60.0


def reporter(context: _Context, also: PhaseProgress | None = None) -> PhaseProgress:
    """Return a progress callback; a log line is an event on disk, so there are few of them.

    A line that cannot be written, since the database is away, is left out: the work goes on, and so
    does its run if the database is back before the next event that counts.
    """
    due = time.monotonic() + LOG_EVERY_S

    def report(phase: str, done: int, total: int) -> None:
        nonlocal due
        if also is not None:
            also(phase, done, total)
        if time.monotonic() < due:
            return
        due = time.monotonic() + LOG_EVERY_S
        try:
            context.log.info(f"{phase}: {done} of {total}")
        except Exception:  # whatever is wrong with Dagster's storage
            due = time.monotonic() + QUIET_S

    return report
