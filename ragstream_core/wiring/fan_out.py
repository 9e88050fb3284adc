"""Has workers embed the texts of a coming ingest, and waits for them.

Nothing that goes wrong here fails an ingest: what workers did not embed is embedded by the ingest.
Started again, it plans what is still missing, so the same command goes on after anything.
"""

from __future__ import annotations

import contextlib
import platform
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ragstream_core.errors import (
    ExtraMissing,
    OperationFailed,
    ProjectLocked,
    Refused,
    RunCommand,
    Stopped,
    StoreFailed,
    TryAgain,
    quoted,
)
from ragstream_core.platform import extras
from ragstream_core.platform.disk import on_disk
from ragstream_core.platform.locks import FolderLock, holder_name
from ragstream_core.records.identity import digest_of
from ragstream_core.wiring import ingestion, models
from ragstream_core.wiring.shared_vectors import require_shared

if TYPE_CHECKING:
    from ragstream_core.ingestion.ingestion_config import IngestionConfig
    from ragstream_core.ingestion.workers import Queue
    from ragstream_core.platform.postgres import Database
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.wiring.workspace import Workspace

PHASE = "workers"
LOOK_S = 0.5

# Seconds between two looks at the queue; each one is a connection.
TEND_S = 5.0
# Folder in the data root: one folder a project, for the lock of its fan-out.
LOCKS = "fan_outs"
HERE = "the texts were embedded here: "


def require_workers(workspace: Workspace) -> Database:
    """Return the database of the workers; refuse where none is set or a package is missing."""
    database = require_shared(workspace.config)
    extras.require("a queue for workers", "workers", "procrastinate", "psycopg_pool")
    return database


def queue_of(workspace: Workspace, queue: str = "") -> str:
    """Return the name in the database of a queue for the model of the settings."""
    from ragstream_core.ingestion.workers import queue_name

    chosen = queue or workspace.config.settings.embeddings.queue
    return queue_name(chosen, models.fingerprint(workspace.config))


def ahead(
    workspace: Workspace,
    project: str,
    config: IngestionConfig,
    *,
    wanted: bool = False,
    progress: PhaseProgress | None = None,
) -> str:
    """Have workers embed what an ingest needs, if it is asked for or there is enough of it.

    Returns why not all was done by workers; empty if it was, or if they were not asked. What a
    person asks for (`wanted`) and cannot be begun is raised.
    """
    settings = workspace.config.settings.embeddings
    if not wanted and not (settings.shared.get_secret_value() and settings.fan_out_at):
        return ""
    try:
        nobody = _nobody(workspace, wanted=wanted)
        if nobody is None or not (wanted or is_due(workspace, project, rebuild=config.rebuild)):
            return ""
        if nobody:
            return HERE + nobody
        workspace.require_project(project)
        with _alone(workspace, project):
            problem = _embedded(workspace, project, config, progress)
    except (ExtraMissing, ProjectLocked) as error:
        if wanted:
            raise
        return HERE + error.message
    except Stopped:
        raise
    except (OperationFailed, Refused) as error:  # of the database or a disk
        problem = str(error)
    if not problem:
        return ""
    again = OperationFailed(
        f"workers did not embed all texts, the rest was embedded here: {problem}",
        hint=RunCommand("ingest", f"{quoted(project)} --fan-out"),
    )
    return str(again)


def is_due(workspace: Workspace, project: str, *, rebuild: bool = False) -> bool:
    """Whether an ingest would embed so much that workers are asked by themselves."""
    state = ingestion.status(workspace, project)
    texts = max(state.forecast.chunks, state.chunks if rebuild else 0)
    return texts >= workspace.config.settings.embeddings.fan_out_at


def _nobody(workspace: Workspace, *, wanted: bool) -> str | None:
    """Return why nobody can be asked, "" if somebody can; None where no worker ever was."""
    from ragstream_core.ingestion.workers import Workers, workers_there

    queue = workspace.config.settings.embeddings.queue
    database = require_workers(workspace) if wanted else require_shared(workspace.config)
    try:
        with contextlib.closing(database.connect()) as db, database.errors():
            found = workers_there(db, queue_of(workspace))
    except OperationFailed:
        if wanted:
            raise
        return None  # who takes the vectors from there says that it is away
    if found is None and not wanted:
        return None
    there, others = found or Workers([], [])
    if there:
        return ""
    start = RunCommand("worker", "" if queue == "cpu" else f"--queue {queue}")
    message = f"no worker takes batches from queue {queue} of {database.shown}"
    if others:
        message += (
            f" for {models.model_name(workspace.config)}; for another model: {', '.join(others)}"
        )
    same = "give one the model and the embedding settings of this machine, then "
    return str(OperationFailed(message, hint=(same, start) if others else start))


