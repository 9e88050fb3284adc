"""Graphs of pgvector: which project has one, how it is made and stands, what it proposes.

Light to import: the path on which nothing changed asks whether one is due.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import (
    InputUnavailable,
    OperationFailed,
    SetVariable,
    StoreFailed,
    TryAgain,
    UnknownSetting,
    worded,
)
from ragstream_core.index.schema import check_hint
from ragstream_core.platform import extras
from ragstream_core.platform.locks import FolderLock
from ragstream_core.proposers import graph_receipt
from ragstream_core.proposers.derived_store import (
    DerivedStore,
    FailedAttempt,
    How,
    Outcome,
    StoreState,
    noted_recall,
    proposer_state,
    recall_words,
    replaced,
)
from ragstream_core.proposers.graph_receipt import GRAPHS, Receipt, measured_for

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.index.view import CatalogView
    from ragstream_core.platform.postgres import Connection, Database
    from ragstream_core.ports import F32
    from ragstream_core.proposers.graph_tables import I64
    from ragstream_core.records.identity import Json
    from ragstream_core.records.prompt_inputs import Pin
    from ragstream_core.settings.prompts import RetrievalConfig
    from ragstream_core.wiring.workspace import Workspace

STORE = "pgvector"
SETTING = "vector_store.url"
FIGURES = {
    "pgvector_rows": "rows", "pgvector_ef_search": "ef_search", "pgvector_recall": "recall",
    "pgvector_state": "sentence",
}  # fmt: skip
NOT_MADE = "no graph was made for it yet"
UNREACHABLE = "the database of pgvector's graph cannot be asked"

# How long an erasure waits for a process that makes a graph.
BUILDING_S = 10.0


def database_of(workspace: Workspace) -> Database:
    """Return the database of the graphs; nobody is contacted."""
    url = workspace.config.settings.vector_store.url.get_secret_value()
    if not url:
        raise UnknownSetting(
            f"retrieval.store={STORE} needs {SETTING}, the address of a PostgreSQL database",
            hint=(SetVariable.of(SETTING), " to postgresql://USER@HOST/NAME"),
        )
    from ragstream_core.platform.postgres import database_at

    return database_at(url, setting=SETTING)


Answer = TypeVar("Answer")


class PgvectorGraphs(DerivedStore):
    """The graphs of projects as a `ragstream_core.proposers.derived_store.DerivedStore`."""

    name = report = STORE
    check, what, healed = "graph", "pgvector's graph", "the graph of pgvector"

    def why_unwanted(self, workspace: Workspace, project: str, chunks: int) -> str:
        """Return why a project has none: another store is chosen, or there is nothing in it."""
        if project == HISTORY or not chunks or not self.is_asked(workspace):
            return f"retrieval.store is not {STORE}"
        return ""

    def is_asked(self, workspace: Workspace) -> bool:
        """Return whether prompts ask it."""
        return workspace.config.chain().retrieval.store == STORE

    def folder(self, workspace: Workspace, project: str) -> Path:
        """Return the folder of the notes on it."""
        return workspace.index_dir(project) / GRAPHS

    def is_current(self, workspace: Workspace, project: str, newest: Generation) -> bool:
        """Return whether it was compared with a generation, and that one's rows are noted."""
        index_dir = workspace.index_dir(project)
        receipt = graph_receipt.read(index_dir)
        compared = receipt is not None and receipt.digest == newest.digest
        return compared and graph_receipt.has_rows(index_dir, newest.digest)

    def make(self, workspace: Workspace, project: str, how: How) -> Outcome:
        """See to it that a graph serves the newest generation."""
        from ragstream_core.index.view import open_view
        from ragstream_core.proposers.graph_index import GraphBuilder

        index_dir, chosen = workspace.index_dir(project), workspace.config.chain().retrieval
        extras.require(f"retrieval.store={STORE}", extras.STORES[STORE])
        database = database_of(workspace)
        with _lock(
            index_dir, project
        ).held():  # opened under it: what was erased before must not come back
            view, before = open_view(index_dir), graph_receipt.read(index_dir)
            if not len(view.chunk_ids):
                return Outcome(self)
            builder = GraphBuilder(database, view, depth=chosen.depth, ef=chosen.ef_search)
            made, reason = builder.run(rebuild=how.rebuild, verify=how.verify or how.again)
        done = Outcome(self, made, reason, is_repaired=bool(reason))
        if before is None or not before.mine or before.place == database.shown:
            return done
        return replace(
            done,
            problem=f"{SETTING} names another database now: the vectors of {project} are still "
            f"in {before.place}",
            next=f"DROP TABLE {before.name} there",
        )

    def failure(self, _: str) -> str:
        """Return what a failure means for questions."""
        return "pgvector's graph was not brought up to date, so questions may score every row"

    def state(
        self,
        workspace: Workspace,
        project: str,
        newest: Generation | None,
        failed: FailedAttempt | None,
    ) -> StoreState:
        """Return how it stands; reads small files, the database is not asked."""
        own: dict[str, Json] = {
            "wanted": False, "generation": 0, "built_of": 0, "rows": 0, "later": 0,
            "ef_search": 0, "recall": None,
        }  # fmt: skip
        if newest is None or self.why_unwanted(workspace, project, newest.counts.get("chunks", 0)):
            return StoreState(own)
        own["wanted"] = True
        if failed is not None:
            return proposer_state(own, FIGURES, "", failed.message, failed.hint)
        index_dir, chosen = workspace.index_dir(project), workspace.config.chain().retrieval
        receipt = graph_receipt.read(index_dir)
        if receipt is None or receipt.embed_fp != newest.embed_fp:
            return proposer_state(own, FIGURES, "", NOT_MADE, worded((check_hint(index_dir),)))
        stamp = measured_for(receipt, depth=chosen.depth, ef=chosen.ef_search)
        share = noted_recall(index_dir / GRAPHS, stamp)
        own |= {
            name: getattr(receipt, name) for name in ("generation", "built_of", "rows", "later")
        }
        own |= {"ef_search": chosen.ef_search, "recall": share}
        later = receipt.later
        beside = f", {later:,} newer chunks are scored beside it" if later else ""
        sentence = (
            f"questions ask pgvector's graph of {receipt.rows:,} vectors "
            f"(generation {receipt.built_of}){beside}; "
            f"share of the nearest chunks that are found: {recall_words(share)}"
        )
        return proposer_state(own, FIGURES, sentence, "", "")

    def pin(
        self, workspace: Workspace, _: RetrievalConfig, pins: Sequence[Pin]
    ) -> list[tuple[str, str]]:
        """Return the seal of each project's graph, or why a project has none that can be asked."""
        words, away = list[tuple[str, str]](), False
        for pin in pins:
            receipt = graph_receipt.read(workspace.index_dir(pin.project))
            seal, reason = "", graph_receipt.MISSING
            if receipt is not None and receipt.embed_fp == pin.embed_fp:
                try:  # one question costs the time to connect: a second one would too
                    seal = "" if away else _seal(workspace, receipt)
                except OperationFailed:
                    away = True
                reason = UNREACHABLE if away else graph_receipt.MISSING
            words.append((seal, "" if seal else reason))
        return words

    def require(self, workspace: Workspace, pin: Pin, word: str) -> None:
        """Refuse a graph that was replaced, or cannot be asked."""
        receipt = graph_receipt.read(workspace.index_dir(pin.project))
        try:
            now = _seal(workspace, receipt) if receipt else ""
        except (OperationFailed, UnknownSetting) as error:
            raise InputUnavailable(
                f"pgvector's graph of {pin.project} that proposed the candidates cannot be asked: "
                f"{error.message}",
                hint=error.advice or TryAgain(),
            ) from error
        if now != word:
            raise replaced("pgvector's graph", pin.project, word, now)

    def near(
        self,
        workspace: Workspace,
        chosen: RetrievalConfig,
        view: CatalogView,
        word: str,
        queries: F32,
        n: int,
    ) -> list[I64] | None:
        """Return the rows that the graph names, and the best of those that came after it."""
        from ragstream_core.proposers.graph_index import GraphSearch

        receipt = graph_receipt.read(workspace.index_dir(view.project))
        if receipt is None or receipt.embed_fp != view.embed_fp:
            raise InputUnavailable(graph_receipt.MISSING, hint=TryAgain())

        def question(db: Connection) -> list[I64] | None:
            seal = word or graph_receipt.seal(db, receipt.name)
            search = GraphSearch(view, receipt.name, seal, chosen.ef_search)
            return search.rows_near(db, queries, n)

        return _ask(database_of(workspace), question)

    def drop(self, workspace: Workspace, project: str) -> None:
        """Remove the graphs that this machine made: their vectors are those of the texts."""
        index_dir = workspace.index_dir(project)
        if not (index_dir / GRAPHS).is_dir():  # who makes one from now on sees what is erased
            return
        with _lock(index_dir, project).held(wait_s=BUILDING_S):
            if graph_receipt.made_here(index_dir):
                _drop(workspace, project, index_dir)


