"""Which store proposes dense candidates under which settings, and what a prompt pins of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import (
    InputUnavailable,
    RagstreamError,
    RunCommand,
    SetVariable,
    TryAgain,
    UnknownSetting,
    worded,
)
from ragstream_core.platform import extras
from ragstream_core.prompts.inputs import pinned_settings
from ragstream_core.proposers.graph import GRAPH, database_of
from ragstream_core.proposers.inverted_lists import LISTS
from ragstream_core.proposers.kept import STORES
from ragstream_core.proposers.plain import CATALOG, VECTOR_STORES, FilledStore
from ragstream_core.wiring.models import model_name

if TYPE_CHECKING:
    from ragstream_core.ports import F32, IndexView
    from ragstream_core.proposers.derived_store import DerivedStore
    from ragstream_core.records.prompt_inputs import Pin, PromptInputs
    from ragstream_core.retrieval.proposers import I64, Proposer
    from ragstream_core.settings import ChainSettings
    from ragstream_core.settings.prompts import RetrievalConfig
    from ragstream_core.wiring.workspace import Workspace

# Stands for a project all of whose rows are scored.
NONE = "-"
LOG = logging.getLogger(__name__)


def require_store(workspace: Workspace, settings: ChainSettings) -> None:
    """Refuse a setting that names no vector store, before anything is begun."""
    store = settings.retrieval.store
    _require_own(workspace, store)
    VECTOR_STORES.check(store)
    if store == GRAPH.name:
        database_of(workspace)


def _require_own(workspace: Workspace, store: str) -> None:
    """Refuse an import path that a run, a record or a call names: loading it runs its code."""
    is_path = ":" in store or "." in store
    known = store in VECTOR_STORES.names()
    if is_path and not known and store != workspace.config.chain().retrieval.store:
        raise UnknownSetting(
            f"the vector store {store!r} is code to be loaded, which no prompt and no run can name",
            hint=("set it in ragstream.yaml or by ", SetVariable.of("retrieval.store")),
        )


def _derived(chosen: RetrievalConfig) -> DerivedStore | None:
    """Return the store made from an index that the settings ask, if it is one of these."""
    if chosen.store == CATALOG:
        return LISTS if chosen.approximate_at else None
    return next((store for store in STORES if store.name == chosen.store), None)


def proposer(
    workspace: Workspace, settings: ChainSettings, inputs: PromptInputs | None = None
) -> Proposer | None:
    """Return what proposes dense candidates under these settings, None for all rows."""
    chosen = settings.retrieval
    if (store := _derived(chosen)) is not None:
        words = _words(inputs) if inputs is not None and _is_as_pinned(chosen, inputs) else None
        return None if words == {} else _Pinned(workspace, chosen, store, words)
    if chosen.store == CATALOG:
        return None
    _require_own(workspace, chosen.store)
    return FilledStore(workspace, chosen.store, model_name(workspace.config))


def _words(inputs: PromptInputs) -> dict[str, str]:
    """Return what a prompt pinned of each project's store, of those that have one."""
    return _decoded(inputs.models.get("store", ""), inputs.pins)[1]


def _is_as_pinned(chosen: RetrievalConfig, inputs: PromptInputs) -> bool:
    """Return whether a stage has the store that the prompt pinned; a changed one pins nothing."""
    then = pinned_settings(inputs).retrieval
    return (then.store, then.approximate_at) == (chosen.store, chosen.approximate_at)


def _encoded(store: str, words: Sequence[str]) -> str:
    """Return a pin as records and keys hold it: the store, then a word a project."""
    return " ".join([store, *(word or NONE for word in words)])


def _decoded(text: str, pins: Sequence[Pin]) -> tuple[str, dict[str, str]]:
    """Return the store of a pin, and the word of each project that has one."""
    store, *words = text.split() or [""]
    pairs = zip(pins, words, strict=False)
    return store, {pin.project: word for pin, word in pairs if word != NONE}


def pinned(workspace: Workspace, settings: ChainSettings, pins: Sequence[Pin]) -> dict[str, str]:
    """Return what of a store a prompt's candidates depend on, as entries of its inputs.

    What proposes is not a function of the rows alone: the prompt names it, or says why every row
    is scored. Exact stores need no name.
    """
    require_store(workspace, settings)
    if not pins:
        return {}  # conversations alone
    name = settings.retrieval.store
    if extra := extras.STORES.get(name, ""):
        extras.require(f"retrieval.store={name}", extra)
    store = _derived(settings.retrieval)
    if store is None:
        return {}
    found = store.pin(workspace, settings.retrieval, pins)
    notes = [
        f"every chunk of {pin.project} was scored: {reason}; "
        f"next: {worded((RunCommand('index check', pin.project),))}"
        for pin, (_, reason) in zip(pins, found, strict=True)
        if reason
    ]
    entries = {"store_note": "\n".join(notes)} if notes else {}
    if any(word for word, _ in found):
        entries["store"] = _encoded(store.name, [word for word, _ in found])
    return entries


def require_pinned(workspace: Workspace, text: str, pins: Sequence[Pin]) -> None:
    """Refuse to run a prompt again whose stores are no longer those that proposed for it."""
    name, words = _decoded(text, pins)
    store = next((store for store in STORES if store.name == name), None)
    if store is None and name:
        raise InputUnavailable(f"the vector store {name!r} that proposed the candidates is no more")
    for pin in pins:
        if store is not None and pin.project in words:
            store.require(workspace, pin, words[pin.project])


@dataclass(frozen=True, slots=True)
class _Pinned:
    """Proposes from a store of each project: of a prompt, from those that it names."""

    workspace: Workspace
    chosen: RetrievalConfig
    store: DerivedStore
    words: Mapping[str, str] | None

    def near(self, view: IndexView, queries: F32, n: int) -> list[I64] | None:
        from ragstream_core.index.view import CatalogView

        word = (self.words or {}).get(view.project, "")
        if view.project == HISTORY or not isinstance(view, CatalogView):
            return None
        if self.words is not None and not word:
            return None
        try:
            return self.store.near(self.workspace, self.chosen, view, word, queries, n)
        except InputUnavailable:
            if word:
                raise
        except (RagstreamError, OSError) as error:
            said = error.message if isinstance(error, RagstreamError) else str(error)
            if word:  # the key says what proposed: other rows would be another prompt
                raise InputUnavailable(
                    f"{self.store.what} of {view.project} that this prompt names cannot be asked: "
                    f"{said}",
                    hint=TryAgain(),
                ) from error
            LOG.warning(
                "%s of %s cannot be used, every row is scored: %s",
                self.store.what, view.project, said,
            )  # fmt: skip
        return None
