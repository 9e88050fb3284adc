"""Runs the jobs in this process and records them, so that Dagster's UI shows and repeats them.

The only user of Dagster's private modules; a contract test pins what is used. Recording never
fails a prompt or an ingest: whatever is wrong with Dagster becomes a warning, and what a stage
itself raised is raised as it was. Dagster is imported at the first recording, not before.
"""

import datetime as dt
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_assets import outcomes
from ragstream_assets.instance import drop_instances, instance_of
from ragstream_assets.interrupts import interrupts, stopping
from ragstream_assets.outcomes import Outcome
from ragstream_assets.upkeep import PROJECT_TAG, process_tags, tidy
from ragstream_core.build.workspace import IngestProgress, Workspace
from ragstream_core.errors import RagstreamError
from ragstream_core.ingestion.stats import IngestionStats
from ragstream_core.orchestration.chain import OPS, last_op, run_chain
from ragstream_core.orchestration.inputs import PromptRequest, begin, change_settings, inputs_of
from ragstream_core.orchestration.prompt_store import PromptRecord
from ragstream_core.records import SuperPrompt

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun, JobDefinition
    from dagster._core.execution.plan.plan import ExecutionPlan
    from dagster._core.remote_origin import RemoteJobOrigin

LOCATION = "ragstream"
MODULE = "ragstream_assets.definitions"
REPOSITORY = "__repository__"
WAIT_S = 60.0
"""How long a run waits for another one of this process before it goes unrecorded."""
JOB = "build_prompt"
INGEST_OPS = ("ingest", "documents__chroma_collection")
SILENT = {"console": {"config": {"log_level": "CRITICAL"}}}
_one_run = threading.Lock()  # two recorded runs at a time deadlock inside Python's logging