@contextlib.contextmanager
def _alone(workspace: Workspace, project: str) -> Iterator[None]:
    """Hold the lock of a project's fan-out: a plan removes the batches of the one before it."""
    folder = workspace.data_dir / LOCKS / project
    with contextlib.ExitStack() as stack:
        try:
            with on_disk(folder):
                stack.enter_context(FolderLock(folder, f"project {project}").held())
        except ProjectLocked:
            raise ProjectLocked(
                f"workers embed the texts of project {project} already, for {holder_name(folder)}",
                hint=("wait for it to finish, then ", TryAgain()),
            ) from None
        yield


def _embedded(
    workspace: Workspace, project: str, config: IngestionConfig, progress: PhaseProgress | None
) -> str:
    """Plan batches, offer and await them; return what is wrong, empty if all are done."""
    from ragstream_core.ingestion.workers import Queue, batches_in

    run, database = str(uuid.uuid4()), require_workers(workspace)
    queue = Queue(database, queue_of(workspace))
    try:
        sizes = plan_batches(workspace, project, run, config, progress=progress)
        if not sizes:
            return ""
        queue.offer(run, len(sizes))
        patience_s = workspace.config.settings.embeddings.batch_timeout_s
        return _awaited(database, queue, run, len(sizes), patience_s, progress)
    finally:  # plain texts do not wait for the next fan-out; unless the database is away
        with contextlib.suppress(OperationFailed), batches_in(database) as batches:
            batches.forget(_owner(workspace, project))


def _awaited(
    database: Database,
    queue: Queue,
    run: str,
    batches: int,
    patience_s: float,
    progress: PhaseProgress | None,
) -> str:
    """Wait until workers are through with the batches of a run; return why not, if they are not."""
    from ragstream_core.ingestion.workers import HAND_OUTS, batches_in

    left, heard, tended = dict.fromkeys(range(batches), ""), time.monotonic(), time.monotonic()
    away = ""
    while left:
        if progress is not None:
            progress(PHASE, batches - len(left), batches)
        time.sleep(LOOK_S)
        try:
            with batches_in(database) as there:
                now, away = there.left(run), ""
            if len(now) < len(left):
                heard = time.monotonic()
            left = now
            if time.monotonic() - tended > TEND_S:
                tended = time.monotonic()
                for batch in set(queue.tend(run)) & set(left):
                    said = f"batch {batch} was handed out {HAND_OUTS} times and no worker finished"
                    return f"{said} it{': ' * bool(left[batch])}{left[batch]}"
        except StoreFailed as error:
            away = error.message
        if time.monotonic() - heard > patience_s:
            return away or f"no worker finished a batch within {patience_s:g} s"
    if progress is not None:
        progress(PHASE, batches, batches)
    return ""


def plan_batches(
    workspace: Workspace,
    project: str,
    run: str,
    config: IngestionConfig,
    *,
    progress: PhaseProgress | None = None,
) -> list[int]:
    """Write the texts that an ingest would embed into the database; return the size of each batch.

    Texts that have a shared vector are left out. Batches of earlier runs for the project go. The
    project is locked as by an ingest: a file that is forgotten meanwhile would come into a batch.
    """
    from ragstream_core.ingestion.staging import nothing_erased
    from ragstream_core.ingestion.workers import TextBatches
    from ragstream_core.models.embedders.shared_vectors import VectorTable

    embedder, owner = models.embedder(workspace.config), _owner(workspace, project)
    size, database = workspace.config.settings.embeddings.batch_texts, require_workers(workspace)
    sizes: list[int] = []
    waiting: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(nothing_erased(workspace.index_dir(project)))
        vectors = stack.enter_context(contextlib.closing(VectorTable(database, embedder)))
        stack.enter_context(database.errors())
        batches = TextBatches(vectors.db, database)
        batches.forget(owner)

        def write(least: int) -> None:
            while len(waiting) >= least:
                batch = {h: waiting.pop(h) for h in list(waiting)[:size]}
                batches.write(run, len(sizes), batch, owner=owner, embed_fp=embedder.fingerprint)
                sizes.append(len(batch))

        def give(texts: dict[str, str]) -> None:
            waiting.update((h, texts[h]) for h in vectors.lacking(list(texts)))
            write(size)

        manager = ingestion.manager_of(workspace, project, embedder, progress)
        survey = replace(config, verify=False)  # only what is new is handed over
        manager.coming_texts(project, survey, give, batch_texts=size)
        write(1)
    return sizes


def _owner(workspace: Workspace, project: str) -> str:
    """Return whose batches a plan writes: one project of one data root of one machine."""
    return digest_of([platform.node(), str(workspace.data_dir), project])
