"""Looking at an index: samples keep shares, projections repeat, no text is lost."""

import csv
import io
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.conversations.journal.records import HISTORY
from ragstream_core.errors import OperationFailed
from ragstream_core.maps import projection
from ragstream_core.maps.chunk_map import (
    ChunkMap,
    PlacedChunk,
    as_csv,
    labels,
    largest,
    shares,
    stratified,
)
from ragstream_core.maps.drawing import PALETTE, draw
from ragstream_core.maps.figures import histogram, norms, repeated
from ragstream_core.maps.projection import pca, project_vectors, usable_perplexity
from tests.lengths import by_length

ROOT = Path(__file__).parents[3]


def unit(rng, rows, dimension=32):
    found = rng.normal(size=(rows, dimension))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=40), st.data())
def test_shares_add_up_and_are_fair(sizes, data):
    limit = data.draw(st.integers(0, sum(sizes)))
    parts = shares(sizes, limit)
    assert sum(parts) == limit
    for size, part in zip(sizes, parts, strict=True):
        assert 0 <= part <= size
        assert abs(part - size * limit / max(sum(sizes), 1)) < 1


@given(st.lists(st.sampled_from("abcdef"), max_size=120), st.integers(0, 130), st.integers(0, 9))
def test_a_sample_repeats_and_keeps_the_shares(groups, limit, seed):
    rows = stratified(groups, limit, seed=seed).tolist()
    assert rows == sorted(set(rows)) and len(rows) == min(limit, len(groups))
    assert rows == stratified(groups, limit, seed=seed).tolist()
    taken, sizes = Counter(groups[row] for row in rows), Counter(groups)
    for name, size in sizes.items():
        assert abs(taken[name] - size * len(rows) / len(groups)) < 1


def test_another_seed_takes_other_rows():
    groups = ["a"] * 500
    assert stratified(groups, 50, seed=1).tolist() != stratified(groups, 50, seed=2).tolist()


@given(st.integers(0, 30), st.integers(1, 12), st.integers(0, 5))
def test_pca_has_a_point_a_row_and_is_centred(rows, dimension, seed):
    points = pca(np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32))
    assert points.shape == (rows, 2) and np.isfinite(points).all()
    assert rows == 0 or np.abs(points.mean(axis=0)).max() < 1e-6


def test_pca_is_that_of_scikit_learn():
    from sklearn.decomposition import PCA

    rows = unit(np.random.default_rng(3), 80)
    theirs = PCA(2, svd_solver="full").fit_transform(rows.astype(np.float64))
    assert np.allclose(np.abs(pca(rows)), np.abs(theirs), atol=1e-6)


def test_the_largest_part_of_a_direction_points_upwards():
    ends = np.array([[3, 1], [-3, -1]], dtype=np.float32)
    assert pca(ends)[0, 0] > 0 > pca(-ends)[0, 0]
    assert pca(ends[:, ::-1])[0, 0] > 0 > pca(-ends[:, ::-1])[0, 0]


@pytest.mark.parametrize(("rows", "width"), [(4, 1.0), (31, 10.0), (91, 30.0), (5_000, 30.0)])
def test_the_perplexity_is_at_most_a_third_of_the_others(rows, width):
    assert usable_perplexity(30.0, rows) == width


def test_pca_keeps_the_direction_of_the_largest_variance_first():
    rows = np.zeros((40, 3), dtype=np.float32)
    rows[:, 2], rows[:, 0] = np.linspace(-5, 5, 40), np.tile([0.1, -0.1], 20)
    points = pca(rows)
    assert np.allclose(points[:, 0], rows[:, 2], atol=0.01)


