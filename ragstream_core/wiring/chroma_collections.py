"""A project's Chroma collection and the stores that propose candidates, connected to settings.

Light to import: the path on which nothing changed asks `due` and must load no engine.
"""

from __future__ import annotations

import shutil
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import GenerationGone, InputUnavailable, IntegrityError, RagstreamError
from ragstream_core.vector_stores.chroma import publisher
from ragstream_core.vector_stores.chroma import seal as chroma_seal
from ragstream_core.wiring.projects import checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragstream_core.ingestion.index_store import Generation
    from ragstream_core.ports import F32, IndexView, VectorStore
    from ragstream_core.prompts.inputs import Pin
    from ragstream_core.retrieval.proposers import Proposer
    from ragstream_core.settings import ChainSettings
    from ragstream_core.vector_stores.chroma.publisher import CollectionReport, FailedAttempt
    from ragstream_core.vector_stores.chroma.sync import Collection
    from ragstream_core.wiring.workspace import Workspace

CATALOG = "catalog"
CHROMA = "chroma"
SWITCHED_OFF = "switched off: vector_store.collection"
CACHED_STORES = 4
STORES = "stores"
"""Folder inside an index where stores that have a `save` keep their files; derived."""
_stores: OrderedDict[tuple[Path, str], VectorStore] = OrderedDict()
_guard = threading.Lock()


@dataclass(frozen=True, slots=True)
class Left:
    """A collection that was left as it is.

    Attributes:
        why: The reason, for people.
        failed: Whether it could not be made, rather than was not to be.
        next: What to run, where it could not be made.
    """

    why: str
    failed: bool = False
    next: str = ""

    @property
    def warning(self) -> str:
        """What to say of a failure; empty where there was none."""
        return f"{self.why}\n  next: {self.next}" if self.failed else ""


def left_behind(what: str, error: RagstreamError) -> Left:
    """Return what to say of a collection that could not be made.

    Args:
        what: Its name for people.
        error: Why.
    """
    return Left(f"{what} was left as it was: {error.message}", failed=True, next=error.hint)


def collection_of(workspace: Workspace, project: str) -> Collection:
    """Return a project's collection, whether it is there or not.

    Raises:
        InvalidName: The name could lead outside the data root.
    """
    from ragstream_core.vector_stores.chroma.sync import Collection

    return Collection(
        _chroma_dir(workspace, project),
        workspace.index_dir(project),
        project,
        _model(workspace),
    )


def _model(workspace: Workspace) -> str:
    chosen = workspace.config.settings.embeddings
    return f"{chosen.backend}/{chosen.model}"


def _chroma_dir(workspace: Workspace, project: str) -> Path:
    return workspace.data_dir / "chroma_db" / checked(project)


def sync(
    workspace: Workspace, project: str, *, rebuild: bool = False, verify_all: bool = False
) -> CollectionReport:
    """Bring a project's collection up to its index; see `Collection.sync`.

    Raises:
        RagstreamError: It could not be done; the old collection stays.
    """
    return collection_of(workspace, project).sync(rebuild=rebuild, verify_all=verify_all)


def keep_up(
    workspace: Workspace,
    project: str,
    *,
    rebuild: bool = False,
    verify_all: bool = False,
    again: bool = False,
) -> CollectionReport | Left:
    """Bring the collection up to date where one is kept; a failure harms nothing else.

    Args:
        workspace: The data root.
        project: Its name.
        rebuild: Build it from the catalog even if it could be updated.
        verify_all: Compare every vector even where nothing is to be done.
        again: Try even if it failed for this generation already, as ``rebuild`` does.

    Returns:
        What became of it, or why it was left.
    """
    if not workspace.config.settings.vector_store.collection:
        return Left(SWITCHED_OFF)
    collection = collection_of(workspace, project)
    try:
        if rebuild or again:
            return collection.sync(rebuild=rebuild, verify_all=verify_all)
        return collection.keep_up(verify_all=verify_all)
    except GenerationGone:
        return Left("nothing is ingested yet")
    except RagstreamError as error:
        return left_behind("the Chroma collection", error)


