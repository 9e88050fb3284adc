"""Executes a job in this process as a run that Dagster's pages show and can execute again."""

from collections.abc import Callable, Mapping
from typing import Any

from ragstream_assets import dagster_private, roll_call, run_outcomes
from ragstream_assets.instance import drop_instances, instance_for
from ragstream_assets.reconcile import PROJECT_TAG, process_tags, tidy
from ragstream_assets.recorder.writer import Recording
from ragstream_assets.run_here import SILENT, brief, interrupts, said, stopping
from ragstream_assets.run_outcomes import RunOutcome
from ragstream_core.wiring.workspace import Workspace

MakeConfig = Callable[[], Mapping[str, Mapping[str, Any]]]
"""Makes the config by op; called when the run is made, since it may write to disk."""


def execute(
    workspace: Workspace, recording: Recording, config: MakeConfig, left: RunOutcome
) -> str:
    """Create a run and execute it here; the caller holds `one_run`.

    Args:
        workspace: The data root; the run works with this object.
        recording: The run. If its parent is not there, it is told so.
        config: Makes the config of its ops.
        left: What the run finds in this process, and leaves.

    Returns:
        What failed, or what is wrong with Dagster; empty if nothing is.

    Raises:
        KeyboardInterrupt: A signal to end came, even if something swallowed it.
    """
    try:
        return _execute(workspace, recording, config, left)
    except Exception as error:  # whatever is wrong with Dagster, the work goes on
        drop_instances()
        return brief(error)


def _execute(
    workspace: Workspace, recording: Recording, config: MakeConfig, left: RunOutcome
) -> str:
    """Create and execute a run.

    Raises:
        KeyboardInterrupt: A signal to end came.
        Exception: Whatever Dagster raises when its storage is damaged or locked.
    """
    from dagster import DagsterExecutionInterruptedError

    from ragstream_assets.definitions import defs
    from ragstream_assets.resources import adopt

    instance, job = instance_for(workspace.config), defs.resolve_job_def(recording.job)
    tidy(instance, workspace, recording.tags.get(PROJECT_TAG, ""))
    before = instance.get_run_by_id(recording.parent) if recording.parent else None
    parent = before if before is not None and before.is_finished else None
    is_orphan = bool(recording.parent) and parent is None
    run = dagster_private.create_run(
        instance,
        job,
        run_id=recording.run_id,
        config={
            "resources": {"workspace": {"config": adopt(workspace)}},
            "loggers": SILENT,
            "ops": {op: {"config": dict(given)} for op, given in config().items()},
        },
        tags={**recording.tags, **process_tags(workspace.config)},
        steps=recording.alone if is_orphan else recording.steps,
        parent=parent,
    )
    run_outcomes.start(run.run_id, left)
    try:
        with roll_call.answering(workspace.config, run.run_id), interrupts() as interrupted:
            left.progress = stopping(left.progress, interrupted)
            try:
                result = dagster_private.execute_run(instance, job, run)
            except DagsterExecutionInterruptedError:
                raise KeyboardInterrupt from None
            if interrupted():  # else the failed step would only be done again, unrecorded
                raise KeyboardInterrupt
    finally:
        run_outcomes.forget(run.run_id)
    problem = "; ".join(said(event) for event in result.all_events if event.is_step_failure)
    if not problem and not result.success:
        problem = f"run {run.run_id} failed before its first step; its log in Dagster says why"
    if is_orphan and not problem:
        recording.note = "the run before this one is not there; recorded from the start"
    return problem