@pytest.mark.sweep
@pytest.mark.parametrize("rows", by_length([4], [4, 5, 12], [4, 5, 12]))
def test_tsne_of_very_few_repeats(rows):
    vectors = unit(np.random.default_rng(rows), rows)
    width = usable_perplexity(30.0, rows)
    assert 0 < width < rows
    one, two = (project_vectors(vectors, method="tsne", seed=7, perplexity=width) for _ in range(2))
    assert one.shape == (rows, 2) and np.isfinite(one).all() and (one == two).all()


def test_tsne_of_equal_vectors_is_finite():
    vectors = np.tile(unit(np.random.default_rng(0), 1), (9, 1))
    points = project_vectors(vectors, method="tsne", seed=0, perplexity=usable_perplexity(30, 9))
    assert np.isfinite(points).all()


def test_tsne_keeps_groups_apart_and_reports():
    rng = np.random.default_rng(1)
    centres = unit(rng, 3)
    vectors = np.repeat(centres, 30, axis=0) + rng.normal(size=(90, 32)).astype(np.float32) * 0.05
    told = []
    points = project_vectors(
        vectors, method="tsne", seed=0, perplexity=10.0, told=lambda *step: told.append(step)
    )
    groups = points.reshape(3, 30, 2)
    middles = groups.mean(axis=1)
    spread = max(
        float(np.linalg.norm(g - m, axis=1).max()) for g, m in zip(groups, middles, strict=True)
    )
    pairs = ((0, 1), (0, 2), (1, 2))
    apart = min(float(np.linalg.norm(middles[i] - middles[j])) for i, j in pairs)
    assert apart > spread
    done = [step for step, _ in told]
    assert done == sorted(done) and done[0] == 0 and len(done) > 3
    assert {total for _, total in told} == {1000}


SPY = """
import sys
import numpy as np
from ragstream_core.maps import projection

def spied(vectors, seed, perplexity):
    import sklearn.manifold
    from threadpoolctl import threadpool_info
    threads = {pool["num_threads"] for pool in threadpool_info()}
    sys.stderr.write(f"threads {sorted(threads)}\\n")
    return np.zeros((len(vectors), 2))

projection.embed = spied
projection.main(["0", "3.0"])
"""


def test_the_child_computes_with_one_thread():
    """A second thread would wait for the first one by spinning, and slow both down."""
    vectors = io.BytesIO()
    np.save(vectors, unit(np.random.default_rng(0), 12))
    done = subprocess.run(
        [sys.executable, "-c", SPY], input=vectors.getvalue(), capture_output=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert b"threads [1]" in done.stderr, done.stderr
    assert np.load(io.BytesIO(done.stdout)).shape == (12, 2)


def test_what_the_progress_raises_ends_the_child():
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        project_vectors(
            unit(np.random.default_rng(0), 50), method="tsne", seed=0, perplexity=9.0, told=stop
        )


def test_a_child_that_fails_is_an_error_with_a_next_step(monkeypatch):
    monkeypatch.setattr(projection, "CHILD", "ragstream_core.no_such_module")
    with pytest.raises(OperationFailed, match="no_such_module") as caught:
        project_vectors(unit(np.random.default_rng(0), 9), method="tsne", seed=0, perplexity=2.0)
    assert "--method pca" in caught.value.hint


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


def a_map(places, **given):
    named = {place.project: 1 for place in places}
    return ChunkMap(tuple(places), len(places), "tsne", 0, 30.0, named, **given)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=12))
def test_csv_gives_every_text_back(rows):
    places = [
        PlacedChunk("demo", path, f"{path}::{'a' * 64}::{n}", n / 7, -n)
        for n, (path, _) in enumerate(rows)
    ]
    texts = [text for _, text in rows]
    read = list(csv.DictReader(io.StringIO(as_csv(places, texts), newline="")))
    assert [row["text"] for row in read] == texts
    assert [row["file"] for row in read] == [place.path for place in places]
    assert [float(row["x"]) for row in read] == [place.x for place in places]
    assert [int(row["chunk"]) for row in read] == list(range(len(rows)))


