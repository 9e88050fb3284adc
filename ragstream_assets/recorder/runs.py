"""Executes a job in this process as a run that Dagster's UI shows and repeats.

The only user of Dagster's private modules; a contract test pins what is used.

Notices Ctrl-C and SIGTERM while Dagster runs: it turns them into a step that failed.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_assets.instance import instance_of
from ragstream_assets.reconcile import PROJECT_TAG, process_tags, tidy
from ragstream_assets.recorder import outcomes
from ragstream_assets.recorder.outcomes import RunOutcome
from ragstream_core.wiring.workspace import Workspace

if TYPE_CHECKING:
    from dagster import DagsterEvent, DagsterInstance, DagsterRun, JobDefinition
    from dagster._core.execution.plan.plan import ExecutionPlan
    from dagster._core.remote_origin import RemoteJobOrigin


Progress = Callable[[str, int, int], None]
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


def stopping(progress: Progress | None, interrupted: Callable[[], bool]) -> Progress:
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


LOCATION = "ragstream"
MODULE = "ragstream_assets.definitions"
REPOSITORY = "__repository__"
SILENT = {"console": {"config": {"log_level": "CRITICAL"}}}
one_run = threading.Lock()
"""Held around `execute`: two runs at a time deadlock inside Python's logging."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One run to be made.

    Attributes:
        run_id: Its id.
        job: Name of the job.
        config: Makes the config by op; called when the run is made, since it may write to disk.
        tags: Those of the process come on top.
        steps: The steps to execute; empty: all of the job.
        parent: The run that this one re-executes steps of, empty for none.
        alone: The steps to execute where that run is not there.
    """

    run_id: str
    job: str
    config: Callable[[], Mapping[str, Mapping[str, Any]]]
    tags: Mapping[str, str]
    steps: tuple[str, ...] = ()
    parent: str = ""
    alone: tuple[str, ...] = ()


def execute(workspace: Workspace, wanted: JobRequest, left: RunOutcome) -> tuple[str, bool]:
    """Create a run and execute it here.

    Args:
        workspace: The data root; the run works with this object.
        wanted: The run.
        left: What the run finds in this process, and leaves.

    Returns:
        What failed, empty where nothing did; whether it has the parent that it should.

    Raises:
        KeyboardInterrupt: A signal to end came, whoever swallowed it.
        Exception: Whatever Dagster raises when its storage is damaged or locked.
    """
    from dagster import DagsterExecutionInterruptedError
    from dagster._core.definitions.job_base import InMemoryJob
    from dagster._core.execution.api import execute_run

    instance = instance_of(workspace.data_dir)
    tidy(instance, workspace, wanted.tags.get(PROJECT_TAG, ""))
    run = _create(instance, workspace, wanted)
    outcomes.start(wanted.run_id, left)
    try:
        with interrupts() as interrupted:
            left.progress = stopping(left.progress, interrupted)
            try:
                result = execute_run(InMemoryJob(_job(wanted.job)), run, instance)
            except DagsterExecutionInterruptedError:
                raise KeyboardInterrupt from None
            if interrupted():  # else the failed step would only be done again, unrecorded
                raise KeyboardInterrupt
    finally:
        outcomes.forget(wanted.run_id)
    problem = "; ".join(_said(event) for event in result.all_events if event.is_step_failure)
    if not problem and not result.success:
        problem = f"run {wanted.run_id} failed before its first step; its log in Dagster says why"
    return problem, (run.parent_run_id or "") == wanted.parent


def _said(event: "DagsterEvent") -> str:
    """Return which step failed, why and what to do next, in our own words only."""
    ours = event.step_failure_data.user_failure_data
    why, _, next_ = (ours.description or "" if ours else "").partition("\nnext: ")
    error = event.step_failure_data.error
    why = why or (f"{error.cls_name}: unexpected" if error else "no reason was given")
    next_ = next_ or "run it with --no-record --traceback to see it"
    return f"step {event.step_key} failed: {why} (next: {next_})"


def _create(instance: "DagsterInstance", workspace: Workspace, wanted: JobRequest) -> "DagsterRun":
    from ragstream_assets.resources import adopt

    job = _job(wanted.job)
    parent = _finished(instance, wanted.parent) if wanted.parent else None
    steps = wanted.alone if wanted.parent and parent is None else wanted.steps
    run_config = {
        "resources": {"workspace": {"config": adopt(workspace)}},
        "loggers": SILENT,
        "ops": {op: {"config": dict(given)} for op, given in wanted.config().items()},
    }
    return instance.create_run_for_job(
        job,
        run_id=wanted.run_id,
        run_config=run_config,
        execution_plan=_plan(instance, job, steps, run_config, wanted.tags, parent),
        tags={**wanted.tags, **process_tags()},
        parent_run_id=parent.run_id if parent else None,
        root_run_id=(parent.root_run_id or parent.run_id) if parent else None,
        remote_job_origin=_origin(wanted.job),
    )


def _finished(instance: "DagsterInstance", run_id: str) -> "DagsterRun | None":
    run = instance.get_run_by_id(run_id)
    return run if run is not None and run.is_finished else None


def _plan(
    instance: "DagsterInstance",
    job: "JobDefinition",
    wanted: tuple[str, ...],
    run_config: Mapping[str, Any],
    tags: Mapping[str, str],
    parent: "DagsterRun | None",
) -> "ExecutionPlan":
    """Plan the wanted steps; inputs from outside of them come from the parent run and its own."""
    from dagster._core.execution.api import create_execution_plan
    from dagster._core.execution.plan.state import KnownExecutionState

    steps = list(wanted) or None
    state = None
    if parent is not None and steps is not None:
        state = KnownExecutionState.build_for_reexecution(instance, parent)
        state = state.update_for_step_selection(set(steps))
    return create_execution_plan(
        job, run_config, step_keys_to_execute=steps, known_state=state, tags=dict(tags)
    )


def _origin(job_name: str) -> "RemoteJobOrigin":
    """Return where the web server finds the job: what its re-execute buttons need."""
    from dagster._core.remote_origin import (
        ManagedGrpcPythonEnvCodeLocationOrigin,
        RemoteJobOrigin,
        RemoteRepositoryOrigin,
    )
    from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

    target = LoadableTargetOrigin(module_name=MODULE, working_directory=str(Path.cwd()))
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, LOCATION)
    return RemoteJobOrigin(RemoteRepositoryOrigin(location, REPOSITORY), job_name)


@lru_cache(maxsize=4)
def _job(name: str) -> "JobDefinition":
    from ragstream_assets.definitions import defs

    return defs.resolve_job_def(name)
