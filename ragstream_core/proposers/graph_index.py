"""The graph of one index: compared, found or built for a generation, and asked for any of them.

A graph is built once and then never changed, so the question is only whether it still serves.
"""

from __future__ import annotations

import functools
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ragstream_core.errors import InputUnavailable, TryAgain
from ragstream_core.platform import array_file
from ragstream_core.platform.files import replace_bytes
from ragstream_core.proposers import graph_receipt, graph_tables
from ragstream_core.proposers.derived_store import note_recall, noted_recall
from ragstream_core.proposers.graph_receipt import GRAPHS, ROWS_FILE, Receipt, measured_for, seal
from ragstream_core.proposers.graph_tables import I64, MOST_ROWS, names_in, names_of, search
from ragstream_core.records.identity import sha256_hex
from ragstream_core.retrieval.rows import rows_of
from ragstream_core.retrieval.scoring import propose

if TYPE_CHECKING:
    from ragstream_core.index.view import CatalogView
    from ragstream_core.platform.array_file import Arrays
    from ragstream_core.platform.postgres import Connection, Database
    from ragstream_core.ports import F32
    from ragstream_core.proposers.graph_tables import Graph, Source


# A graph serves while no more rows than a twentieth, or a thousand, came after it.
LATER_SHARE, LATER_ROWS = 20, 1_000
# And while no more than a third of its rows are gone from the index.
_GONE_SHARE = 3
# Of a view, as its folder notes them: the name of each row, and the rows that its graph lacks.
_NOTED = {"every": "<i8", "later": "<i8"}


