"""Graphs of pgvector, connected to settings: which project has which, and how they stand.

Light to import: the path on which nothing changed asks `due` and must load no engine.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragstream_core.errors import (
    GenerationGone,
    ProjectLocked,
    RagstreamError,
    SetVariable,
    UnknownSetting,
    worded,
)
from ragstream_core.index.lock import check_hint, label
from ragstream_core.platform import extras
from ragstream_core.platform.disk import on_disk
from ragstream_core.platform.files import make_private_dir
from ragstream_core.platform.locks import FolderLock
from ragstream_core.proposers import pg_receipt
from ragstream_core.proposers.chroma import publisher
from ragstream_core.proposers.pg_receipt import GRAPHS, Receipt
from ragstream_core.records.identity import digest_of, sha256_hex

if TYPE_CHECKING:
    from ragstream_core.index.rows import Generation
    from ragstream_core.index.view import CatalogView
    from ragstream_core.platform.postgres import Connection, Database
    from ragstream_core.ports import PhaseProgress
    from ragstream_core.proposers.pg_graph import Graph, Source
    from ragstream_core.records.identity import Json
    from ragstream_core.settings.prompts import RetrievalConfig
    from ragstream_core.wiring.workspace import Workspace

STORE = "pgvector"
SETTING = "vector_store.url"
MISSING = "its graph is not in the database"
LATER_SHARE, LATER_ROWS = 20, 1_000
"""A graph serves while no more rows than a twentieth, or a thousand, came after it."""
_GONE_SHARE = 3
"""And while no more than a third of its rows are gone from the index."""


class GraphState(NamedTuple):
    """How the graph of a project stands, as its folder says; the database is not asked.

    Attributes:
        wanted: Whether the settings ask for one.
        generation: The generation it was last compared with; 0: there is none.
        built_of: The generation that it was made of.
        rows: Vectors in it.
        later: Rows of the index that came after it.
        ef_search: Rows that a search keeps in view.
        recall: Share of the exact nearest rows that are proposed, 0…1; None: not measured so.
        problem: Why questions score every row instead; empty if they do not.
        next: What makes it good.
    """

    wanted: bool = False
    generation: int = 0
    built_of: int = 0
    rows: int = 0
    later: int = 0
    ef_search: int = 0
    recall: float | None = None
    problem: str = ""
    next: str = ""

    @property
    def told(self) -> str:
        """What to know of it, for people; empty if a project needs none."""
        if not self.wanted:
            return ""
        if self.problem:
            return f"questions score every chunk: {self.problem}; next: {self.next}"
        share = "not measured yet" if self.recall is None else f"{self.recall:.1%}"
        beside = f", {self.later:,} newer chunks are scored beside it" if self.later else ""
        return (
            f"questions ask pgvector's graph of {self.rows:,} vectors (generation {self.built_of})"
            f"{beside}; share of the nearest chunks that are found: {share}"
        )

    def figures(self) -> dict[str, Json]:
        """Return what Dagster shows of it beside a generation; nothing if none is needed."""
        if not self.wanted:
            return {}
        return {
            "pgvector_rows": self.rows,
            "pgvector_ef_search": self.ef_search,
            "pgvector_recall": "-" if self.recall is None else self.recall,
            "pgvector_state": self.told,
        }


class GraphOutcome(NamedTuple):
    """What `keep_up` did.

    Attributes:
        made: ``unchanged``, ``built``, ``found``, or empty if it left everything alone.
        reason: Why a graph that was there was built anew.
        warning: What went wrong, and what to run; empty if nothing did.
    """

    made: str = ""
    reason: str = ""
    warning: str = ""


def database_of(workspace: Workspace) -> Database:
    """Return the database of the graphs; nobody is contacted.

    Raises:
        UnknownSetting: The setting is empty or no address.
    """
    from ragstream_core.platform.postgres import database_at

    url = workspace.config.settings.vector_store.url.get_secret_value()
    if not url:
        raise UnknownSetting(
            f"retrieval.store={STORE} needs {SETTING}, the address of a PostgreSQL database",
            hint=(SetVariable("RAGSTREAM_VECTOR_STORE__URL"), " to postgresql://USER@HOST/NAME"),
        )
    return database_at(url, setting=SETTING)


def _asked(workspace: Workspace) -> RetrievalConfig:
    return workspace.config.chain().retrieval


def _wanted(workspace: Workspace, newest: Generation | None) -> bool:
    if newest is None or _asked(workspace).store != STORE:
        return False
    return newest.counts.get("chunks", 0) > 0


def due(workspace: Workspace, project: str, newest: Generation) -> bool:
    """Say whether a graph that is wanted is to be compared with a generation; reads small files."""
    if not _wanted(workspace, newest):
        return False
    found = pg_receipt.read(workspace.index_dir(project))
    noted = pg_receipt.has_rows(workspace.index_dir(project), newest.digest)
    if found is not None and found.digest == newest.digest and noted:
        return False
    return _failed(workspace, project, newest) is None


def _failed(
    workspace: Workspace, project: str, newest: Generation
) -> publisher.FailedAttempt | None:
    index_dir = workspace.index_dir(project)
    found = publisher.noted(index_dir / GRAPHS)
    if found is None or found.key != _key(newest):
        return None
    return found


def _key(newest: Generation) -> str:
    return digest_of([newest.n, newest.digest])


def failures(workspace: Workspace, project: str, newest: Generation | None) -> tuple[str, ...]:
    """Return the warning of a graph that could not be made for a generation, if any."""
    if newest is None or not _wanted(workspace, newest):
        return ()
    failed = _failed(workspace, project, newest)
    return (_warning(failed.error),) if failed else ()


def _warning(error: RagstreamError) -> str:
    return (
        "pgvector's graph was not brought up to date, so questions may score every row: "
        f"{error.message}\n  next: {error.hint}"
    )


def keep_up(
    workspace: Workspace,
    project: str,
    *,
    rebuild: bool = False,
    verify: bool = False,
    again: bool = False,
    progress: PhaseProgress | None = None,
) -> GraphOutcome:
    """See to it that a graph serves the newest generation; a failure harms nothing else.

    A failure is not repeated before the generation changes.

    Args:
        workspace: The data root.
        project: A project's name.
        rebuild: Build a new one whatever there is.
        verify: Compare every vector in it with the index.
        again: Try even if it failed for this generation already.
        progress: Called with (``graph``, 0, 0) if there is something to do.
    """
    from ragstream_core.index.view import open_view

    if _asked(workspace).store != STORE:
        return GraphOutcome()
    index_dir = workspace.index_dir(project)
    try:
        view = open_view(index_dir)
        if not len(view.chunk_ids):
            return GraphOutcome()
        failed = None if again or rebuild else _failed(workspace, project, view.pinned)
        if failed is not None:
            return GraphOutcome(warning=_warning(failed.error))
        if progress is not None:
            progress("graph", 0, 0)
        with _noting(index_dir, view.pinned), _locked(index_dir):
            # again: what was erased before the lock was ours must not come back
            return _Keeper(workspace, open_view(index_dir)).run(rebuild=rebuild, verify=verify)
    except GenerationGone:
        return GraphOutcome()
    except RagstreamError as error:
        return GraphOutcome(warning=_warning(error))


@contextlib.contextmanager
def _locked(index_dir: Path) -> Iterator[None]:
    """Hold the lock of a project's graph: `forget` drops a graph under it."""
    folder = index_dir / GRAPHS
    lock = FolderLock(folder, f"pgvector's graph of {label(index_dir)}")
    with on_disk(folder), contextlib.closing(lock):
        make_private_dir(folder)
        with lock.held():
            yield


