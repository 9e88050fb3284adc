import os

import numpy as np
import pytest

from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.models.embedders.token_cache import CachedTokenVectors, TokenVectorCache
from ragstream_core.records.identity import sha256_hex

KEYS = [sha256_hex(str(n)) for n in range(12)]


def rows(count=3, value=0.5):
    return np.full((count, 384), value, dtype=np.float16)


class Counting(HashedEmbedder):
    def __init__(self):
        super().__init__()
        self.seen = []

    def token_vectors(self, texts):
        self.seen.extend(texts)
        return super().token_vectors(texts)


@pytest.mark.parametrize("count", [0, 1, 254])
def test_what_was_put_comes_back_bit_for_bit(tmp_path, count):
    cache = TokenVectorCache(tmp_path)
    value = np.random.default_rng(1).normal(size=(count, 384)).astype(np.float16)
    assert cache.get(KEYS[0]) is None
    cache.put(KEYS[0], value)
    found = TokenVectorCache(tmp_path).get(KEYS[0])
    assert found.dtype == np.float16
    assert np.array_equal(found, value)


def test_every_damage_is_a_miss_and_removes_the_entry(tmp_path):
    cache = TokenVectorCache(tmp_path)
    cache.put(KEYS[0], rows())
    (path,) = tmp_path.glob("*/*.f16")
    good = path.read_bytes()
    for bad in (
        b"",
        good[:-1],
        good + b"x",
        good[:5] + b"!" + good[6:],
        good[:-9] + b"\1" + good[-8:],
    ):
        path.write_bytes(bad)
        assert cache.get(KEYS[0]) is None
        assert not path.exists()


def test_the_least_recently_used_entries_go_first(tmp_path):
    cache = TokenVectorCache(tmp_path, max_bytes=10 * 2400)
    for at, key in enumerate(KEYS[:10]):
        cache.put(key, rows())
        (path,) = tmp_path.glob(f"*/{key}.f16")
        os.utime(path, ns=(at * 10**9, at * 10**9))
    assert cache.get(KEYS[0]) is not None  # used: now the most recent
    cache.put(KEYS[10], rows())
    assert cache.get(KEYS[1]) is None
    assert cache.get(KEYS[0]) is not None
    assert cache.get(KEYS[10]) is not None
    assert sum(p.stat().st_size for p in tmp_path.glob("*/*.f16")) <= 10 * 2400


def test_a_cache_that_cannot_write_is_no_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = TokenVectorCache(tmp_path / "file")
    cache.put(KEYS[0], rows())
    assert cache.get(KEYS[0]) is None


def test_names_that_are_no_digest_are_refused(tmp_path):
    cache = TokenVectorCache(tmp_path)
    for name in ("../../etc/passwd", "", "ABC"):
        with pytest.raises(ValueError, match="hash"):
            cache.get(name)


def test_a_backend_with_wider_numbers_is_rounded_before_its_first_use(tmp_path):
    class Wide(HashedEmbedder):
        def token_vectors(self, texts):
            chance = np.random.default_rng(4)
            return [chance.normal(size=(3, 384)).astype(np.float32) for _ in texts]

    cached = CachedTokenVectors(Wide(), TokenVectorCache(tmp_path))
    (fresh,), (again,) = cached.token_vectors(["one"]), cached.token_vectors(["one"])
    assert fresh.dtype == again.dtype == np.float16
    assert fresh.tobytes() == again.tobytes()


def test_fresh_and_cached_values_are_equal(tmp_path):
    embedder = Counting()
    cached = CachedTokenVectors(embedder, TokenVectorCache(tmp_path))
    texts = ["one two", "three", "one two", ""]
    fresh = cached.token_vectors(texts)
    again = cached.token_vectors(texts)
    direct = HashedEmbedder().token_vectors(texts)
    for a, b, c in zip(fresh, again, direct, strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(a, c)
    assert embedder.seen == ["one two", "three", ""]
    TokenVectorCache(tmp_path).discard(sha256_hex("three"))
    cached.token_vectors(texts)
    assert embedder.seen[3:] == ["three"]
