"""What a prompt takes from pgvector's graphs: which ones it pins, and the rows they propose."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import (
    InputUnavailable,
    OperationFailed,
    RunCommand,
    TryAgain,
    UnknownSetting,
    worded,
)
from ragstream_core.proposers import pg_receipt
from ragstream_core.proposers.pgvector_graphs import MISSING, STORE, database_of

if TYPE_CHECKING:
    from ragstream_core.index.view import CatalogView
    from ragstream_core.platform.postgres import Connection
    from ragstream_core.ports import F32, IndexView
    from ragstream_core.proposers.pg_graph import I64
    from ragstream_core.records.prompt_inputs import Pin
    from ragstream_core.settings.prompts import RetrievalConfig
    from ragstream_core.wiring.workspace import Workspace

NONE = "-"
"""Stands for a project all of whose rows are scored, as in other stores."""
UNREACHABLE = "the database of pgvector's graph cannot be asked"


def pinned(workspace: Workspace, pins: Sequence[Pin]) -> dict[str, str]:
    """Return the seal of each project's graph, and why a project has none that can be asked.

    Raises:
        UnknownSetting: The database has no address.
    """
    from ragstream_core.platform.postgres import sessions
    from ragstream_core.proposers import pg_graph

    ask = sessions(database_of(workspace)).ask
    seals, notes, away = [], list[str](), False
    for pin in pins:
        found = pg_receipt.read(workspace.index_dir(pin.project))
        seal, reason = "", MISSING
        if found is not None and found.embed_fp == pin.embed_fp:
            try:  # one question costs the time to connect: a second one would too
                seal = "" if away else ask(functools.partial(pg_graph.seal, name=found.name))
            except OperationFailed:
                away = True
            reason = UNREACHABLE if away else MISSING  # the same words: a key holds them
        seals.append(seal or NONE)
        if not seal:
            again = worded((RunCommand("index check", pin.project),))
            notes.append(f"every chunk of {pin.project} was scored: {reason}; next: {again}")
    told = {"store_note": "\n".join(notes)} if notes else {}
    return told | ({"store": f"{STORE} {' '.join(seals)}"} if set(seals) != {NONE} else {})


def require_pinned(workspace: Workspace, store: str, pins: Sequence[Pin]) -> None:
    """Refuse to run a prompt again whose graphs are no longer those that proposed for it.

    Args:
        workspace: The data root.
        store: The entry that `pinned` made.
        pins: The prompt's projects.

    Raises:
        InputUnavailable: A graph was replaced, or cannot be asked.
    """
    from ragstream_core.platform.postgres import sessions
    from ragstream_core.proposers import pg_graph

    for pin, wanted in zip(pins, store.split()[1:], strict=False):
        if wanted == NONE:
            continue
        found = pg_receipt.read(workspace.index_dir(pin.project))
        try:
            ask = sessions(database_of(workspace)).ask
            now = ask(functools.partial(pg_graph.seal, name=found.name)) if found else ""
        except (OperationFailed, UnknownSetting) as error:
            raise InputUnavailable(
                f"pgvector's graph of {pin.project} that proposed the candidates cannot be asked: "
                f"{error.message}",
                hint=error.advice or TryAgain(),
            ) from error
        if now != wanted:
            raise InputUnavailable(
                f"pgvector's graph of {pin.project} that proposed the candidates was replaced "
                f"(seal {wanted}, now {now or 'none'})",
                hint="prompts of retrieval.store=catalog do not depend on a graph",
            )


class GraphProposer:
    """Proposes from pgvector's graphs, for projects that have one.

    Args:
        workspace: The data root.
        chosen: The settings of retrieval.
        seals: Project → seal that a prompt pinned; None: those of now.
    """

    def __init__(
        self, workspace: Workspace, chosen: RetrievalConfig, seals: dict[str, str] | None = None
    ) -> None:
        self._workspace, self._chosen, self._seals = workspace, chosen, seals

    def near(self, view: IndexView, queries: F32, n: int) -> list[list[str]] | None:
        """Return the rows near some queries; see `ragstream_core.retrieval.proposers.Proposer`.

        Raises:
            InputUnavailable: The graph that a prompt pinned is gone or cannot be asked.
        """
        from ragstream_core.index.view import CatalogView

        pinned_seal = (self._seals or {}).get(view.project, "")
        if view.project == HISTORY or not isinstance(view, CatalogView):
            return None
        if self._seals is not None and not pinned_seal:
            return None
        try:
            found = self._rows_near(view, pinned_seal, queries, n)
        except OperationFailed as error:
            if not pinned_seal:
                return None
            raise InputUnavailable(
                f"pgvector's graph of {view.project} that this prompt names cannot be asked: "
                f"{error.message}",
                hint=TryAgain(),
            ) from error
        if found is None:
            return None
        return [[view.chunk_ids[row] for row in rows.tolist()] for rows in found]

    def _rows_near(
        self, view: CatalogView, pinned_seal: str, queries: F32, n: int
    ) -> list[I64] | None:
        from ragstream_core.platform.postgres import sessions
        from ragstream_core.proposers import pg_graph
        from ragstream_core.proposers.pg_search import GraphSearch

        receipt = pg_receipt.read(self._workspace.index_dir(view.project))
        if receipt is None or receipt.embed_fp != view.embed_fp:
            raise InputUnavailable(MISSING, hint=TryAgain())

        def question(db: Connection) -> list[I64] | None:
            seal = pinned_seal or pg_graph.seal(db, receipt.name)
            search = GraphSearch(view, receipt.name, seal, self._chosen.ef_search)
            return search.rows_near(db, queries, n)

        return sessions(database_of(self._workspace)).ask(question)