class ViewRows:
    """The rows of a view by the names of their vectors; equal vectors are one name.

    Attributes:
        every: The name of each vector.
        names: Names of all vectors, ascending, each once.
        firsts: The first row of each.
    """

    def __init__(self, every: I64) -> None:
        self.every = every
        self._order = np.argsort(self.every, kind="stable")
        self._sorted = self.every[self._order]
        fresh = np.ones(len(self._sorted), dtype=bool)
        fresh[1:] = self._sorted[1:] != self._sorted[:-1]
        self.names: I64 = self._sorted[fresh]
        self.firsts: I64 = self._order[fresh]

    @staticmethod
    def of(view: CatalogView) -> ViewRows:
        """Return the rows of a view, as its folder notes them or found once."""
        return _rows_of(view)

    def later(self, held: I64) -> npt.NDArray[np.bool_]:
        """Return which rows a graph of these names does not have."""
        return ~np.isin(self.every, held)

    def shared(self, held: I64) -> int:
        """Return how many of the names a graph holds are here."""
        return int(np.isin(held, self.names).sum())

    def at(self, wanted: I64) -> I64:
        """Return the rows of some names, in their order."""
        begins = np.searchsorted(self._sorted, wanted, "left")
        ends = np.searchsorted(self._sorted, wanted, "right")
        parts = [self._order[a:b] for a, b in zip(begins, ends, strict=True)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


@functools.lru_cache(maxsize=2)
def _rows_of(view: CatalogView) -> ViewRows:
    noted = _noted(view)
    return ViewRows(noted[1]["every"] if noted else names_of(view.vectors))


class GraphSearch:
    """Proposes rows of one view: those of the graph, and the best of those that came later."""

    def __init__(self, view: CatalogView, name: str, seal: str, ef: int) -> None:
        self._view, self._name, self._seal, self._ef = view, name, seal, ef

    def rows_near(self, db: Connection, queries: F32, n: int) -> list[I64] | None:
        """Return about ``n`` rows near each query, or None if all are to be scored."""
        rows, held = ViewRows.of(self._view), _held_by(self._view, self._name, self._seal)
        held.load(db)
        wanted = -(-2 * n * held.rows // max(1, held.shared))  # halves of vectors swap neighbours
        if wanted > MOST_ROWS:
            return None
        found = search(db, self._name, self._seal, queries, n=wanted, ef=self._ef)
        if found is None:
            raise InputUnavailable(
                f"pgvector's graph of {self._view.project} was replaced meanwhile", hint=TryAgain()
            )
        beside = self._view.vectors[held.later] @ queries.T
        return [
            np.concatenate([rows.at(names), held.later[propose(scores, n)]])
            for names, scores in zip(found, beside.T, strict=True)
        ]


class _Held:
    """What a sealed graph holds of a view; read from the database once."""

    def __init__(self, view: CatalogView, name: str, seal: str) -> None:
        self._view, self._name = view, name
        self.rows, self.shared = 0, 0
        self.later: I64 = np.zeros(0, dtype=np.int64)
        graph, arrays = _noted(view) or ({}, {})
        if (graph.get("name"), graph.get("graph")) == (name, seal):
            self.rows, self.shared, self.later = graph["rows"], graph["shared"], arrays["later"]

    def load(self, db: Connection) -> None:
        if self.rows:
            return
        names, rows = names_in(db, self._name), ViewRows.of(self._view)
        self.later, self.shared = np.flatnonzero(rows.later(names)), rows.shared(names)
        self.rows = len(names)


@functools.lru_cache(maxsize=4)
def _held_by(view: CatalogView, name: str, seal: str) -> _Held:
    return _Held(view, name, seal)


def note_rows(db: Connection, view: CatalogView, name: str) -> None:
    """Note in the folder of the index what a question would find out first."""
    sealed = seal(db, name)
    held, every = _held_by(view, name, sealed), ViewRows.of(view).every
    held.load(db)
    graph = {"name": name, "graph": sealed, "rows": held.rows, "shared": held.shared}
    arrays = {"every": every.astype("<i8"), "later": held.later.astype("<i8")}
    noted = array_file.encode({"digest": view.digest, **graph}, arrays)
    replace_bytes(view.index_dir / ROWS_FILE, noted)


def _noted(view: CatalogView) -> tuple[dict[str, Any], Arrays] | None:
    """Return what is noted of a view and the graph that serves it; None if it is not whole."""
    try:
        data = (view.index_dir / ROWS_FILE).read_bytes()
        graph, arrays = array_file.decode(data, _NOTED, {"digest": view.digest})
    except (OSError, ValueError):
        return None
    return (graph, arrays) if len(arrays["every"]) == len(view.chunk_ids) else None


def share_found(
    db: Connection, view: CatalogView, name: str, *, depth: int, ef: int, sample: int = 64
) -> float:
    """Return which share of the exact nearest rows of some rows is proposed, 0…1."""
    total = len(view.chunk_ids)
    asking = np.unique(np.linspace(0, total - 1, min(sample, total)).astype(np.int64))
    wanted, hits = min(depth, total), 0
    named = GraphSearch(view, name, seal(db, name), ef).rows_near(db, view.vectors[asking], wanted)
    if named is None:
        return 1.0  # so many are wanted that every row is scored
    rows, every = rows_of([view]), np.arange(total)
    for row, found in zip(asking, named, strict=True):
        near = rows.products(view.vectors[row : row + 1], every)[0]
        exact = np.argpartition(-near, wanted - 1)[:wanted]
        hits += len(np.intersect1d(exact, found))
    return hits / (wanted * len(asking))


class GraphBuilder:
    """Compares the graph of one index with a generation, and builds one if none serves it."""

    def __init__(self, database: Database, view: CatalogView, *, depth: int, ef: int) -> None:
        self._database, self._view, self._index_dir = database, view, view.index_dir
        self._depth, self._ef = depth, ef

    def run(self, *, rebuild: bool, verify: bool) -> tuple[str, str]:
        """Return ``unchanged``, ``found`` or ``built``, and why another one was not kept."""
        with self._database.connect() as db, self._database.errors():
            return self._kept_up(db, rebuild=rebuild, verify=verify)

    def _kept_up(self, db: Connection, *, rebuild: bool, verify: bool) -> tuple[str, str]:
        graph_tables.require_extension(db, self._database)
        graph_tables.TABLES.ensure(db, self._database)
        before = graph_receipt.read(self._index_dir)
        found, reason = self._serving(db, before, verify=verify)
        made = "unchanged" if before and found and found.name == before.name else "found"
        ours = graph_receipt.made_here(self._index_dir, before)
        if found is None or rebuild:
            reason = "asked for" if rebuild and found else reason
            source = self._source()
            name = graph_tables.table_name(source.project, source.generation)
            ours.add(name)
            graph_receipt.note_made(self._index_dir, ours)  # a kill must not leave a table unknown
            found, made = self._compared(db, graph_tables.build(db, source, name)), "built"
        former = sorted(ours - {found.name})
        graph_receipt.write(self._index_dir, replace(found, former=tuple(former)))
        if former:
            graph_tables.drop(db, former)
            graph_receipt.write(self._index_dir, found)
        graph_receipt.note_made(self._index_dir, ())
        self._measure(db, found)
        note_rows(db, self._view, found.name)
        return made, reason if made == "built" else ""

    def _serving(
        self, db: Connection, before: Receipt | None, *, verify: bool
    ) -> tuple[Receipt | None, str]:
        """Return the graph that serves the generation, and why the one before does not."""
        view, reason = self._view, graph_receipt.MISSING if before else ""
        graphs = graph_tables.find(db, view.project, view.embed_fp, view.vectors.shape[1])
        last = before.name if before else ""
        for graph in sorted(graphs, key=lambda graph: graph.name != last):
            if not seal(db, graph.name):
                continue
            found = self._compared(db, graph)
            why = self._unfit(db, found, verify=verify)
            if not why:
                return found, ""
            reason = why if graph.name == last else reason
        return None, reason

    def _compared(self, db: Connection, graph: Graph) -> Receipt:
        view, held = self._view, graph_tables.names_in(db, graph.name)
        rows, ours = ViewRows.of(view), graph_receipt.made_here(self._index_dir)
        return Receipt(
            graph.name, self._database.shown, view.embed_fp, view.digest, view.generation,
            graph.generation, len(held), int(rows.later(held).sum()),
            len(held) - rows.shared(held),
            graph.name in ours or graph.maker == _maker(self._index_dir),  # hosts change names
        )  # fmt: skip

    def _unfit(self, db: Connection, found: Receipt, *, verify: bool) -> str:
        if found.later > max(LATER_ROWS, len(self._view.chunk_ids) // LATER_SHARE):
            return f"{found.later:,} chunks came after it"
        if found.gone * _GONE_SHARE > found.rows:
            return f"{found.gone:,} of its {found.rows:,} vectors are gone from the index"
        if verify:
            rows = ViewRows(graph_tables.names_of(self._view.vectors))  # not as anything notes them
            args = (rows.names, self._view.vectors, rows.firsts)
            if wrong := graph_tables.differing(db, found.name, *args):
                return f"{wrong:,} of its vectors were not those of the index"
        return ""

    def _source(self) -> Source:
        view, rows = self._view, ViewRows.of(self._view)
        return graph_tables.Source(
            view.project, view.generation, view.digest, view.embed_fp, _maker(self._index_dir),
            rows.names, view.vectors, rows.firsts,
        )  # fmt: skip

    def _measure(self, db: Connection, found: Receipt) -> None:
        """Note the recall for these settings, unless it is noted already."""
        folder = self._index_dir / GRAPHS
        stamp = measured_for(found, depth=self._depth, ef=self._ef)
        if noted_recall(folder, stamp) is None:
            share = share_found(db, self._view, found.name, depth=self._depth, ef=self._ef)
            note_recall(folder, stamp, share)


def _maker(index_dir: Path) -> str:
    return sha256_hex(f"{socket.gethostname()} {index_dir.resolve()}")[:16]
