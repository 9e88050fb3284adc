"""Takes the vectors of a project out of PostgreSQL: its graphs, before its texts are erased."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import OperationFailed, StoreFailed, UnknownSetting
from ragstream_core.platform.locks import FolderLock
from ragstream_core.proposers import pg_receipt
from ragstream_core.proposers.pg_receipt import GRAPHS
from ragstream_core.proposers.pgvector_graphs import SETTING, database_of

if TYPE_CHECKING:
    from ragstream_core.platform.postgres import Connection, Database
    from ragstream_core.wiring.workspace import Workspace

BUILDING_S = 10.0
"""How long to wait for a process that makes a graph."""


def drop_graphs(workspace: Workspace, project: str) -> None:
    """Remove the graphs that this machine made of a project: their vectors are those of its texts.

    Raises:
        StoreFailed: The database cannot be asked, or is another one now: they are still there.
        ProjectLocked: Another process makes one.
        UnknownSetting: Its address is no longer set.
    """
    index_dir = workspace.index_dir(project)
    if not (index_dir / GRAPHS).is_dir():  # who makes a graph from now on sees what is erased
        return
    lock = FolderLock(index_dir / GRAPHS, f"pgvector's graph of {project}")
    with contextlib.closing(lock), lock.held(wait_s=BUILDING_S):
        if pg_receipt.made_here(index_dir):
            _drop(workspace, project, index_dir)


def _drop(workspace: Workspace, project: str, index_dir: Path) -> None:
    found, names = pg_receipt.read(index_dir), pg_receipt.made_here(index_dir)
    from ragstream_core.platform.postgres import sessions
    from ragstream_core.proposers import pg_graph

    def question(db: Connection) -> None:
        if found is not None and found.mine and found.place != database.shown:
            _require_here(db, database, found.name)
        pg_graph.drop(db, names)

    place, tables = found.place if found else SETTING, ", ".join(sorted(names))
    try:
        database = database_of(workspace)
        sessions(database).ask(question)
    except (OperationFailed, UnknownSetting) as error:
        raise StoreFailed(
            f"the vectors of {project} are still in {place} (tables {tables}): {error.message}",
            hint=(*error.advice, ", or drop the tables there and remove ", str(GRAPHS), " in ",
                  str(index_dir)),
        ) from error  # fmt: skip


def _require_here(db: Connection, database: Database, name: str) -> None:
    from ragstream_core.proposers import pg_graph

    if not pg_graph.seal(db, name):
        raise StoreFailed(
            f"{SETTING} names {database.shown} now, and they are not there",
            hint=f"name the database of before in {SETTING} and run this again",
        )
