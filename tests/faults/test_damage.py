"""Damage to what is on disk: found before it changes an answer, repaired by its command."""

import random
import shutil
import sqlite3

import numpy as np
import pytest

from ragstream_core.errors import IntegrityError, RagstreamError
from ragstream_core.index.view import forget_views


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


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chunks SET start = start + 1 WHERE chunk_idx = 0",
        "UPDATE chunks SET heading = 'x'",
        "UPDATE chunks SET path = 'x' WHERE path = '0.md'",
        "UPDATE chunks SET page = 3 WHERE path = '0.md'",
        "UPDATE chunks SET to_gen = 1 WHERE path = '0.md'",
        "UPDATE chunks SET text_hash = 'x' WHERE path = '0.md'",
        "DELETE FROM chunks WHERE path = '0.md'",
        "UPDATE files SET sha256 = 'x' WHERE path = '0.md'",
        "UPDATE files SET decision = 'skipped' WHERE path = '0.md'",
        "UPDATE generations SET digest = 'x'",
        "UPDATE generations SET row_sum = 'not hex'",
        "UPDATE generations SET embed_fp = 'x'",
        "UPDATE generations SET index_fp = 'x'",
        "UPDATE generations SET counts = '{'",
        "UPDATE vectors SET crc32 = crc32 + 1",
        "UPDATE vectors SET row = 5 - row",
        "UPDATE vectors SET row = 99",
        "UPDATE vectors SET row = 'x'",
        "UPDATE vectors SET epoch = 2",
        "UPDATE vector_files SET rows = rows + 1",
        "UPDATE vector_files SET dimension = 7",
        "DELETE FROM vectors",
        "DROP TABLE chunks",
    ],
)
def test_every_change_of_a_row_is_found_when_it_is_loaded(filled, statement):
    execute(filled, statement)
    with pytest.raises(IntegrityError) as caught:
        filled.view()
    assert caught.value.hint == "ragstream ingest demo --rebuild"
    stats = filled.run(rebuild=True)
    assert filled.health() == []
    assert stats.digest == filled.from_scratch().view().digest


def everything(bench):
    """All that a query can get from an index, or the error that says it cannot be had."""
    view = bench.fresh_view()
    chunks = [(c.id, c.source, c.snippet, c.span, sorted(c.meta.items()))
              for c in view.chunks(view.chunk_ids)]  # fmt: skip
    return (
        view.digest, view.generation, view.chunk_ids, view.paths, chunks,
        np.asarray(view.vectors).tobytes(), view.lexical.packed(),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["catalog.sqlite", "vectors", "lexical-latest/arrays.bin"])
@pytest.mark.parametrize("kind", ["flip", "cut"])
def test_flipped_and_cut_files_change_no_answer_silently(filled, name, kind):
    path = filled.vector_file() if name == "vectors" else filled.index / name
    sound, intact = everything(filled), path.read_bytes()
    rng = random.Random(f"{name}{kind}")
    found = 0
    for _ in range(60):
        at = rng.randrange(len(intact))
        damaged = bytearray(intact)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged if kind == "flip" else intact[:at])
        if name == "lexical-latest/arrays.bin":
            assert everything(filled) == sound  # derived: built again
            continue
        try:
            assert everything(filled) == sound  # an unused byte
        except RagstreamError as error:
            found += 1
            assert error.hint
            assert str(filled.index) in error.message or "demo" in error.message
    path.write_bytes(intact)
    assert everything(filled) == sound
    if name == "vectors":
        assert found == 60


def test_a_damaged_catalog_is_put_aside_and_built_anew(filled):
    sound = everything(filled)
    path = filled.index / "catalog.sqlite"
    for n in (1, 2):
        path.write_bytes(b"garbage" * 4096)
        with pytest.raises(IntegrityError) as caught:
            filled.run()
        assert str(path) in caught.value.message
        assert caught.value.hint == "ragstream ingest demo --rebuild"
        stats = filled.run(rebuild=True)
        assert (stats.generation, stats.chunks["embedded"]) == (1, 6)
        assert (filled.index / f"catalog.sqlite.damaged-{n}").exists()
        assert everything(filled) == sound
        assert len(list(filled.index.glob("*.f32"))) == 1


@pytest.mark.parametrize("left", ["none", "half", "gone"])
def test_a_lost_vector_file_is_refused_and_rebuilt(filled, left):
    sound, path = everything(filled), filled.vector_file()
    raw = path.read_bytes()
    path.unlink() if left == "gone" else path.write_bytes(raw[: len(raw) // 2 * (left == "half")])
    forget_views()
    with pytest.raises(IntegrityError) as caught:
        filled.view()
    assert caught.value.hint == "ragstream ingest demo --rebuild"
    filled.write("new.md", "a new one")
    with pytest.raises(IntegrityError):
        filled.run()
    (filled.docs / "new.md").unlink()
    stats = filled.run(rebuild=True)
    assert stats.chunks["embedded"] == (3 if left == "half" else 6)
    assert everything(filled)[4:] == sound[4:]
    assert filled.health() == []


def test_an_old_view_survives_the_rebuild_of_its_file(filled):
    view = filled.view()
    before = np.array(view.vectors)
    shutil.copy(filled.index / "catalog.sqlite", filled.index / "copy")
    (filled.index / "catalog.sqlite").write_bytes(b"x" * 100)
    filled.run(rebuild=True)
    assert np.array_equal(view.vectors, before)


def test_a_changed_mtime_is_found_when_it_is_read(filled):
    execute(filled, "UPDATE files SET mtime_ns = mtime_ns + 1")
    view = filled.view()
    with pytest.raises(IntegrityError):
        view.chunks(view.chunk_ids[:1])
    with pytest.raises(IntegrityError):
        filled.run()
    filled.run(rebuild=True)
    assert filled.health() == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE texts SET terms = x'00'",
        "UPDATE texts SET terms = 'text'",
        "UPDATE texts SET text = 5",
        "UPDATE chunks SET heading_terms = x'0000'",
    ],
)
def test_what_is_derived_from_texts_is_checked_by_the_rebuild(filled, statement):
    sound = everything(filled)
    execute(filled, statement)
    filled.run(rebuild=True)
    (filled.index / "lexical-latest" / "arrays.bin").unlink()
    assert everything(filled) == sound
    assert filled.health() == []


def test_no_journal_of_the_damaged_catalog_stays_beside_the_new_one(filled):
    sound = everything(filled)
    (filled.index / "catalog.sqlite").write_bytes(b"garbage" * 4096)
    (filled.index / "catalog.sqlite-journal").write_bytes(b"left over")
    filled.run(rebuild=True)
    assert (filled.index / "catalog.sqlite.damaged-1").exists()
    assert not (filled.index / "catalog.sqlite-journal").exists()
    assert everything(filled) == sound
