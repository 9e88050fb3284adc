"""Graphs of pgvector: what they hold, what a search proposes, what tells one from another."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.errors import InputUnavailable, StoreFailed
from ragstream_core.platform.postgres import database_at
from ragstream_core.proposers import graph_tables
from ragstream_core.proposers.graph_index import GraphSearch, ViewRows

DIMENSION = 12


class View(SimpleNamespace):
    """As much of a generation as a search looks at; equal only to itself."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


@pytest.fixture(scope="module")
def db(postgres):
    url = postgres.create("graphs")
    database = database_at(url, setting="vector_store.url")
    with database.connect() as made:
        graph_tables.require_extension(made, database)
        graph_tables.TABLES.ensure(made, database)
        yield made
    postgres.drop("graphs")


def unit(n, seed=0):
    raw = np.random.default_rng(seed).standard_normal((n, DIMENSION))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


POOL = unit(60)


def view_of(numbers):
    rows = POOL[list(numbers)]
    ids = [f"{i:03}" for i in range(len(rows))]
    nowhere = Path("/nothing/is/noted/here")
    return View(project="demo", vectors=rows, chunk_ids=ids, index_dir=nowhere, digest="d" * 64)


def built(db, view, name="demo"):
    rows = ViewRows.of(view)
    given = (rows.names, view.vectors, rows.firsts)
    source = graph_tables.Source(name, 1, "d" * 64, "e" * 64, "me", *given)
    return graph_tables.build(db, source, graph_tables.table_name(name, 1))


@settings(max_examples=12)
@given(
    held=st.lists(st.integers(0, 59), min_size=1, max_size=60),
    seen=st.lists(st.integers(0, 59), min_size=1, max_size=60),
    n=st.integers(1, 20),
)
def test_whatever_a_graph_was_made_of_the_nearest_rows_are_proposed(db, held, seen, n):
    """With all rows in view, whichever of them the graph holds, twice or not at all."""
    graph, view = built(db, view_of(held)), view_of(seen)
    queries = unit(3, seed=n)
    search = GraphSearch(view, graph.name, graph_tables.seal(db, graph.name), 1000)
    wanted = min(n, len(seen))
    for query, found in zip(queries, search.rows_near(db, queries, n), strict=True):
        scores = view.vectors @ query
        least = np.sort(scores)[-wanted]
        clear = np.flatnonzero(scores > least + 2e-3)  # halves cannot tell closer ones apart
        assert set(clear.tolist()) <= set(found.tolist())
        assert len(found) >= wanted or set(found.tolist()) <= set(range(len(seen)))
    graph_tables.drop(db, [graph.name])


def test_what_is_in_it_is_what_was_put_there(db):
    view = view_of([*range(40), 3, 3, 7])
    rows, graph = ViewRows.of(view), built(db, view_of(range(40)), "Größe & more / 1")
    assert graph.name.startswith("graph_gr_e_more_1_g1_") and graph.rows == 40
    assert np.array_equal(graph_tables.names_in(db, graph.name), rows.names)
    args = (rows.names, view.vectors, rows.firsts)
    assert graph_tables.differing(db, graph.name, *args) == 0
    turned = view.vectors.copy()
    turned[rows.firsts[5]] = -turned[rows.firsts[5]]
    assert graph_tables.differing(db, graph.name, rows.names, turned, rows.firsts) == 1
    db.execute(f"INSERT INTO {graph.name} SELECT * FROM {graph.name} LIMIT 2")
    assert graph_tables.differing(db, graph.name, *args) == 2
    assert sorted(rows.at(graph_tables.names_of(POOL[[3, 7]]))) == [3, 7, 40, 41, 42]


def test_another_graph_is_refused_and_one_that_is_gone_is_no_error(db):
    view = view_of(range(30))
    graph = built(db, view)
    before = graph_tables.seal(db, graph.name)
    db.execute(f"REINDEX INDEX {graph.name}_near")
    assert graph_tables.seal(db, graph.name) not in ("", before)
    with pytest.raises(InputUnavailable, match="replaced"):
        GraphSearch(view, graph.name, before, 40).rows_near(db, POOL[:1], 3)
    assert [g.name for g in graph_tables.find(db, "demo", "e" * 64, DIMENSION)] == [graph.name]
    graph_tables.drop(db, [graph.name, "graph_none", "robert; drop table ragstream_graphs"])
    assert graph_tables.seal(db, graph.name) == ""
    assert graph_tables.find(db, "demo", "e" * 64, DIMENSION) == []
    assert graph_tables.search(db, graph.name, before, POOL[:1], n=3, ef=40) is None


def test_too_many_dimensions_are_named(db):
    wide = np.ones((1, 4_001), dtype=np.float32)
    one = np.zeros(1, dtype=np.int64)
    source = graph_tables.Source("demo", 1, "d" * 64, "e" * 64, "me", one, wide, one)
    with pytest.raises(StoreFailed, match="up to 4,000 dimensions, these have 4,001"):
        graph_tables.build(db, source, graph_tables.table_name("demo", 1))
