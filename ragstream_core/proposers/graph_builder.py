"""Sees to it that a graph of pgvector serves a generation: compared, found, or built.

A graph is built once and then never changed, so the question is only whether it still serves.
"""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.proposers import graph_receipt, graph_search, graph_tables
from ragstream_core.proposers.derived_store import note_recall, noted_recall
from ragstream_core.proposers.graph_receipt import GRAPHS, Receipt, measured_for
from ragstream_core.proposers.graph_search import ViewRows, share_found
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.index.view import CatalogView
    from ragstream_core.platform.postgres import Connection, Database
    from ragstream_core.proposers.graph_tables import Graph, Source

LATER_SHARE, LATER_ROWS = 20, 1_000
"""A graph serves while no more rows than a twentieth, or a thousand, came after it."""
_GONE_SHARE = 3
"""And while no more than a third of its rows are gone from the index."""


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
        graph_search.note_rows(db, self._view, found.name)
        return made, reason if made == "built" else ""

    def _serving(
        self, db: Connection, before: Receipt | None, *, verify: bool
    ) -> tuple[Receipt | None, str]:
        """Return the graph that serves the generation, and why the one before does not."""
        view, reason = self._view, graph_receipt.MISSING if before else ""
        graphs = graph_tables.find(db, view.project, view.embed_fp, view.vectors.shape[1])
        last = before.name if before else ""
        for graph in sorted(graphs, key=lambda graph: graph.name != last):
            if not graph_tables.seal(db, graph.name):
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
