"""Neighbours: exactly those of the exact store, and anchors by chance that repeat."""

import numpy as np
import pytest

from ragstream_core.errors import UsageError
from ragstream_core.maps.neighbours import named_anchors, neighbours, random_anchors
from ragstream_core.proposers.plain import ExactStore


@pytest.fixture
def view(bench):
    words = ["lock", "index", "vector", "turn", "prompt", "budget", "gate", "answer"]
    rng = np.random.default_rng(0)
    for n in range(9):
        body = "\n\n".join(
            f"## Part {i}\n\n" + " ".join(rng.choice(words, 60).tolist()) for i in range(4)
        )
        bench.write(f"docs/f{n}.md", f"# File {n}\n\n{body}\n")
    bench.write("copy.md", (bench.docs / "docs" / "f0.md").read_bytes())
    bench.run()
    return bench.view()


def test_they_are_those_of_the_exact_store(view):
    store = ExactStore(view.vectors.shape[1])
    store.add(view.chunk_ids, view.vectors)
    anchors = random_anchors(view.chunk_ids, 12, seed=4)
    for anchor, found in zip(anchors, neighbours([view], anchors, k=5), strict=True):
        vector = view.vectors[list(view.chunk_ids).index(anchor)]
        ranked = store.search(vector, len(view.chunk_ids))
        wanted = [(i, score) for i, score in ranked if i != anchor]
        assert [tuple(n) for n in found] == wanted[:5]


def test_more_neighbours_than_there_are_gives_all_others(view):
    (found,) = neighbours([view], [view.chunk_ids[0]], k=1000)
    assert {n.chunk_id for n in found} == set(view.chunk_ids[1:])


def test_hidden_chunks_are_nobodys_neighbours(view):
    anchor, *others = view.chunk_ids
    hidden = frozenset(others[::2])
    (found,) = neighbours([view], [anchor], k=1000, hidden=hidden)
    assert {n.chunk_id for n in found} == set(others) - hidden


def test_an_equal_text_elsewhere_comes_first(view):
    (anchor,) = named_anchors([view], "copy.md#0", 5)
    (found,) = neighbours([view], [anchor], k=1)
    assert found[0].score == pytest.approx(1.0, abs=1e-6)
    assert found[0].chunk_id.startswith("docs/f0.md::")


def test_anchors_repeat_whatever_the_order(view):
    ids = list(view.chunk_ids)
    one = random_anchors(ids, 6, seed=2)
    assert one == random_anchors(ids[::-1], 6, seed=2) and len(set(one)) == 6
    assert one != random_anchors(ids, 6, seed=3)
    assert sorted(random_anchors(ids, 10_000, seed=0)) == sorted(ids)


def test_a_name_is_an_id_a_number_in_a_file_or_a_file(view):
    whole = [i for i in view.chunk_ids if i.startswith("docs/f3.md::")]
    assert sorted(named_anchors([view], "docs/f3.md", 100)) == sorted(whole)
    assert named_anchors([view], "demo/docs/f3.md", 1) == named_anchors([view], "docs/f3.md#0", 9)
    assert named_anchors([view], whole[-1], 3) == [whole[-1]]
    with pytest.raises(UsageError, match="no chunk or file"):
        named_anchors([view], "docs/f3.md#999", 3)
