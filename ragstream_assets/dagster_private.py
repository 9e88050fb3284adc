"""What runs need of Dagster's private modules: creating, executing and changing them.

The servers apart, nothing else imports a private module; a contract test pins every name used here.
"""

import contextlib
import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster import (
        DagsterInstance,
        DagsterRun,
        Definitions,
        JobDefinition,
        JobExecutionResult,
    )
    from dagster._core.execution.plan.plan import ExecutionPlan
    from dagster._core.remote_origin import RemoteJobOrigin

LOCATION = "ragstream"
MODULE = "ragstream_assets.definitions"
REPOSITORY = "__repository__"


def job_of(name: str) -> "JobDefinition":
    """Return a job of the code location with its resources.

    The definitions are found by their name, as Dagster finds them: some of them make runs.
    """
    definitions: Definitions = importlib.import_module(MODULE).defs
    return definitions.resolve_job_def(name)


def create_run(
    instance: "DagsterInstance",
    job: "JobDefinition",
    *,
    run_id: str,
    config: Mapping[str, object],
    tags: Mapping[str, str],
    steps: Sequence[str] = (),
    parent: "DagsterRun | None" = None,
) -> "DagsterRun":
    """Create a run that Dagster's pages show and can execute again.

    Args:
        instance: Where it is recorded.
        job: What it runs.
        run_id: Its id.
        config: Its run config.
        tags: Its tags; those of the job come on top.
        steps: The steps to execute; empty: all of the job.
        parent: The run that it executes again in part; inputs from outside of its steps come from
            that run and its own parents.
    """
    tags = {**job.run_tags, **tags}
    return instance.create_run_for_job(
        job,
        run_id=run_id,
        run_config=config,
        execution_plan=_plan(instance, job, list(steps) or None, config, tags, parent),
        tags=tags,
        parent_run_id=parent.run_id if parent else None,
        root_run_id=(parent.root_run_id or parent.run_id) if parent else None,
        remote_job_origin=_origin(job.name),
    )


def execute_run(
    instance: "DagsterInstance", job: "JobDefinition", run: "DagsterRun"
) -> "JobExecutionResult":
    """Execute a created run in this process.

    Raises:
        DagsterExecutionInterruptedError: A signal to end came.
    """
    from dagster._core.definitions.job_base import InMemoryJob
    from dagster._core.execution.api import execute_run

    return execute_run(InMemoryJob(job), run, instance)


def replace_config(
    instance: "DagsterInstance", run: "DagsterRun", config: Mapping[str, object]
) -> str:
    """Replace the recorded config of a run, leaving no copy of the old one in the database.

    Returns:
        Why the old one is still there, for people; empty if it is not.
    """
    from dagster._core.storage.runs.schema import RunsTable
    from dagster._core.storage.runs.sql_run_storage import SqlRunStorage
    from dagster._serdes import serialize_value

    storage = instance.run_storage
    if not isinstance(storage, SqlRunStorage):
        return f"{type(storage).__name__} does not let a run's config be changed"
    body = serialize_value(run._replace(run_config=config))
    try:
        with storage.connect() as db:
            if db.dialect.name == "sqlite":
                db.exec_driver_sql("PRAGMA secure_delete=ON")
            row = RunsTable.update().where(RunsTable.c.run_id == run.run_id)
            db.execute(row.values(run_body=body))
        with contextlib.suppress(Exception), storage.connect() as db:
            if db.dialect.name == "sqlite":
                db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    except Exception as error:  # whatever is wrong with the storage, the prompt goes on
        return f"{type(error).__name__}: the run's config could not be changed"
    return ""


def _plan(
    instance: "DagsterInstance",
    job: "JobDefinition",
    steps: list[str] | None,
    config: Mapping[str, object],
    tags: Mapping[str, str],
    parent: "DagsterRun | None",
) -> "ExecutionPlan":
    from dagster._core.execution.api import create_execution_plan
    from dagster._core.execution.plan.state import KnownExecutionState

    state = None
    if parent is not None and steps is not None:
        state = KnownExecutionState.build_for_reexecution(instance, parent)
        state = state.update_for_step_selection(set(steps))
    return create_execution_plan(
        job, config, step_keys_to_execute=steps, known_state=state, tags=dict(tags)
    )


def _origin(job_name: str) -> "RemoteJobOrigin":
    """Return where the web server finds the job: what its re-execute buttons need."""
    from dagster._core.remote_origin import (
        ManagedGrpcPythonEnvCodeLocationOrigin,
        RemoteJobOrigin,
        RemoteRepositoryOrigin,
    )
    from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

    target = LoadableTargetOrigin(module_name=MODULE)  # no folder: its modules would count
    location = ManagedGrpcPythonEnvCodeLocationOrigin(target, LOCATION)
    return RemoteJobOrigin(RemoteRepositoryOrigin(location, REPOSITORY), job_name)
