"""The error boundary of every op: Dagster stores what passes it, so only our own words may."""

import contextlib
from collections.abc import Iterator

import dagster as dg

from ragstream_assets.recording.outcomes import outcome
from ragstream_core.errors import RagstreamError


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
        raise dg.Failure(
            error.message, metadata={"next": error.hint or "-"}, allow_retries=False
        ) from None
    except Exception as error:  # the boundary of everything
        outcome(run_id).error = error
        raise dg.Failure(
            f"{type(error).__name__}: unexpected; run it with --no-record --traceback to see it",
            allow_retries=False,
        ) from None


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
        raise dg.Failure(
            error.message, metadata={"next": error.hint or "-"}, allow_retries=False
        ) from None
    except Exception as error:  # the boundary of everything
        raise dg.Failure(f"{type(error).__name__}: unexpected", allow_retries=False) from None
