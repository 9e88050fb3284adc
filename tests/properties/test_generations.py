"""Whatever the history of a folder, its index is that of the folder as it stands."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstream_core.index import derived
from ragstream_core.index.generation_rows import load_rows
from ragstream_core.index.schema import reading
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.records.identity import multiset_sum
from ragstream_core.text.bm25 import build_lexical

NAMES = st.sampled_from(["a.md", "b.md", "d/c.txt", "d/e.rst"])
TEXTS = st.sampled_from(
    ["", "one", "two", "# H\n\none\n\n# I\n\ntwo", "# H\n\none\n\n# I\n\nthree", "\udcff bad"]
)
STEPS = st.one_of(
    st.tuples(st.just("write"), NAMES, TEXTS),
    st.tuples(st.just("delete"), NAMES, st.just("")),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("touch"), NAMES, st.just("")),
)


def apply(bench, step, now):
    kind, name, other = step
    path = bench.docs / name
    if kind == "write":
        bench.write(name, other.encode("utf-8", "surrogateescape"))
    elif path.exists():
        if kind == "delete":
            path.unlink()
        elif kind == "rename":
            (bench.docs / other).parent.mkdir(exist_ok=True)
            path.replace(bench.docs / other)
        else:
            bench.write(name, path.read_bytes(), mtime=now)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rounds=st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=4),
    most_changed=st.sampled_from([0.0, 1.0, 9.0]),
    below=st.sampled_from([1, derived.WHOLE_BELOW]),
)
def test_any_history_ends_in_the_index_of_a_rebuild(make_bench, rounds, most_changed, below):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(derived, "MOST_CHANGED", most_changed)
        patch.setattr(derived, "WHOLE_BELOW", below)
        end_in_the_index_of_a_rebuild(make_bench(), rounds)


def end_in_the_index_of_a_rebuild(bench, rounds):
    known: set[str] = set()
    previous = None
    for n, steps in enumerate(rounds):
        for step in steps:
            apply(bench, step, 1000 + n)
        bench.embedder.seen.clear()
        stats = bench.run()
        view = bench.view()
        texts = {c.snippet for c in view.chunks(view.chunk_ids)}
        assert sorted(bench.embedder.seen) == sorted(texts - known)
        assert stats.chunks["embedded"] == len(texts - known)
        assert stats.chunks["live"] == len(view.chunk_ids)
        assert stats.committed == (view.digest != previous)
        with reading(bench.index) as db:
            built = build_lexical(derived.terms_of(db, bench.index, view.generation))
        assert view.lexical.packed() == built.packed()
        require_rows_of_the_catalog(bench, view)
        known |= texts
        previous = view.digest
    assert bench.health() == []
    fresh = bench.from_scratch().view()
    assert view.chunk_ids == fresh.chunk_ids
    assert view.digest == fresh.digest
    assert np.asarray(view.vectors).tobytes() == np.asarray(fresh.vectors).tobytes()
    assert view.lexical.packed() == fresh.lexical.packed()


def require_rows_of_the_catalog(bench, view):
    """Rows that are brought up from those sealed before are those that the catalog holds."""
    forget_views()
    kept = open_view(bench.index, project=bench.project, keep=True).loaded
    with reading(bench.index) as db:
        plain = load_rows(db, bench.index, view.pinned)
    assert (kept.chunk_ids, kept.paths) == (plain.chunk_ids, plain.paths)
    for name in ("places", "crcs", "vectors"):
        assert np.array_equal(getattr(kept, name), getattr(plain, name))


rows = st.lists(st.text(max_size=4))


@given(rows, rows, rows)
def test_the_row_sum_knows_no_order_and_no_history(kept, come_and_gone, more):
    base = multiset_sum(0, kept)
    assert multiset_sum(0, reversed(kept)) == base
    detour = multiset_sum(base, come_and_gone + more)
    assert multiset_sum(detour, [], removed=come_and_gone) == multiset_sum(0, kept + more)


@given(rows, rows)
def test_the_row_sum_tells_multisets_apart(left, right):
    assert (multiset_sum(0, left) == multiset_sum(0, right)) == (sorted(left) == sorted(right))
