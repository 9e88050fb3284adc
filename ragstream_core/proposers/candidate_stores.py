"""The vector store that proposes dense candidates: which one, and what a prompt pins of it."""

from __future__ import annotations

import logging
import shutil
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import (
    InputUnavailable,
    IntegrityError,
    RunCommand,
    UnknownSetting,
    worded,
)
from ragstream_core.index.view import open_view
from ragstream_core.platform import extras
from ragstream_core.platform.locks import one_thread_at_a_time
from ragstream_core.prompts.inputs import pinned_settings
from ragstream_core.proposers import graph_proposer, inverted_lists, pgvector_graphs
from ragstream_core.proposers.chroma import seal
from ragstream_core.proposers.chroma.reader import SEAL_CHARS, reader_of, replaced
from ragstream_core.proposers.chroma_collections import collection_of, model_name
from ragstream_core.settings.layers import set_variable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ragstream_core.ports import F32, IndexView, VectorStore
    from ragstream_core.records.prompt_inputs import Pin, PromptInputs
    from ragstream_core.retrieval.proposers import Proposer
    from ragstream_core.settings import ChainSettings
    from ragstream_core.settings.prompts import RetrievalConfig
    from ragstream_core.wiring.workspace import Workspace

CATALOG = "catalog"
CHROMA = "chroma"
NO_LISTS = "-"
"""Stands for a project all of whose rows are scored."""
CACHED_STORES = 4
STORES = "stores"
"""Folder inside an index where stores that have a `save` keep their files; derived."""
_stores: OrderedDict[tuple[Path, str], VectorStore] = OrderedDict()
_guard = threading.Lock()
LOG = logging.getLogger(__name__)


def require_store(workspace: Workspace, settings: ChainSettings) -> None:
    """Refuse a setting that names no vector store, before anything is begun.

    Args:
        workspace: The data root.
        settings: Those of a prompt.

    Raises:
        UnknownSetting: There is none of that name or path, its database has no address, or the
            path is not one of the person's own settings.
        UsageError: What the path names does not satisfy the port.
    """
    if settings.retrieval.store != CATALOG:
        from ragstream_core.proposers.registry import VECTOR_STORES

        _require_own(workspace, settings.retrieval.store)
        VECTOR_STORES.check(settings.retrieval.store)
    if settings.retrieval.store == pgvector_graphs.STORE:
        pgvector_graphs.database_of(workspace)


def proposer(
    workspace: Workspace, settings: ChainSettings, inputs: PromptInputs | None = None
) -> Proposer | None:
    """Return what proposes dense candidates under these settings, None for all rows.

    Args:
        workspace: The data root.
        settings: Those of the stage.
        inputs: Of a prompt, which pins the lists that it is answered from.

    Raises:
        UnknownSetting: There is no such store, or its database has no address.
        InputUnavailable: What the prompt was answered from is gone.
    """
    chosen = settings.retrieval.store
    if chosen in (CATALOG, inverted_lists.STORE):
        return _by_lists(workspace, settings.retrieval, inputs)
    if chosen == pgvector_graphs.STORE:
        return _by_graph(workspace, settings.retrieval, inputs)
    if chosen == CHROMA:
        asked = inputs is not None and _as_pinned(settings.retrieval, inputs)
        return _Chroma(workspace, _named(inputs) if inputs is not None and asked else {})
    _require_own(workspace, chosen)
    return _Store(workspace, chosen)


def _require_own(workspace: Workspace, store: str) -> None:
    """Refuse an import path that a run, a record or a call names: loading it runs its code."""
    from ragstream_core.proposers.registry import VECTOR_STORES

    is_path = ":" in store or "." in store
    known = store in VECTOR_STORES.names()
    if is_path and not known and store != workspace.config.chain().retrieval.store:
        raise UnknownSetting(
            f"the vector store {store!r} is code to be loaded, which no prompt and no run can name",
            hint=("set it in ragstream.yaml or by ", set_variable("retrieval.store")),
        )


def _by_lists(
    workspace: Workspace, chosen: RetrievalConfig, inputs: PromptInputs | None
) -> Proposer | None:
    if inputs is None or not _as_pinned(chosen, inputs):
        asked = chosen.store == inverted_lists.STORE or chosen.approximate_at
        return inverted_lists.IvfProposer(workspace, chosen) if asked else None
    trainings = _named(inputs)
    return inverted_lists.IvfProposer(workspace, chosen, trainings) if trainings else None


def _by_graph(
    workspace: Workspace, chosen: RetrievalConfig, inputs: PromptInputs | None
) -> Proposer | None:
    if inputs is None or not _as_pinned(chosen, inputs):
        return graph_proposer.GraphProposer(workspace, chosen)
    seals = _named(inputs)
    return graph_proposer.GraphProposer(workspace, chosen, seals) if seals else None


def _named(inputs: PromptInputs) -> dict[str, str]:
    """Return what a prompt pinned of each project's store, of those that have one."""
    named = inputs.models.get("store", "").split()[1:]
    pairs = zip(inputs.pins, named, strict=False)
    return {pin.project: word for pin, word in pairs if word != NO_LISTS}


def _as_pinned(chosen: RetrievalConfig, inputs: PromptInputs) -> bool:
    """Return whether a stage has the store that the prompt pinned; a changed one pins nothing."""
    then = pinned_settings(inputs).retrieval
    return (then.store, then.approximate_at) == (chosen.store, chosen.approximate_at)


