import numpy as np
import pytest

from ragstream_core.errors import EmbeddingFailed, IntegrityError
from ragstream_core.index import vectors


def rows(n, d=4, seed=0):
    raw = np.random.default_rng(seed).standard_normal((n, d))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def test_what_is_appended_is_mapped(tmp_path):
    path = tmp_path / "v.f32"
    a, b = rows(3), rows(2, seed=1)
    crcs = vectors.append_rows(path, a, ["x", "y", "z"], first_row=0)
    crcs += vectors.append_rows(path, b, ["p", "q"], first_row=3)
    mapped = vectors.map_rows(path, rows=5, dimension=4)
    assert np.array_equal(mapped, np.concatenate([a, b]))
    assert all(vectors.intact(np.array(mapped), ["x", "y", "z", "p", "q"], crcs))
    with pytest.raises(ValueError):
        mapped[0] = 0


def test_a_tail_behind_the_committed_rows_is_overwritten(tmp_path):
    path = tmp_path / "v.f32"
    vectors.append_rows(path, rows(2), ["a", "b"], first_row=0)
    with path.open("ab") as handle:
        handle.write(b"torn tail")
    assert np.array_equal(vectors.map_rows(path, rows=2, dimension=4), rows(2))
    vectors.append_rows(path, rows(1, seed=2), ["c"], first_row=2)
    assert np.array_equal(vectors.map_rows(path, rows=3, dimension=4)[2:], rows(1, seed=2))


def test_a_short_file_is_refused_with_the_command(tmp_path):
    path = tmp_path / "proj" / "v.f32"
    vectors.append_rows(path, rows(2), ["a", "b"], first_row=0)
    with path.open("r+b") as handle:
        handle.truncate(31)
    with pytest.raises(IntegrityError) as caught:
        vectors.map_rows(path, rows=2, dimension=4)
    assert caught.value.hint == "ragstream ingest proj --rebuild"


def test_every_flipped_bit_and_every_swap_is_found():
    data = rows(2)
    crcs = [vectors.row_crc(h, r.tobytes()) for h, r in zip("ab", data, strict=True)]
    assert vectors.intact(data, ["a", "b"], crcs) == [True, True]
    assert vectors.intact(data[::-1].copy(), ["a", "b"], crcs) == [False, False]
    assert vectors.intact(data, ["b", "a"], crcs) == [False, False]
    for bit in range(8 * data[0].nbytes):
        raw = bytearray(data.tobytes())
        raw[bit // 8] ^= 1 << bit % 8
        flipped = np.frombuffer(bytes(raw), dtype=np.float32).reshape(2, 4)
        assert vectors.intact(flipped, ["a", "b"], crcs) == [False, True]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0])
def test_only_finite_unit_rows_pass(bad):
    vectors.check_vectors(rows(3), count=3, dimension=4)
    broken = rows(3)
    broken[1] = bad
    with pytest.raises(EmbeddingFailed):
        vectors.check_vectors(broken, count=3, dimension=4)


def test_an_epoch_in_use_is_never_used_again(tmp_path):
    assert vectors.free_epoch(tmp_path, "fp") == 1
    vectors.vector_path(tmp_path, "fp", 7).touch()
    vectors.vector_path(tmp_path, "fp-longer", 9).touch()
    assert vectors.free_epoch(tmp_path, "fp") == 8
