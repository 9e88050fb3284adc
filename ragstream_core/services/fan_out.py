"""The three steps of the job `embed_texts`: plan batches of texts, embed one, settle.

Each may be done again at any time: vectors are found by what they are made from, so nothing is
embedded twice that has a vector, and nothing is doubled.
"""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ragstream_core.errors import (
    ModelMismatch,
    RagstreamError,
    RunCommand,
    StoreFailed,
    UnknownSetting,
)
from ragstream_core.records.identity import digest_of
from ragstream_core.wiring import ingestion, models
from ragstream_core.wiring.shared_vectors import SETTING, shared_database

if TYPE_CHECKING:
    from ragstream_core.models.embedders.shared_vectors import VectorTable
    from ragstream_core.models.embedders.text_batches import BatchTable
    from ragstream_core.platform.postgres import Database
    from ragstream_core.ports import Embedder, PhaseProgress
    from ragstream_core.settings.documents import EmbeddingsConfig
    from ragstream_core.wiring.workspace import Workspace

BROKER = "embeddings.broker"


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    """What became of one batch.

    Attributes:
        texts: How many it has; 0 if it is gone: its run has ended, or was planned anew.
        embedded: How many of them were embedded now.
        seconds: Wall time, the model's loading included.
        host: The machine.
    """

    texts: int
    embedded: int
    seconds: float
    host: str


def require_broker(config: EmbeddingsConfig) -> None:
    """Refuse a broker whose address cannot be used; nobody is contacted.

    Args:
        config: The section of the settings.

    Raises:
        UnknownSetting: It is none of a Redis, or its port or its database is no number.
    """
    try:
        parts = urlsplit(config.broker.get_secret_value())
        database = parts.path.removeprefix("/")
        is_usable = parts.port != 0 and (not database or int(database) >= 0)
        is_usable = is_usable and parts.scheme in ("redis", "rediss")
    except ValueError:  # its words may hold a part of the password
        is_usable = False
    if not is_usable:
        raise UnknownSetting(
            f"{BROKER} is no address of a Redis",
            hint=f"set {BROKER} to redis://HOST:6379/0, or rediss://… for TLS; "
            "a slash in its password is written %2F",
        )


