from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from ragstream_core.errors import GenerationGone, IntegrityError
from ragstream_core.stores.view import forget_views


@pytest.fixture
def filled(bench):
    for n in range(6):
        bench.write(f"{n}.md", f"# Heading {n}\n\nbody words number {n}")
    bench.run()
    return bench


def execute(bench, statement, *values):
    db = sqlite3.connect(bench.index / "catalog.sqlite")
    db.execute(statement, values)
    db.commit()
    db.close()
    forget_views()


def test_rows_are_sorted_and_aligned(filled):
    view = filled.view()
    assert list(view.chunk_ids) == sorted(view.chunk_ids)
    chunks = view.chunks(view.chunk_ids)
    assert [c.id for c in chunks] == list(view.chunk_ids)
    assert [c.source for c in chunks] == list(view.paths)
    expected = filled.embedder.embed_documents([c.snippet for c in chunks])
    assert np.array_equal(view.vectors, expected)
    assert len(view.lexical.lengths) == len(chunks)
    with pytest.raises(ValueError):
        view.vectors[0] = 0


def test_chunks_come_in_the_order_asked_for_and_unknown_ids_raise(filled):
    view = filled.view()
    wanted = [view.chunk_ids[3], view.chunk_ids[0], view.chunk_ids[3]]
    assert [c.id for c in view.chunks(wanted)] == wanted
    assert view.chunks([]) == []
    with pytest.raises(KeyError):
        view.chunks(["nothing"])


def test_a_view_stays_at_its_generation(filled):
    old = filled.view()
    before = old.vectors.copy()
    filled.write("0.md", "other words")
    filled.run()
    assert filled.view().generation == 2
    assert np.array_equal(old.vectors, before)
    assert old.chunks(old.chunk_ids)[0].snippet.startswith("# Heading 0")
    assert filled.fresh_view(1).digest == old.digest


def test_views_are_shared_within_the_process(filled):
    assert filled.view() is filled.view(1)


def test_a_dropped_generation_says_so(filled):
    pinned = filled.view()
    filled.write("0.md", "other words")
    filled.run(delete_replaced=True)
    forget_views()
    for ask in (lambda: filled.view(1), lambda: pinned.chunks(pinned.chunk_ids)):
        with pytest.raises(GenerationGone) as caught:
            ask()
        assert "1" in caught.value.message
    with pytest.raises(GenerationGone):
        filled.view(99)


def test_no_index_is_no_generation(bench):
    with pytest.raises(GenerationGone, match="no generation yet"):
        bench.view()
    assert not bench.index.exists()


def test_lexical_arrays_are_equal_published_rebuilt_and_after_damage(filled):
    published = filled.view().lexical.to_bytes()
    path = filled.index / "lexical-latest" / "arrays.bin"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    assert filled.fresh_view().lexical.to_bytes() == published
    path.unlink()
    assert filled.fresh_view().lexical.to_bytes() == published


def test_headings_are_part_of_the_lexical_text(filled):
    from ragstream_core.lexical import bm25_scores, terms

    filled.write("0.md", "# Zebra\n\n" + "filler words " * 300 + "\n\nending")
    filled.run()
    view = filled.view()
    (scores,) = bm25_scores([view.lexical], terms("zebra"))
    assert [view.paths[i] for i in np.flatnonzero(scores)].count("0.md") >= 2


def test_a_changed_text_is_found_when_it_is_read(filled):
    execute(filled, "UPDATE texts SET text = text || '!'")
    view = filled.view()
    with pytest.raises(IntegrityError):
        view.chunks(view.chunk_ids[:1])
    assert {f.check for f in filled.health()} == {"texts"}
    filled.run(rebuild=True)
    assert filled.health() == []


def test_changed_terms_are_found_when_they_are_used(filled):
    execute(filled, "UPDATE texts SET terms = x'00000000'")
    (filled.index / "lexical-latest" / "arrays.bin").unlink()
    with pytest.raises(IntegrityError):
        _ = filled.view().lexical


def test_arrays_of_another_generation_are_not_taken(filled):
    before = filled.view().lexical.to_bytes()
    filled.write("0.md", "# Other 0\n\nquite different terms")
    filled.run()
    assert filled.fresh_view(1).lexical.to_bytes() == before
    assert filled.view(2).lexical.to_bytes() != before