@dataclass(frozen=True, slots=True)
class RecordedPrompt:
    """A prompt and where it was recorded.

    Attributes:
        prompt: The record after the last op that ran.
        run_id: The Dagster run, empty where there is none.
        timings_ms: Op → milliseconds, of the ops that ran now.
        record: What was kept; None where the chain did not run to its end.
        warnings: Why there is no run, if there should be one.
    """

    prompt: SuperPrompt
    run_id: str
    timings_ms: Mapping[str, float]
    record: PromptRecord | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One run to be made: job, config by op, tags, and which steps on top of which run.

    The config is made inside the attempt, since making it may write a request to disk.
    """

    job: str
    config: Callable[[], Mapping[str, Mapping[str, Any]]]
    tags: Mapping[str, str]
    steps: tuple[str, ...] = ()
    parent: str = ""


def record_ingest(
    workspace: Workspace,
    project: str,
    *,
    verify: bool = False,
    rebuild: bool = False,
    progress: IngestProgress | None = None,
) -> tuple[IngestionStats, str]:
    """Ingest a project as a Dagster run; return what it did and the run, empty where there is none.

    Raises:
        RagstreamError: As `Workspace.ingest`.
    """
    unchanged = None if verify or rebuild else workspace.unchanged(project)
    if unchanged is not None:
        return unchanged, ""
    wanted = _Wanted(
        "ingest_documents",
        lambda: {op: {"verify": verify, "rebuild": rebuild} for op in INGEST_OPS},
        {"dagster/partition": project, PROJECT_TAG: project, "ragstream/mode": "ingest"},
    )
    left, run_id, warnings = _attempt(workspace, wanted, Outcome(progress=progress))
    stats = left.stats or workspace.ingest(
        project, verify=verify, rebuild=rebuild, progress=progress
    )
    return replace(stats, warnings=(*stats.warnings, *warnings)), run_id


def record_prompt(
    workspace: Workspace,
    request: PromptRequest,
    *,
    through: str = OPS[-1],
    now: dt.datetime | None = None,
    session: str = "",
) -> RecordedPrompt:
    """Run the chain for a request as a Dagster run; without one where nothing may be kept.

    Args:
        workspace: The data root.
        request: What is asked; bad requests are refused before anything is recorded.
        through: Last stage or op.
        now: Time of the request, with a zone; default: the present moment.
        session: Groups the runs of one person's work.

    Raises:
        RagstreamError: The request or a stage refused or failed.
    """
    ops = OPS[: OPS.index(last_op(through)) + 1]
    inputs = workspace.pin(request, now)

    def config() -> dict[str, dict[str, Any]]:
        reference = workspace.store.put_request(request)
        zone = inputs.time_zone
        return {OPS[0]: {"prompt_ref": reference, "now": inputs.now, "time_zone": zone}}

    tags = _stage_tags(ops, session, "run" if ops == OPS else "through")
    wanted = _Wanted(JOB, config, tags, _steps(ops))
    left, run_id, warnings = _nothing()
    if workspace.persists(inputs):
        left, run_id, warnings = _attempt(workspace, wanted, Outcome(inputs=inputs))
    if left.prompt is None:
        left = _plain(workspace, begin(inputs), ops)
    return _result(left, run_id, warnings)


def record_stage(
    workspace: Workspace,
    before: RecordedPrompt,
    ops: tuple[str, ...],
    *,
    settings: Mapping[str, str] | None = None,
    session: str = "",
) -> RecordedPrompt:
    """Run some ops on top of an earlier result, as a re-execution of its run.

    Args:
        workspace: The data root.
        before: The result that the first op reads; also the parent run.
        ops: Neighbours in `CHAIN`, in order, e.g. those of a button.
        settings: Dotted settings that change from the first op on.
        session: Groups the runs of one person's work.

    Raises:
        RagstreamError: A stage refused or failed.
    """
    changes = dict(settings or {})
    given = change_settings(before.prompt, ops[0], changes)
    left, run_id, warnings = _nothing()
    if before.run_id and workspace.persists(inputs_of(given)):
        config = {op: {"settings": changes if op == ops[0] else {}} for op in ops}
        tags = _stage_tags(ops, session, "stage")
        wanted = _Wanted(JOB, lambda: config, tags, _steps(ops), before.run_id)
        left, run_id, warnings = _attempt(workspace, wanted, Outcome())
    if left.prompt is None:
        left = _plain(workspace, given, ops)
    return _result(left, run_id, warnings)


def _plain(workspace: Workspace, prompt: SuperPrompt, ops: tuple[str, ...]) -> Outcome:
    """Run ops without Dagster."""
    left = Outcome()
    left.prompt = run_chain(
        workspace.stage,
        prompt,
        first=ops[0],
        through=ops[-1],
        observe=lambda op, _, seconds: left.took(op, seconds),
    )
    if ops[-1] == OPS[-1]:
        left.record = workspace.finish(left.prompt, timings_ms=left.timings_ms)
    return left


def _nothing() -> tuple[Outcome, str, tuple[str, ...]]:
    return Outcome(), "", ()


def _result(left: Outcome, run_id: str, warnings: tuple[str, ...]) -> RecordedPrompt:
    if left.prompt is None:
        raise AssertionError("a chain that did not raise leaves its prompt")
    return RecordedPrompt(left.prompt, run_id, left.timings_ms, left.record, warnings)


def _attempt(
    workspace: Workspace, wanted: _Wanted, left: Outcome
) -> tuple[Outcome, str, tuple[str, ...]]:
    """Make a recorded run; return what it left, its id and why there is none.

    Where Dagster fails, the outcome is empty but for an ingest that has been committed already.
    """
    if workspace.config.settings.dagster.record == "none":
        return _nothing()
    if not _one_run.acquire(timeout=WAIT_S):
        return Outcome(), "", (f"not recorded: another run has been busy for {WAIT_S:.0f} s",)
    run_id = outcomes.start(left)
    try:
        problem = _execute(workspace, wanted, run_id)
    except Exception as error:  # whatever is wrong with Dagster, the work goes on
        drop_instances()
        problem = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
    finally:
        _one_run.release()
        outcomes.forget(run_id)
    if isinstance(left.error, RagstreamError):
        raise left.error
    if problem:
        return Outcome(stats=left.stats), "", (f"not recorded in Dagster: {problem}",)
    return left, run_id, ()


def _execute(workspace: Workspace, wanted: _Wanted, run_id: str) -> str:
    """Create a run and execute it here; return what failed, empty where nothing did."""
    from dagster import DagsterExecutionInterruptedError
    from dagster._core.definitions.job_base import InMemoryJob
    from dagster._core.execution.api import execute_run

    from ragstream_assets.resources import adopt

    instance = instance_of(workspace.data_dir)
    job = _job(wanted.job)
    tidy(instance, workspace, wanted.tags.get(PROJECT_TAG, ""))
    config = {"resources": {"workspace": {"config": adopt(workspace)}}, "loggers": SILENT}
    run = _create(instance, job, wanted, config, run_id)
    left = outcomes.outcome(run_id)
    with interrupts() as interrupted:
        left.progress = stopping(left.progress, interrupted)
        try:
            result = execute_run(InMemoryJob(job), run, instance)
        except DagsterExecutionInterruptedError:
            raise KeyboardInterrupt from None
        if interrupted():  # else the failed step would only be done again, unrecorded
            raise KeyboardInterrupt
    failed = [event for event in result.all_events if event.is_step_failure]
    if failed or not result.success:
        return "; ".join(f"step {event.step_key} failed" for event in failed) or "the run failed"
    return ""


def _create(
    instance: "DagsterInstance",
    job: "JobDefinition",
    wanted: _Wanted,
    config: Mapping[str, Any],
    run_id: str,
) -> "DagsterRun":
    parent = instance.get_run_by_id(wanted.parent) if wanted.parent else None
    before: Any = parent.run_config if parent else {}
    ops: dict[str, Any] = dict(before.get("ops", {}))
    for op, given in wanted.config().items():
        ops[op] = {"config": {**ops.get(op, {}).get("config", {}), **given}}
    run_config = {**config, "ops": ops}
    return instance.create_run_for_job(
        job,
        run_id=run_id,
        run_config=run_config,
        execution_plan=_plan(instance, job, wanted, run_config, parent),
        tags={**wanted.tags, **process_tags()},
        parent_run_id=parent.run_id if parent else None,
        root_run_id=(parent.root_run_id or parent.run_id) if parent else None,
        remote_job_origin=_origin(wanted.job),
    )


def _plan(
    instance: "DagsterInstance",
    job: "JobDefinition",
    wanted: _Wanted,
    run_config: Mapping[str, Any],
    parent: "DagsterRun | None",
) -> "ExecutionPlan":
    """Plan the wanted steps; inputs from outside of them come from the parent run and its own."""
    from dagster._core.execution.api import create_execution_plan
    from dagster._core.execution.plan.state import KnownExecutionState

    steps = list(wanted.steps) or None
    state = None
    if parent is not None and steps is not None:
        state = KnownExecutionState.build_for_reexecution(instance, parent)
        state = state.update_for_step_selection(set(steps))
    return create_execution_plan(
        job, run_config, step_keys_to_execute=steps, known_state=state, tags=dict(wanted.tags)
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


def _steps(ops: tuple[str, ...]) -> tuple[str, ...]:
    """Return the steps of some ops; none means all of the job."""
    from ragstream_assets.query_job import steps_of

    return () if ops == OPS else tuple(steps_of(ops))


def _stage_tags(ops: tuple[str, ...], session: str, mode: str) -> dict[str, str]:
    tags = {"ragstream/stage": ops[-1], "ragstream/mode": mode}
    return {**tags, "ragstream/session": session} if session else tags
