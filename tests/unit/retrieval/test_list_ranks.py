"""Exact ranks below the lists: the same numbers as retrieval's, for every row of the pool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.retrieval.list_ranks import list_ranks
from ragstream_core.retrieval.retriever import Fusion, Retriever

WORDS = ("lock", "writer", "cosine", "budget", "token", "journal")


@pytest.fixture(scope="module")
def view(make_bench):
    bench = make_bench()
    for i in range(24):
        words = " ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 1 + i % 5 + 1))
        bench.write(f"f{i:02}.md", f"# File {i}\n\nIt says {words} and number {i}.\n")
    bench.run()
    return bench.view()


def placed(view, depth, pieces, **more):
    retriever = Retriever(HashedEmbedder(), Fusion(depth=depth, **more))
    whole = " ".join(pieces)
    hits = retriever.search([view], whole, pieces=pieces)
    found = list_ranks(retriever, [view], whole, pieces=pieces, wanted=set(view.chunk_ids))
    return hits, found


@given(
    depth=st.integers(1, 30),
    pieces=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
    weight=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_a_chunk_is_a_candidate_exactly_where_a_list_holds_it(view, depth, pieces, weight):
    hits, found = placed(view, depth, pieces, dense_weight=weight)
    assert set(found) == set(view.chunk_ids)
    listed = {i for i, places in found.items() if any(place.listed for place in places)}
    assert {hit.chunk_id for hit in hits} == listed
    scores = {hit.chunk_id: hit for hit in hits}
    for identifier, places in found.items():
        by_name = {place.signal: place for place in places}
        if identifier in scores and "dense" in by_name:
            assert by_name["dense"].score == scores[identifier].cosine
        if identifier in scores and "lexical" in by_name:
            assert by_name["lexical"].score == scores[identifier].bm25


@given(depth=st.integers(1, 30), pieces=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
def test_ranks_are_a_total_order_and_the_distance_ends_at_the_list(view, depth, pieces):
    _, found = placed(view, depth, pieces)
    for number, first in enumerate(next(iter(found.values()))):
        column = {i: places[number] for i, places in found.items()}
        ranked = sorted((p.rank, i) for i, p in column.items() if p.rank)
        assert [rank for rank, _ in ranked] == list(range(1, first.of + 1))
        expected = sorted((i for _, i in ranked), key=lambda i: (-column[i].score, i))
        assert [i for _, i in ranked] == expected
        for place in column.values():
            assert (place.distance == 0) == (place.listed or place.score >= place.last)
            missing = 0.0 if place.listed else max(0.0, place.last - place.score)
            assert place.distance == pytest.approx(missing, abs=1e-6)


def test_what_is_off_has_no_place_and_does_not_count(view):
    retriever = Retriever(HashedEmbedder(), Fusion(depth=3))
    first = view.chunk_ids[0]
    off = {f"{view.project}/{view.paths[0]}"}
    wanted = set(view.chunk_ids)
    found = list_ranks(retriever, [view], "lock", pieces=["lock"], wanted=wanted, off=off)
    assert first not in found
    counted = {p.of for places in found.values() for p in places if p.signal == "dense"}
    assert counted == {len(view.chunk_ids) - view.paths.count(view.paths[0])}
