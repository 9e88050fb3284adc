"""Has the texts of a coming ingest embedded by workers, as a run of `embed_texts`; then it ends.

Nothing that goes wrong here fails an ingest: what workers did not embed is embedded by the ingest.
Started again, it plans what is still missing, so the same command goes on after anything.
"""

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping

from ragstream_assets import dagster_private, run_outcomes
from ragstream_assets.instance import dagster_home, drop_instances, instance_for
from ragstream_assets.run_here import SILENT, brief, interrupts, one_run, said, stopping
from ragstream_assets.run_outcomes import RunOutcome
from ragstream_assets.specs import PROJECT_TAG
from ragstream_assets.worker_executor import JOB, PLAN_OP
from ragstream_core.errors import (
    OperationFailed,
    ProjectLocked,
    RagstreamError,
    RunCommand,
    Stopped,
    TryAgain,
    UnknownSetting,
    quoted,
)
from ragstream_core.platform import extras
from ragstream_core.platform.locks import FolderLock, holder_name
from ragstream_core.ports import PhaseProgress
from ragstream_core.services.fan_out import (
    BROKER,
    forget_batches,
    require_broker,
    require_shared,
)
from ragstream_core.wiring import ingestion, models
from ragstream_core.wiring.workspace import Workspace

ATTEMPTS = 3
PAUSE_S = 5.0
WAIT_S = 60.0
LOCKS = "fan_outs"
"""Folder in Dagster's home: one folder a project, for the lock of its fan-out."""


def is_due(workspace: Workspace, project: str, *, rebuild: bool = False) -> bool:
    """Whether an ingest would embed so much that workers are asked by themselves."""
    settings = workspace.config.settings.embeddings
    if not (settings.broker.get_secret_value() and settings.fan_out_at):
        return False
    state = ingestion.status(workspace, project)
    texts = max(state.forecast.chunks, state.chunks if rebuild else 0)
    return texts >= settings.fan_out_at


def require_workers(workspace: Workspace) -> None:
    """Refuse to begin without the settings and the packages that workers need.

    Raises:
        UnknownSetting: A setting is missing or is no address.
        ExtraMissing: Celery is not installed.
    """
    url = workspace.config.settings.embeddings.broker.get_secret_value()
    if not url:
        raise UnknownSetting(
            f"there are no workers to ask: {BROKER} is not set",
            hint=(
                f"set {BROKER} to redis://HOST:6379/0, and on the other machines ",
                RunCommand("worker"),
            ),
        )
    require_broker(workspace.config.settings.embeddings)
    require_shared(workspace)
    extras.require(f"{BROKER} (Celery)", "distributed", "celery", "redis", "dagster_celery")


def ahead(
    workspace: Workspace,
    project: str,
    *,
    rebuild: bool = False,
    accept_missing: bool = False,
    wanted: bool = False,
    progress: PhaseProgress | None = None,
) -> str:
    """Have workers embed what an ingest needs, if it is asked for or there is enough of it.

    Args:
        workspace: The data root.
        project: Its name.
        rebuild: As of the ingest.
        accept_missing: As of the ingest.
        wanted: Whether a person asks for it.
        progress: As of `fan_out`.

    Returns:
        What is to be said about it; empty if nothing is.

    Raises:
        RagstreamError: As `fan_out`; that another process has workers embed the project only if a
            person asks for it.
    """
    if not (wanted or is_due(workspace, project, rebuild=rebuild)):
        return ""
    try:
        return fan_out(
            workspace, project, rebuild=rebuild, accept_missing=accept_missing, progress=progress
        )
    except ProjectLocked as error:
        if wanted:
            raise
        return f"the texts were embedded here: {error.message}"


def fan_out(
    workspace: Workspace,
    project: str,
    *,
    rebuild: bool = False,
    accept_missing: bool = False,
    progress: PhaseProgress | None = None,
) -> str:
    """Have workers embed what the next ingest of a project needs, and wait for them.

    Args:
        workspace: The data root.
        project: Its name.
        rebuild: As of the ingest.
        accept_missing: As of the ingest.
        progress: Called with ("read", …) while it is planned, then with ("workers", batches
            done, batches).

    Returns:
        Why not all was done by workers; empty if it was.

    Raises:
        UnknownSetting: A setting is missing or is no address.
        ExtraMissing: Celery is not installed.
        ProjectLocked: Another process has workers embed the same project.
        Stopped: A person asked for the end.
    """
    require_workers(workspace)
    from ragstream_assets.celery_executor import broker_shown, workers_there

    settings = workspace.config.settings.embeddings
    try:
        found = workers_there(workspace.config, any_of_them=True)
    except OperationFailed as error:
        return f"no workers were asked: {error}"
    if not found.there:
        start = RunCommand("worker", "" if settings.queue == "cpu" else f"--queue {settings.queue}")
        message = f"no worker takes batches from queue {settings.queue} of {broker_shown(settings)}"
        if found.others:
            mine = models.named(workspace.config)
            message += f" for {mine}; for another model: {', '.join(found.others)}"
        same = "give one the model and the embedding settings of this machine, then "
        nobody = OperationFailed(message, hint=(same, start) if found.others else start)
        return f"the texts were embedded here: {nobody}"
    workspace.require_project(project)
    try:
        with _alone(workspace, project):
            of_ingest = {"rebuild": rebuild, "accept_missing": accept_missing}
            problem = _attempts(workspace, project, of_ingest, progress)
    except OSError as error:  # of the lock: disk full, permission denied
        return f"no workers were asked: {brief(error)}"
    if not problem:
        return ""
    again = OperationFailed(
        f"workers did not embed all texts, the rest was embedded here: {problem}",
        hint=RunCommand("ingest", f"{quoted(project)} --fan-out"),
    )
    return str(again)