@contextlib.contextmanager
def _noting(index_dir: Path, newest: Generation) -> Iterator[None]:
    folder = index_dir / GRAPHS
    try:
        yield
    except ProjectLocked:  # another process sees to it: the next ingest looks again
        raise
    except RagstreamError as error:
        again = check_hint(index_dir)
        error.advice = (*error.advice, "; then ", again) if error.advice else (again,)
        with contextlib.suppress(OSError):
            make_private_dir(folder)
            publisher.note(folder, _key(newest), newest.n, error=error)
        raise
    with contextlib.suppress(OSError):
        publisher.forget(folder)


class _Keeper:
    """Compares the graph of one index with a generation, and builds one if none serves it."""

    def __init__(self, workspace: Workspace, view: CatalogView) -> None:
        extras.require(f"retrieval.store={STORE}", extras.STORES[STORE])
        self._view, self._index_dir = view, view.index_dir
        self._chosen, self._database = _asked(workspace), database_of(workspace)

    def run(self, *, rebuild: bool, verify: bool) -> GraphOutcome:
        if not len(self._view.chunk_ids):
            return GraphOutcome()
        with self._database.connect() as db, self._database.errors():
            return self._kept_up(db, rebuild=rebuild, verify=verify)

    def _kept_up(self, db: Connection, *, rebuild: bool, verify: bool) -> GraphOutcome:
        from ragstream_core.proposers import pg_graph, pg_search

        pg_graph.require_extension(db, self._database)
        pg_graph.TABLES.ensure(db, self._database)
        before = pg_receipt.read(self._index_dir)
        found, reason = self._serving(db, before, verify=verify)
        made = "unchanged" if before and found and found.name == before.name else "found"
        ours = pg_receipt.made_here(self._index_dir, before)
        if found is None or rebuild:
            reason = "asked for" if rebuild and found else reason
            source = self._source()
            name = pg_graph.table_name(source.project, source.generation)
            ours.add(name)
            pg_receipt.note_made(self._index_dir, ours)  # a kill must not leave a table unknown
            found, made = self._compared(db, pg_graph.build(db, source, name)), "built"
        former = sorted(ours - {found.name})
        pg_receipt.write(self._index_dir, replace(found, former=tuple(former)))
        if former:
            pg_graph.drop(db, former)
            pg_receipt.write(self._index_dir, found)
        pg_receipt.note_made(self._index_dir, ())
        self._measure(db, found)
        pg_search.note_rows(db, self._view, found.name)
        return GraphOutcome(made, reason if made == "built" else "", self._elsewhere(before))

    def _elsewhere(self, before: Receipt | None) -> str:
        """Return what is left in the database that was named before; empty if it is this one."""
        if before is None or not before.mine or before.place == self._database.shown:
            return ""
        return (
            f"{SETTING} names another database now: the vectors of {self._view.project} are still "
            f"in {before.place}\n  next: DROP TABLE {before.name} there"
        )

    def _serving(
        self, db: Connection, before: Receipt | None, *, verify: bool
    ) -> tuple[Receipt | None, str]:
        """Return the graph that serves the generation, and why the one before does not."""
        from ragstream_core.proposers import pg_graph

        view, reason = self._view, MISSING if before else ""
        graphs = pg_graph.find(db, view.project, view.embed_fp, view.vectors.shape[1])
        last = before.name if before else ""
        for graph in sorted(graphs, key=lambda graph: graph.name != last):
            if not pg_graph.seal(db, graph.name):
                continue
            found = self._compared(db, graph)
            why = self._unfit(db, found, verify=verify)
            if not why:
                return found, ""
            reason = why if graph.name == last else reason
        return None, reason

    def _compared(self, db: Connection, graph: Graph) -> Receipt:
        from ragstream_core.proposers import pg_graph
        from ragstream_core.proposers.pg_search import ViewRows

        view, held = self._view, pg_graph.names_in(db, graph.name)
        rows, ours = ViewRows.of(view), pg_receipt.made_here(self._index_dir)
        return Receipt(
            graph.name, self._database.shown, view.embed_fp, view.digest, view.generation,
            graph.generation, len(held), int(rows.later(held).sum()),
            len(held) - rows.shared(held),
            graph.name in ours or graph.maker == _maker(self._index_dir),  # hosts change names
        )  # fmt: skip

    def _unfit(self, db: Connection, found: Receipt, *, verify: bool) -> str:
        from ragstream_core.proposers import pg_graph
        from ragstream_core.proposers.pg_search import ViewRows

        if found.later > max(LATER_ROWS, len(self._view.chunk_ids) // LATER_SHARE):
            return f"{found.later:,} chunks came after it"
        if found.gone * _GONE_SHARE > found.rows:
            return f"{found.gone:,} of its {found.rows:,} vectors are gone from the index"
        if verify:
            rows = ViewRows(pg_graph.names_of(self._view.vectors))  # not as anything notes them
            args = (rows.names, self._view.vectors, rows.firsts)
            if wrong := pg_graph.differing(db, found.name, *args):
                return f"{wrong:,} of its vectors were not those of the index"
        return ""

    def _source(self) -> Source:
        from ragstream_core.proposers import pg_graph
        from ragstream_core.proposers.pg_search import ViewRows

        view, rows = self._view, ViewRows.of(self._view)
        return pg_graph.Source(
            view.project, view.generation, view.digest, view.embed_fp, _maker(self._index_dir),
            rows.names, view.vectors, rows.firsts,
        )  # fmt: skip

    def _measure(self, db: Connection, found: Receipt) -> None:
        """Note the recall for these settings, unless it is noted already."""
        from ragstream_core.proposers.pg_search import share_found

        asked = {"depth": self._chosen.depth, "ef": self._chosen.ef_search}
        if pg_receipt.recall(self._index_dir, found, **asked) is None:
            share = share_found(db, self._view, found.name, **asked)
            pg_receipt.note_recall(self._index_dir, found, share, **asked)


def _maker(index_dir: Path) -> str:
    return sha256_hex(f"{socket.gethostname()} {index_dir.resolve()}")[:16]


def state(workspace: Workspace, project: str, newest: Generation | None) -> GraphState:
    """Return how a project's graph stands; reads small files.

    Args:
        workspace: The data root.
        project: Its name.
        newest: The newest generation, None if nothing is ingested.
    """
    if newest is None or not _wanted(workspace, newest):
        return GraphState()
    chosen, index_dir = _asked(workspace), workspace.index_dir(project)
    found, failed = pg_receipt.read(index_dir), _failed(workspace, project, newest)
    again = worded((check_hint(index_dir),))
    if failed is not None:
        return GraphState(True, problem=failed.message, next=failed.hint)
    if found is None or found.embed_fp != newest.embed_fp:
        return GraphState(True, problem="no graph was made for it yet", next=again)
    recall = pg_receipt.recall(index_dir, found, depth=chosen.depth, ef=chosen.ef_search)
    return GraphState(
        True, found.generation, found.built_of, found.rows, found.later, chosen.ef_search, recall
    )
