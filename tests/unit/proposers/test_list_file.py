"""Inverted lists: the same bytes by whatever way they were reached, and no damage unnoticed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.errors import IntegrityError
from ragstream_core.platform import array_file
from ragstream_core.proposers import list_training
from ragstream_core.proposers.list_file import Entries, IvfFile, blocks, differing, recall

DIMENSION = 12
SAID = {"digest": "d"}


def unit(n, seed=0, dimension=DIMENSION):
    raw = np.random.default_rng(seed).standard_normal((n, dimension))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def rows():
    return unit(4000)


@pytest.fixture(scope="module")
def training(rows):
    return list_training.train(rows)


def bytes_of(training, ids, rows, **more):
    entries = Entries(np.array(ids, dtype=np.int64), rows, np.array(ids, dtype=np.int64))
    return b"".join(blocks(SAID, training, added=entries, **more))


def file_of(path, data):
    path.write_bytes(data)
    return IvfFile(path)


def test_training_is_the_same_again_and_with_more_threads(rows, training):
    import faiss

    faiss.omp_set_num_threads(3)
    again = list_training.train(rows)
    assert training.lists == list_training.lists_for(len(rows)) == 8
    assert again.digest == training.digest
    assert list_training.train(rows[::-1]).digest != training.digest


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_adding_and_removing_gives_the_bytes_of_lists_made_anew(
    data, rows, training, tmp_path_factory
):
    some = st.sets(st.integers(0, 300), max_size=80)
    before, after = sorted(data.draw(some)), sorted(data.draw(some))
    home = tmp_path_factory.mktemp("ivf")
    old = file_of(home / "old", bytes_of(training, before, rows))
    fresh, gone = sorted({*after} - {*before}), np.array(sorted({*before} - {*after}), dtype="i8")
    updated = bytes_of(training, fresh, rows, old=old, gone=gone)
    assert updated == bytes_of(training, after, rows)
    now = file_of(home / "new", updated)
    assert now.ids().tolist() == after
    assert now.rows == len(after)
    assert differing(now, Entries(np.array(after, dtype="i8"), rows, np.array(after, int))) == 0


@given(numbers=st.lists(st.integers(0, 3999), min_size=1, max_size=40))
def test_a_vector_belongs_to_its_list_and_has_its_code_whatever_stands_beside_it(
    numbers, rows, training
):
    together = training.list_of(rows[numbers])
    alone = [int(training.list_of(rows[n : n + 1])[0]) for n in numbers]
    assert together.tolist() == alone
    codes = training.codes(rows[numbers])
    assert all(
        (codes[i] == training.codes(rows[n : n + 1])[0]).all() for i, n in enumerate(numbers)
    )


def test_a_vector_between_two_equal_centroids_goes_to_the_first():
    centroids = np.repeat(unit(2), 2, axis=0)
    twins = list_training.Training(centroids, np.zeros(2 * DIMENSION, dtype=np.float32), 4)
    assert twins.list_of(unit(50, seed=3)).tolist() == [
        0 if row @ centroids[0] > row @ centroids[2] else 2 for row in unit(50, seed=3)
    ]


def test_all_lists_find_what_exact_search_finds_and_fewer_find_less(rows, training, tmp_path):
    file = file_of(tmp_path / "f", bytes_of(training, range(4000), rows))
    whole = Entries.of(np.arange(4000), rows)
    assert recall(file, whole, depth=50, nprobe=8) == 1.0
    assert 0.2 < recall(file, whole, depth=50, nprobe=1) < recall(file, whole, depth=50, nprobe=4)
    found = file.search(rows[:3], 5, 8)
    assert [int(ids[0]) for ids in found] == [0, 1, 2]
    assert all(len(ids) == 69 for ids in found)


def test_lists_without_a_row_find_nothing(rows, training, tmp_path):
    empty = file_of(tmp_path / "f", bytes_of(training, [], rows))
    assert [ids.tolist() for ids in empty.search(rows[:2], 5, 8)] == [[], []]
    assert recall(empty, Entries.of(np.zeros(0, dtype=np.int64), rows[:0]), depth=5, nprobe=1) == 1


def test_every_flipped_byte_and_every_cut_is_noticed(rows, training, tmp_path):
    data = bytes_of(training, range(60), rows)
    path = tmp_path / "f"
    places = np.random.default_rng(5).integers(0, len(data), 300).tolist()
    for at in (*places, 0, len(data) - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(IntegrityError):
            IvfFile(path)
    for end in (0, 1, 9, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        with pytest.raises(IntegrityError):
            IvfFile(path)
    path.unlink()
    with pytest.raises(IntegrityError):
        IvfFile(path)


def test_a_removed_file_still_answers(rows, training, tmp_path):
    file = file_of(tmp_path / "f", bytes_of(training, range(100), rows))
    (tmp_path / "f").unlink()
    assert int(file.search(rows[:1], 3, 8)[0][0]) == 0


def test_the_file_that_was_checked_is_the_one_that_is_searched(
    rows, training, tmp_path, monkeypatch
):
    path, other = tmp_path / "f", tmp_path / "other"
    other.write_bytes(bytes_of(training, range(100, 160), rows))
    path.write_bytes(bytes_of(training, range(100), rows))
    decode = array_file.decode

    def replaced(*given):
        found = decode(*given)
        other.replace(path)
        return found

    monkeypatch.setattr(array_file, "decode", replaced)
    file = IvfFile(path)
    found = file.search(rows[:100], 1, 8)
    assert all(row in near for row, near in enumerate(found))


def test_differing_counts_what_is_wrong(rows, training, tmp_path):
    file = file_of(tmp_path / "f", bytes_of(training, range(10), rows))
    other = rows.copy()
    other[4] = rows[3000]
    assert differing(file, Entries.of(np.arange(10), other[:10])) == 1
    assert differing(file, Entries.of(np.arange(12), rows[:12])) == 2


def test_lists_are_trained_again_when_their_rows_have_doubled_or_halved(training):
    for rows, again in ((2001, False), (8000, False), (8001, True), (1999, True)):
        assert list_training.is_outgrown(training, rows) is again
