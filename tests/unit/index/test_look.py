"""Generations listed, compared and kept: what the folder was like then."""

import pytest

from ragstream_core.errors import GenerationGone
from ragstream_core.index import remove
from ragstream_core.index.catalog import open_catalog
from ragstream_core.index.look import compare, kept_generations


@pytest.fixture
def grown(bench):
    """Three generations: a, b, c → a changed, b gone, d new → c gone."""
    for name in "abc":
        bench.write(f"{name}.md", f"text of {name}")
    bench.run()
    bench.write("a.md", "another text of a")
    (bench.docs / "b.md").unlink()
    bench.write("d.md", "text of d")
    bench.run()
    (bench.docs / "c.md").unlink()
    bench.run()
    return bench


def test_generations_are_listed_in_order(grown):
    found = kept_generations(grown.index)
    assert [g.n for g in found] == [1, 2, 3]
    assert [g.counts["files"] for g in found] == [3, 3, 2]


def test_a_diff_names_every_file_once(grown):
    found = compare(grown.index, 1, 3)
    assert (found.added, found.changed, found.removed) == (("d.md",), ("a.md",), ("b.md", "c.md"))
    assert (found.chunks_added, found.chunks_removed, found.chunks_kept) == (2, 3, 0)
    assert found.texts_added == 2


def test_a_diff_and_its_reverse_are_mirrored(grown):
    there, back = compare(grown.index, 1, 2), compare(grown.index, 2, 1)
    assert (there.added, there.removed) == (back.removed, back.added)
    assert there.chunks_added == back.chunks_removed
    same = compare(grown.index, 2, 2)
    assert not (same.added or same.changed or same.removed or same.chunks_added)
    assert same.chunks_kept == 3


def test_what_is_not_kept_is_said_to_be_gone(grown, tmp_path):
    with pytest.raises(GenerationGone, match="generation 9"):
        compare(grown.index, 1, 9)
    with pytest.raises(GenerationGone):
        kept_generations(tmp_path / "never")


def test_a_pinned_generation_outlives_the_others(grown):
    with open_catalog(grown.index, pinned=lambda: {1}) as catalog:
        catalog.retain(1)
    assert [g.n for g in kept_generations(grown.index)] == [1, 3]
    assert sorted(c.snippet for c in texts(grown, 1)) == ["text of a", "text of b", "text of c"]
    assert sorted(c.snippet for c in texts(grown, 3)) == ["another text of a", "text of d"]
    with pytest.raises(GenerationGone):
        grown.fresh_view(2)
    assert grown.health() == []
    with open_catalog(grown.index) as catalog:
        catalog.retain(1)
        left = {t for (t,) in catalog.db.execute("SELECT text FROM texts")}
    assert left == {"another text of a", "text of d"}


def test_rows_between_two_pinned_generations_go(bench):
    for n in range(5):
        bench.write("a.md", f"version {n}")
        bench.run()
    with open_catalog(bench.index, pinned=lambda: {2}) as catalog:
        catalog.retain(1)
        left = {t for (t,) in catalog.db.execute("SELECT text FROM texts")}
    assert left == {"version 1", "version 4"}
    assert bench.health() == []


def test_superfluous_never_names_the_newest(grown):
    with open_catalog(grown.index) as catalog:
        assert remove.superfluous(catalog.db, 0) == [1, 2]
        assert remove.superfluous(catalog.db, 1, {2}) == [1]
        assert remove.superfluous(catalog.db, 9) == []


def test_half_written_files_of_a_killed_writer_are_swept(grown):
    stray = [grown.index / ".file_manifest.json.x.tmp",
             grown.index / "lexical-latest" / ".arrays.bin.y.tmp",
             grown.index / "vectors-x-7.f32"]  # fmt: skip
    for path in stray:
        path.write_bytes(b"half")
    grown.write("new.md", "one more")
    grown.run()
    assert not any(path.exists() for path in stray)


def texts(bench, n):
    view = bench.fresh_view(n)
    return view.chunks(view.chunk_ids)