def sync_after_ingest(
    workspace: Workspace, project: str, *, rebuild: bool = False, verify_all: bool = False
) -> tuple[str, ...]:
    """As `keep_up`; return the warnings of it."""
    done = keep_up(workspace, project, rebuild=rebuild, verify_all=verify_all)
    return (done.warning,) if isinstance(done, Left) and done.warning else ()


def failures(workspace: Workspace, project: str, newest: Generation | None) -> tuple[str, ...]:
    """Return the warning of a collection that could not be made for a generation, if any."""
    failed = _failed(workspace, project, newest)
    return (left_behind("the Chroma collection", failed.error).warning,) if failed else ()


def _failed(workspace: Workspace, project: str, newest: Generation | None) -> FailedAttempt | None:
    folder = _chroma_dir(workspace, project)
    kept = workspace.config.settings.vector_store.collection
    if not kept or newest is None or publisher.noted(folder) is None:
        return None
    return collection_of(workspace, project).failed(newest)


def state(workspace: Workspace, project: str, newest: Generation | None) -> dict[str, Any]:
    """Return how a project's collection stands; reads two small files.

    Args:
        workspace: The data root.
        project: Its name.
        newest: The newest generation, None where nothing is ingested.

    Returns:
        ``kept`` (whether the settings ask for one), ``generation`` and ``rows`` (0: there is none),
        ``self_recall`` (share of a sample of rows that the graph finds by their own vectors; None:
        not measured), ``graph``, ``problem`` (why it could not be made; empty where it could),
        ``next`` (what makes it good).
    """
    folder = chroma_seal.current(_chroma_dir(workspace, project))
    receipt = chroma_seal.receipt_of(folder) if folder else None
    failed = _failed(workspace, project, newest)
    measured = receipt is not None and receipt.self_recall >= 0
    return {
        "kept": workspace.config.settings.vector_store.collection,
        "generation": receipt.generation if receipt else 0,
        "rows": receipt.rows if receipt else 0,
        "self_recall": receipt.self_recall if receipt and measured else None,
        "graph": receipt.graph if receipt else "",
        "problem": failed.message if failed else "",
        "next": failed.hint if failed else "",
    }


def compare(workspace: Workspace, project: str) -> list[str]:
    """Return what tells a project's collection from its index, for people.

    A project without a generation, or without a collection where none is kept, has no faults.

    Raises:
        RagstreamError: The index is damaged.
        OSError: Disk full.
    """
    if not workspace.config.settings.vector_store.collection:
        return []
    try:
        return collection_of(workspace, project).faults()
    except GenerationGone:
        return []


def due(workspace: Workspace, project: str, newest: Generation) -> bool:
    """Say whether a collection that is kept is to be made for a generation; reads small files.

    One that could not be made for it is not due.
    """
    if not workspace.config.settings.vector_store.collection:
        return False
    folder = chroma_seal.current(_chroma_dir(workspace, project))
    receipt = chroma_seal.receipt_of(folder) if folder else None
    if receipt is not None and (receipt.generation, receipt.digest) == (newest.n, newest.digest):
        return False
    return _failed(workspace, project, newest) is None


def require_store(settings: ChainSettings) -> None:
    """Refuse a setting that names no vector store, before anything is begun.

    Raises:
        UnknownSetting: There is none of that name or path.
        UsageError: What the path names does not satisfy the port.
    """
    if settings.retrieval.store != CATALOG:
        from ragstream_core.vector_stores.registry import VECTOR_STORES

        VECTOR_STORES.check(settings.retrieval.store)


def proposer(workspace: Workspace, settings: ChainSettings) -> Proposer | None:
    """Return what proposes dense candidates under these settings, None for all rows."""
    chosen = settings.retrieval.store
    if chosen == CATALOG:
        return None
    return _Chroma(workspace) if chosen == CHROMA else _Store(workspace, chosen)


