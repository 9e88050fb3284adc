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
    UnknownSetting,
    quoted,
)
from ragstream_core.platform import extras
from ragstream_core.platform.disk import disk_failure
from ragstream_core.platform.locks import LOCK_NAME, FolderLock, holder_name
from ragstream_core.records.identity import digest_of
from ragstream_core.wiring import ingestion, models
from ragstream_core.wiring.shared_vectors import SETTING, shared_database

if TYPE_CHECKING:
    from ragstream_core.ingestion.workers import Queue, TextBatches
    from ragstream_core.platform.postgres import Database
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.wiring.workspace import Workspace

PHASE = "workers"
LOOK_S = 0.5
TEND_S = 5.0
"""Seconds between two looks at the queue; each one is a connection."""
LOCKS = "fan_outs"
"""Folder in the data root: one folder a project, for the lock of its fan-out."""


def require_workers(workspace: Workspace) -> Database:
    """Return the database of the workers; refuse where none is set or a package is missing."""
    database = shared_database(workspace.config)
    if database is None:
        raise UnknownSetting(
            f"workers need a database of shared vectors, and {SETTING} is not set",
            hint=(
                f"set {SETTING} to postgresql://USER@HOST:5432/NAME, and on the other machines ",
                RunCommand("worker"),
            ),
        )
    extras.require("a queue for workers", "workers", "procrastinate", "psycopg_pool")
    return database


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

    Returns why not all was done by workers; empty if it was, or if they were not asked. What a
    person asks for (`wanted`) and cannot be begun is raised.
    """
    settings = workspace.config.settings.embeddings
    if not wanted and not (settings.shared.get_secret_value() and settings.fan_out_at):
        return ""
    try:
        nobody = _nobody(workspace, wanted=wanted)
        if nobody is None or not (wanted or is_due(workspace, project, rebuild=rebuild)):
            return ""
        if nobody:
            return f"the texts were embedded here: {nobody}"
        workspace.require_project(project)
        with _alone(workspace, project):
            problem = _embedded(workspace, project, rebuild, accept_missing, progress)
    except (ExtraMissing, ProjectLocked) as error:
        if wanted:
            raise
        return f"the texts were embedded here: {error.message}"
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
    from ragstream_core.ingestion.workers import queue_name, workers_there

    settings = workspace.config.settings.embeddings
    database = require_workers(workspace) if wanted else shared_database(workspace.config)
    assert database is not None
    queue = queue_name(settings.queue, models.fingerprint(workspace.config))
    try:
        with contextlib.closing(database.connect()) as db, database.errors():
            found = workers_there(db, queue)
    except OperationFailed:
        if wanted:
            raise
        return None  # who takes the vectors from there says that it is away
    if found is None and not wanted:
        return None
    if found is not None and found.there:
        return ""
    start = RunCommand("worker", "" if settings.queue == "cpu" else f"--queue {settings.queue}")
    message = f"no worker takes batches from queue {settings.queue} of {database.shown}"
    others = found.others if found else []
    if others:
        message += f" for {models.named(workspace.config)}; for another model: {', '.join(others)}"
    same = "give one the model and the embedding settings of this machine, then "
    return str(OperationFailed(message, hint=(same, start) if others else start))


@contextlib.contextmanager
def _alone(workspace: Workspace, project: str) -> Iterator[None]:
    """Hold the lock of a project's fan-out: a plan removes the batches of the one before it."""
    folder = workspace.data_dir / LOCKS / project
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
        except OSError as error:
            raise disk_failure(folder / LOCK_NAME, error) from error
        yield


def _embedded(
    workspace: Workspace,
    project: str,
    rebuild: bool,
    accept_missing: bool,
    progress: PhaseProgress | None,
) -> str:
    """Plan batches, offer and await them; return what is wrong, empty if all are done."""
    from ragstream_core.ingestion.workers import Queue, queue_name

    run = str(uuid.uuid4())
    settings, database = workspace.config.settings.embeddings, require_workers(workspace)
    queue = Queue(database, queue_name(settings.queue, models.fingerprint(workspace.config)))
    try:
        sizes = plan_batches(
            workspace,
            project,
            run,
            rebuild=rebuild,
            accept_missing=accept_missing,
            progress=progress,
        )
        if not sizes:
            return ""
        queue.offer(run, len(sizes))
        return _awaited(
            database, queue, run, len(sizes), patience_s=settings.batch_timeout_s, progress=progress
        )
    finally:  # plain texts do not wait for the next fan-out; unless the database is away
        with contextlib.suppress(OperationFailed), _tables(workspace) as batches:
            batches.forget(_owner(workspace, project))


def _awaited(
    database: Database,
    queue: Queue,
    run: str,
    batches: int,
    *,
    patience_s: float,
    progress: PhaseProgress | None,
) -> str:
    """Wait until workers are through with the batches of a run; return why not, if they are not."""
    from ragstream_core.ingestion.workers import HAND_OUTS, TextBatches

    left, heard, tended = dict.fromkeys(range(batches), ""), time.monotonic(), time.monotonic()
    away = ""
    while left:
        if progress is not None:
            progress(PHASE, batches - len(left), batches)
        time.sleep(LOOK_S)
        try:
            with contextlib.closing(database.connect()) as db:
                there, away = TextBatches(db, database).left(run), ""
            if len(there) < len(left):
                heard = time.monotonic()
            left = there
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
    *,
    rebuild: bool = False,
    accept_missing: bool = False,
    progress: PhaseProgress | None = None,
) -> list[int]:
    """Write the texts that an ingest would embed into the database; return the size of each batch.

    Texts that have a shared vector are left out. Batches of earlier runs for the project go. The
    project is locked as by an ingest: a file that is forgotten meanwhile would come into a batch.
    """
    from ragstream_core.ingestion.coming_texts import nothing_erased
    from ragstream_core.ingestion.workers import TextBatches
    from ragstream_core.models.embedders.shared_vectors import VectorTable

    workspace.require_project(project)
    embedder = models.embedder(workspace.config)
    config = replace(
        ingestion.ingestion_config(workspace, project),
        rebuild=rebuild,
        accept_missing=accept_missing,
    )
    owner, database = _owner(workspace, project), require_workers(workspace)
    size = workspace.config.settings.embeddings.batch_texts
    sizes: list[int] = []
    waiting: dict[str, str] = {}
    held = nothing_erased(workspace.index_dir(project))
    with held, contextlib.closing(VectorTable(database, embedder)) as vectors:
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
        manager.coming_texts(project, config, give, batch_texts=size)
        write(1)
    return sizes


def _owner(workspace: Workspace, project: str) -> str:
    """Return whose batches a plan writes: one project of one data root of one machine."""
    return digest_of([platform.node(), str(workspace.data_dir), project])


@contextlib.contextmanager
def _tables(workspace: Workspace) -> Iterator[TextBatches]:
    from ragstream_core.ingestion.workers import TextBatches

    database = require_workers(workspace)
    with contextlib.closing(database.connect()) as db:
        yield TextBatches(db, database)