def require_shared(workspace: Workspace) -> Database:
    """Return the database of shared vectors.

    Raises:
        UnknownSetting: None is set.
    """
    found = shared_database(workspace.config)
    if found is None:
        raise UnknownSetting(
            f"workers need a database of shared vectors, and {SETTING} is not set",
            hint=f"set {SETTING} to postgresql://USER@HOST:5432/NAME",
        )
    return found


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

    Args:
        workspace: The data root.
        project: Its name.
        run: Names the batches.
        rebuild: As of the ingest.
        accept_missing: As of the ingest: without it a rebuild refuses while a folder is away.
        progress: Called with ("read", files done, files to read).

    Raises:
        RagstreamError: The database cannot be used, or the ingest would refuse as well.
    """
    from ragstream_core.ingestion.coming_texts import nothing_erased
    from ragstream_core.wiring.ingestion import manager_of

    workspace.require_project(project)
    embedder = models.embedder(workspace.config)
    config = replace(
        ingestion.ingestion_config(workspace, project),
        rebuild=rebuild,
        accept_missing=accept_missing,
    )
    owner = _owner(workspace, project)
    size = workspace.config.settings.embeddings.batch_texts
    sizes: list[int] = []
    waiting: dict[str, str] = {}
    held = nothing_erased(workspace.index_dir(project))
    with held, _tables(workspace, embedder) as (vectors, batches):
        batches.forget(owner)

        def write(least: int) -> None:
            while len(waiting) >= least:
                batch = {h: waiting.pop(h) for h in list(waiting)[:size]}
                batches.write(run, len(sizes), batch, owner=owner, embed_fp=embedder.fingerprint)
                sizes.append(len(batch))

        def give(texts: dict[str, str]) -> None:
            waiting.update((h, texts[h]) for h in vectors.lacking(list(texts)))
            write(size)

        manager = manager_of(workspace, project, embedder, progress)
        manager.coming_texts(project, config, give, batch_texts=size)
        write(1)
    return sizes


def embed_batch(workspace: Workspace, run: str, batch: int) -> EmbeddedBatch:
    """Embed the texts of a batch that have no sound vector yet, and add the vectors.

    Args:
        workspace: Of the worker: its own model and its own settings.
        run: As in `plan_batches`.
        batch: Its number.

    Raises:
        ModelMismatch: The worker has another model or another RAGstream than the batch is for.
        IntegrityError: A text was damaged in the database.
        EmbeddingFailed: The embedder returned something unusable.
        RagstreamError: The database cannot be used.
    """
    began = time.perf_counter()
    database = require_shared(workspace)
    with contextlib.closing(database.connect()) as db:
        from ragstream_core.models.embedders.text_batches import BatchTable

        found = BatchTable(db, database, package()).read(run, batch)
    if found is None:
        return EmbeddedBatch(0, 0, time.perf_counter() - began, platform.node())
    mine = models.fingerprint(workspace.config)
    if mine != found.embed_fp:
        raise ModelMismatch(
            f"the worker on {platform.node()} (RAGstream {package()}) embeds by {mine[:12]} "
            f"({models.named(workspace.config)}), the batch is for {found.embed_fp[:12]}",
            hint="give the worker the model, the embedding settings and the RAGstream of the "
            "machine that ingests, and start it again",
        )
    embedder = models.embedder(workspace.config)
    with _tables(workspace, embedder) as (vectors, batches):
        # a text of it may be erased while they are made
        made = vectors.complete(embedder, found.texts, batches.held(run, batch))
    texts = len(found.texts) if made is not None else 0
    return EmbeddedBatch(texts, made or 0, time.perf_counter() - began, platform.node())


def settle(workspace: Workspace, run: str) -> int:
    """Require a vector for each text of a run, remove its texts and return how many they were.

    Raises:
        StoreFailed: Vectors are missing; the texts stay.
        RagstreamError: The database cannot be used.
    """
    database = require_shared(workspace)
    with _tables(workspace, models.embedder(workspace.config)) as (vectors, batches):
        texts, lacking = batches.lacking(run, vectors.embedder_id)
        if lacking:
            raise StoreFailed(
                f"{database.shown}: {lacking} of {texts} texts have no vector",
                hint=RunCommand("ingest", "PROJECT --fan-out"),
            )
        batches.remove(run)
    return texts


def forget_batches(workspace: Workspace, project: str) -> None:
    """Remove the texts of a project that still wait for workers, unless the database is away.

    A worker that comes to such a batch finds nothing to do. What stays is removed by the next plan
    for the project, or by `ragstream embeddings clear`.
    """
    with contextlib.suppress(RagstreamError):
        database = require_shared(workspace)
        with contextlib.closing(database.connect()) as db:
            from ragstream_core.models.embedders.text_batches import BatchTable

            BatchTable(db, database, package()).forget(_owner(workspace, project))


def package() -> str:
    """Return the version of this RAGstream."""
    try:
        return metadata.version("ragstream")
    except metadata.PackageNotFoundError:
        return "of a source tree"


def _owner(workspace: Workspace, project: str) -> str:
    """Return whose batches a plan writes: one project of one data root of one machine."""
    return digest_of([platform.node(), str(workspace.data_dir), project])


@contextlib.contextmanager
def _tables(workspace: Workspace, embedder: Embedder) -> Iterator[tuple[VectorTable, BatchTable]]:
    from ragstream_core.models.embedders.shared_vectors import VectorTable
    from ragstream_core.models.embedders.text_batches import BatchTable

    database = require_shared(workspace)
    with contextlib.closing(VectorTable(database, embedder)) as vectors:
        yield vectors, BatchTable(vectors.db, database, package())