def test_turns_are_grouped_by_conversation_and_named_so():
    turn = PlacedChunk(HISTORY, "talks/17", "history::talks::17-17::0", 0.0, 0.0)
    chunk = PlacedChunk("demo", "a.md", f"a.md::{'a' * 64}::3", 1.0, 1.0)
    assert labels([turn], "file") == ["talks"] and labels([chunk], "file") == ["a.md"]
    assert labels([turn, chunk], "file") == ["conversation/talks", "demo/a.md"]
    assert labels([turn, chunk], "project") == ["conversation", "demo"]
    assert "~" not in a_map([turn, chunk]).title


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.integers(0, 10))
def test_the_largest_come_first(names, most):
    found = largest(names, most)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    left = Counter(names)
    assert all(left.pop(name) == count for name, count in found.items())
    assert len(found) == min(most, len(set(names)))
    assert not found or max(left.values(), default=0) <= min(found.values())


def pixels(png):
    from PIL import Image

    image = Image.open(io.BytesIO(png))
    image.verify()
    return Image.open(io.BytesIO(png)).convert("RGB")


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 60), st.integers(1, 14), st.integers(0, 3))
def test_any_map_gives_a_picture_of_the_size_asked_for(count, files, seed):
    rng = np.random.default_rng(seed)
    places = [
        PlacedChunk("demo", f"f{n % files}.md", f"f::{'a' * 64}::{n}", float(x), float(y))
        for n, (x, y) in enumerate(rng.normal(size=(count, 2)))
    ]
    assert pixels(draw(a_map(places), size=(700, 500))).size == (700, 500)


def test_each_large_file_has_its_colour_and_the_picture_repeats():
    places = [
        PlacedChunk("demo", f"f{n % 12:02}.md", f"f::{'a' * 64}::{n}", n % 7 * 3.0, n // 7 * 3.0)
        for n in range(120)
    ]
    found = a_map(places)
    png = draw(found)
    assert png == draw(found)
    seen = {colour for _, colour in pixels(png).getcolors(1 << 20)}
    for wanted in PALETTE:
        rgb = tuple(int(wanted[i : i + 2], 16) for i in (1, 3, 5))
        assert min(max(abs(a - b) for a, b in zip(rgb, c, strict=True)) for c in seen) <= 12, wanted


@pytest.mark.parametrize("path", ["\x1b[31m\n.md", "文書.md", "x" * 500, "‮.md"])
def test_any_file_name_can_be_drawn(path):
    place = PlacedChunk("demo", path, f"{path}::{'a' * 64}::0", 0.0, 0.0)
    assert pixels(draw(a_map([place], notes=("a note " * 60,)))).size == (1200, 820)


@given(st.lists(st.integers(0, 5000), max_size=80), st.integers(1, 20))
def test_a_histogram_counts_each_value_once(values, bins):
    rows = histogram(values, bins)
    assert sum(row.count for row in rows) == len(values) and len(rows) <= bins
    for row in rows:
        assert row.count == sum(row.low <= value <= row.high for value in values)
    assert all(a.high + 1 == b.low for a, b in zip(rows, rows[1:], strict=False))


def test_norms_tell_sound_vectors_from_others():
    rows = unit(np.random.default_rng(0), 6)
    assert norms(rows).not_unit == norms(rows).not_finite == 0
    assert norms(rows * np.float32(1.002)).not_unit == 6
    rows[1] *= 2
    rows[2, 0] = np.nan
    found = norms(rows)
    assert (found.not_unit, found.not_finite, found.max) == (1, 1, 2.0)
    assert norms(np.zeros((0, 4), dtype=np.float32)).mean == 0


@given(st.lists(st.sampled_from("abcde"), max_size=40))
def test_repetitions_are_counted(hashes):
    found, counts = repeated(hashes), Counter(hashes)
    assert found.chunks - found.texts == len(hashes) - len(counts)
    assert found.most == max(counts.values(), default=1)