GRAPH = PgvectorGraphs()


def _lock(index_dir: Path, project: str) -> FolderLock:
    """Return the lock of a project's graph: an erasure drops a graph under it."""
    return FolderLock(index_dir / GRAPHS, f"pgvector's graph of {project}")


def _ask(database: Database, question: Callable[[Connection], Answer]) -> Answer:
    from ragstream_core.platform.postgres import sessions  # an ingest without a graph needs none

    return sessions(database).ask(question)


def _seal(workspace: Workspace, receipt: Receipt) -> str:
    question = functools.partial(graph_receipt.seal, name=receipt.name)
    return _ask(database_of(workspace), question)


def _drop(workspace: Workspace, project: str, index_dir: Path) -> None:
    from ragstream_core.proposers import graph_tables

    receipt, names = graph_receipt.read(index_dir), graph_receipt.made_here(index_dir)

    def question(db: Connection) -> None:
        if receipt is not None and receipt.mine and receipt.place != database.shown:
            _require_here(db, database, receipt.name)
        graph_tables.drop(db, names)

    place, tables = receipt.place if receipt else SETTING, ", ".join(sorted(names))
    try:
        database = database_of(workspace)
        _ask(database, question)
    except (OperationFailed, UnknownSetting) as error:
        raise StoreFailed(
            f"the vectors of {project} are still in {place} (tables {tables}): {error.message}",
            hint=(*error.advice, ", or drop the tables there and remove ", str(GRAPHS), " in ",
                  str(index_dir)),
        ) from error  # fmt: skip


def _require_here(db: Connection, database: Database, name: str) -> None:
    if not graph_receipt.seal(db, name):
        raise StoreFailed(
            f"{SETTING} names {database.shown} now, and they are not there",
            hint=f"name the database of before in {SETTING} and run this again",
        )