@contextlib.contextmanager
def _alone(workspace: Workspace, project: str) -> Iterator[None]:
    """Hold the lock of a project's fan-out: a plan removes the batches of the one before it.

    Raises:
        ProjectLocked: Another process holds it; the message says which one since when.
    """
    home = dagster_home(workspace.data_dir, workspace.config.settings.dagster)
    folder = home / LOCKS / project
    lock = FolderLock(folder, f"project {project}")
    with contextlib.ExitStack() as stack:
        stack.callback(lock.close)
        try:
            stack.enter_context(lock.held())
        except ProjectLocked:
            raise ProjectLocked(
                f"workers embed the texts of project {project} already, for {holder_name(folder)}",
                hint=("wait for it to finish, then ", TryAgain()),
            ) from None
        yield


def _attempts(
    workspace: Workspace,
    project: str,
    of_ingest: Mapping[str, bool],
    progress: PhaseProgress | None,
) -> str:
    """Make runs until one has done all; return what is wrong with the last one, if anything."""
    problem = ""
    try:
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(PAUSE_S)
            problem = _run(workspace, project, str(uuid.uuid4()), of_ingest, progress)
            if not problem:
                break
    finally:
        forget_batches(workspace, project)  # plain texts do not wait for the next fan-out
    return problem


def _run(
    workspace: Workspace,
    project: str,
    run_id: str,
    of_ingest: Mapping[str, bool],
    progress: PhaseProgress | None,
) -> str:
    """Make one run; return what is wrong, empty if it is all done.

    Raises:
        KeyboardInterrupt: A signal to end came.
        Stopped: A person asked for the end.
    """
    left = RunOutcome(progress=progress)
    if not one_run.acquire(timeout=WAIT_S):
        return f"another run has been busy for {WAIT_S:.0f} s"
    try:
        return _execute(workspace, project, run_id, left, _config(workspace, of_ingest))
    except Stopped:
        raise
    except Exception as error:  # Dagster or its storage: the ingest goes on without workers
        drop_instances()
        return error.message if isinstance(error, RagstreamError) else brief(error)
    finally:
        one_run.release()


def _config(workspace: Workspace, of_ingest: Mapping[str, bool]) -> dict[str, object]:
    from ragstream_assets.resources import adopt

    return {
        "execution": {"config": {"celery": {}}},
        "resources": {"workspace": {"config": adopt(workspace)}},
        "loggers": SILENT,
        "ops": {PLAN_OP: {"config": dict(of_ingest)}},
    }


def _execute(
    workspace: Workspace,
    project: str,
    run_id: str,
    left: RunOutcome,
    config: Mapping[str, object],
) -> str:
    from dagster import DagsterExecutionInterruptedError

    instance, job = instance_for(workspace.config), dagster_private.job_of(JOB)
    instance.add_dynamic_partitions("project", [project])
    run = dagster_private.create_run(
        instance,
        job,
        run_id=run_id,
        config=config,
        tags={
            "dagster/partition": project,
            PROJECT_TAG: project,
            "ragstream/mode": "embed",
        },
    )
    run_outcomes.start(run_id, left)
    try:
        with interrupts() as interrupted:
            left.progress = stopping(_keeping_stops(left), interrupted)
            try:
                result = dagster_private.execute_for_workers(instance, JOB, run)
            except DagsterExecutionInterruptedError:
                raise KeyboardInterrupt from None
            if interrupted():
                raise KeyboardInterrupt
    finally:
        run_outcomes.forget(run_id)
    if isinstance(left.error, Stopped):
        raise left.error
    problem = "; ".join(said(event) for event in result.all_events if event.is_step_failure)
    if problem or result.success:
        return problem or left.unsettled
    return left.unsettled or f"run {run_id} failed; its log says why"


def _keeping_stops(left: RunOutcome) -> PhaseProgress | None:
    """Return a run's progress; that a person stopped it is kept, since Dagster swallows it."""
    progress = left.progress
    if progress is None:
        return None

    def report(phase: str, done: int, total: int) -> None:
        """Report, or stop.

        Raises:
            Stopped: A person asked for the end.
        """
        try:
            progress(phase, done, total)
        except Stopped as error:
            left.error = error
            raise

    return report