def pinned(workspace: Workspace, settings: ChainSettings, pins: Sequence[Pin]) -> dict[str, str]:
    """Return what of a store a prompt's candidates depend on, as an entry of its inputs.

    An approximate graph is not a function of the rows: the prompt names the sealed collections it
    was answered from. Exact stores need no name.

    Raises:
        UnknownSetting: There is no such store.
        UsageError: It does not satisfy the port.
        ExtraMissing: It is Chroma or FAISS, and that is not installed.
        RagstreamError: A collection is behind and cannot be brought up to date.
    """
    require_store(workspace, settings)
    if not pins:
        return {}  # conversations alone
    store = settings.retrieval.store
    extra = extras.STORES.get(store, "")
    if extra:
        extras.require(f"retrieval.store={store}", extra)
    if store in (CATALOG, inverted_lists.STORE):
        return _pinned_lists(workspace, settings.retrieval, pins)
    if store == pgvector_graphs.STORE:
        return graph_proposer.pinned(workspace, pins)
    if store != CHROMA:
        return {}
    seals = []
    for pin in pins:
        collection = collection_of(workspace, pin.project)
        if collection.behind():
            collection.keep_up()
        seals.append(seal.seal_digest(collection.chroma_dir)[:SEAL_CHARS])
    return {"store": f"{CHROMA} {' '.join(seals)}"}


def _pinned_lists(
    workspace: Workspace, chosen: RetrievalConfig, pins: Sequence[Pin]
) -> dict[str, str]:
    """Return the training of each project's lists, and why a project has none that can be asked."""
    if chosen.store == CATALOG and not chosen.approximate_at:
        return {}
    trainings, notes = [], []
    for pin in pins:
        index_dir = workspace.index_dir(pin.project)
        view = open_view(index_dir, generation=pin.generation)
        if not inverted_lists.is_wanted(chosen, len(view.chunk_ids)):
            trainings.append(NO_LISTS)
            continue
        training, reason = inverted_lists.training_of(index_dir, view)
        trainings.append(training or NO_LISTS)
        if reason and reason != inverted_lists.NOT_INSTALLED:
            again = worded((RunCommand("index check", pin.project),))
            notes.append(f"every chunk of {pin.project} was scored: {reason}; next: {again}")
    found = {"store_note": "\n".join(notes)} if notes else {}
    if set(trainings) != {NO_LISTS}:
        found["store"] = f"{inverted_lists.STORE} {' '.join(trainings)}"
    return found


def require_pinned(workspace: Workspace, store: str, pins: Sequence[Pin]) -> None:
    """Refuse to run a prompt again whose collections are no longer those that answered it.

    Args:
        workspace: The data root.
        store: The entry that `pinned` made; empty if there is none.
        pins: The prompt's projects.

    Raises:
        InputUnavailable: A collection is another one now.
    """
    if store.startswith(f"{inverted_lists.STORE} "):
        _require_lists(workspace, store, pins)
        return
    if store.startswith(f"{pgvector_graphs.STORE} "):
        graph_proposer.require_pinned(workspace, store, pins)
        return
    for pin, pinned_seal in zip(pins, store.split()[1:], strict=False):
        now = seal.seal_digest(collection_of(workspace, pin.project).chroma_dir)
        if now[:SEAL_CHARS] != pinned_seal:
            raise replaced(pin.project, pinned_seal, now)


def _require_lists(workspace: Workspace, store: str, pins: Sequence[Pin]) -> None:
    for pin, training in zip(pins, store.split()[1:], strict=False):
        if training == NO_LISTS:
            continue
        from ragstream_core.proposers.ivf_index import IvfIndex

        if IvfIndex(workspace.index_dir(pin.project)).trained(training) is None:
            raise InputUnavailable(
                f"the inverted lists of {pin.project} that proposed the candidates are gone, or "
                f"were trained anew (training {training[:16]})",
                hint="prompts with retrieval.approximate_at=0 do not depend on them",
            )


@dataclass(frozen=True, slots=True)
class _Chroma:
    """Proposes from the sealed collection of each project: of a prompt, those that it names."""

    workspace: Workspace
    seals: Mapping[str, str]

    def near(self, view: IndexView, queries: F32, n: int) -> list[list[str]] | None:
        if view.project == HISTORY:
            return None
        collection = collection_of(self.workspace, view.project)
        pinned_seal = self.seals.get(view.project, "")
        return reader_of(collection).near(view.digest, queries, n, pinned_seal=pinned_seal)


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
        key = folder, view.embed_fp
        with one_thread_at_a_time(key):  # filling one takes seconds; the others go on meanwhile
            with _guard:
                store = _stores.get(key)
            if store is None:
                store = self._open(view, folder)
            with _guard:
                _stores[key] = store
                _stores.move_to_end(key)
                while len(_stores) > CACHED_STORES:
                    _stores.popitem(last=False)
            return store

    def _open(self, view: IndexView, folder: Path) -> VectorStore:
        import numpy as np

        from ragstream_core.proposers.registry import StoreOptions, create_vector_store

        options = StoreOptions(
            folder,
            int(view.vectors.shape[1]),
            embed_fp=view.embed_fp,
            model=model_name(self.workspace),
        )
        try:
            store = create_vector_store(self.backend, options)
        except IntegrityError:  # derived: what is damaged is made again
            shutil.rmtree(folder, ignore_errors=True)
            store = create_vector_store(self.backend, options)
        if store.ids() != list(view.chunk_ids):
            store.delete(store.ids())
            store.add(list(view.chunk_ids), np.asarray(view.vectors))
            save = getattr(store, "save", None)
            if save is not None:
                shutil.rmtree(folder.parent, ignore_errors=True)
                try:
                    save()
                except OSError as error:  # it is filled; the next process fills it again
                    LOG.warning("%s of %s is not kept: %s", self.backend, view.project, error)
        return store
