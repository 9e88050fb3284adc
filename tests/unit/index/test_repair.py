"""Embeddings that survive in a damaged catalog are used again; nothing damaged is."""

import random
import sqlite3

import pytest

from ragstream_core.index.view import forget_views


@pytest.fixture
def filled(bench):
    for n in range(40):
        bench.write(
            f"{n}.md", f"# Heading {n}\n\nbody words number {n} {random.Random(n).random()}"
        )
    bench.run()
    return bench


def execute(bench, *statements):
    db = sqlite3.connect(bench.index / "catalog.sqlite")
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()
    forget_views()


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("UPDATE generations SET digest = 'x'", 0),
        ("DROP TABLE chunks", 0),
        ("DELETE FROM files WHERE path = '3.md'", 0),
        ("UPDATE texts SET text = 'x' WHERE text LIKE '%number 7 %'", 1),
        ("UPDATE texts SET terms = x'00'", 0),
        ("DROP TABLE texts", 40),
        ("DROP TABLE meta", 0),
        ("PRAGMA user_version = 0", 0),
    ],
)
def test_a_rebuild_embeds_only_what_did_not_survive(filled, statement, lost):
    execute(filled, statement)
    seen = len(filled.embedder.seen)
    stats = filled.run(rebuild=True)
    assert stats.chunks["embedded"] == len(filled.embedder.seen) - seen == lost
    assert (filled.index / "catalog.sqlite.damaged-1").exists()
    assert filled.health() == []
    assert filled.view().digest == filled.from_scratch().view().digest


def test_a_vector_without_its_crc_does_not_survive(filled):
    execute(filled, "UPDATE generations SET digest = 'x'",
            "UPDATE vectors SET crc32 = crc32 + 1 WHERE row < 5",
            "UPDATE vectors SET row = 39 - row WHERE row IN (10, 29)")  # fmt: skip
    assert filled.run(rebuild=True).chunks["embedded"] == 7
    assert filled.health() == []
    assert filled.view().digest == filled.from_scratch().view().digest


def test_a_vector_file_without_its_end_gives_what_it_has(filled):
    execute(filled, "UPDATE generations SET digest = 'x'")
    path = filled.vector_file()
    path.write_bytes(path.read_bytes()[: 25 * filled.embedder.dimension * 4 + 7])
    assert filled.run(rebuild=True).chunks["embedded"] == 15
    assert filled.health() == []


def test_random_garbage_in_the_catalog_is_survived(filled):
    path = filled.index / "catalog.sqlite"
    intact = path.read_bytes()
    fresh = filled.from_scratch().view().digest
    reused = 0
    for seed in range(12):
        rng = random.Random(seed)
        raw = bytearray(intact)
        for _ in range(3):
            at = rng.randrange(100, len(raw) - 64)
            raw[at : at + 64] = rng.randbytes(64)
        path.write_bytes(raw)
        forget_views()
        stats = filled.run(rebuild=True)
        reused += 40 - stats.chunks["embedded"]
        assert filled.health() == []
        assert filled.view().digest == fresh
    assert reused > 0