def pinned(workspace: Workspace, settings: ChainSettings, pins: Sequence[Pin]) -> dict[str, str]:
    """Return what of a store a prompt's candidates depend on, as an entry of its inputs.

    An approximate graph is not a function of the rows: the prompt names the sealed collections it
    was answered from. Exact stores need no name.

    Raises:
        UnknownSetting: There is no such store.
        UsageError: It does not satisfy the port.
        RagstreamError: A collection is behind and cannot be brought up to date.
    """
    require_store(settings)
    if settings.retrieval.store != CHROMA:
        return {}
    seals = []
    for pin in pins:
        collection = collection_of(workspace, pin.project)
        if collection.behind():
            collection.keep_up()
        seals.append(chroma_seal.seal_digest(collection.chroma_dir)[:16])
    return {"store": f"{CHROMA} {' '.join(seals)}"}


def require_pinned(workspace: Workspace, store: str, pins: Sequence[Pin]) -> None:
    """Refuse to run a prompt again whose collections are no longer those that answered it.

    Args:
        workspace: The data root.
        store: The entry that `pinned` made; empty where there is none.
        pins: The prompt's projects.

    Raises:
        InputUnavailable: A collection is another one now.
    """
    for pin, seal in zip(pins, store.split()[1:], strict=False):
        now = chroma_seal.seal_digest(_chroma_dir(workspace, pin.project))[:16]
        if now != seal:
            raise InputUnavailable(
                f"the Chroma collection of {pin.project} that proposed the candidates was replaced "
                f"(seal {seal}, now {now or 'none'})",
                hint="prompts of retrieval.store=catalog do not depend on a collection",
            )


@dataclass(frozen=True, slots=True)
class _Chroma:
    """Proposes from the sealed collection of each project."""

    workspace: Workspace

    def near(self, view: IndexView, queries: F32, n: int) -> list[list[str]] | None:
        from ragstream_core.vector_stores.chroma.reader import reader_of

        if view.project == HISTORY:
            return None
        collection = collection_of(self.workspace, view.project)
        return reader_of(collection).near(view.digest, queries, n)


@dataclass(frozen=True, slots=True)
class _Store:
    """Proposes from a store that is filled with the rows of a generation when it is first asked."""

    workspace: Workspace
    backend: str

    def near(self, view: IndexView, queries: F32, n: int) -> list[list[str]] | None:
        if view.project == HISTORY:
            return None
        store = self._filled(view)
        return [[identifier for identifier, _ in store.search(query, n)] for query in queries]

    def _filled(self, view: IndexView) -> VectorStore:
        home = self.workspace.index_dir(view.project) / STORES / self.backend.replace(":", ".")
        folder = home / view.digest[:16]  # other rows are another store, whatever their ids
        with _guard:
            if (folder, view.embed_fp) not in _stores:
                _stores[folder, view.embed_fp] = self._open(view, folder)
            _stores.move_to_end((folder, view.embed_fp))
            while len(_stores) > CACHED_STORES:
                _stores.popitem(last=False)
            return _stores[folder, view.embed_fp]

    def _open(self, view: IndexView, folder: Path) -> VectorStore:
        from ragstream_core.vector_stores.registry import StoreOptions, create_vector_store

        options = StoreOptions(
            folder,
            int(view.vectors.shape[1]),
            embed_fp=view.embed_fp,
            model=_model(self.workspace),
        )
        try:
            store = create_vector_store(self.backend, options)
        except IntegrityError:  # derived: what is damaged is made again
            shutil.rmtree(folder, ignore_errors=True)
            store = create_vector_store(self.backend, options)
        if store.ids() != list(view.chunk_ids):
            store.delete(store.ids())
            store.add(list(view.chunk_ids), view.vectors)
            save = getattr(store, "save", None)
            if save is not None:
                shutil.rmtree(folder.parent, ignore_errors=True)
                save()
        return store
