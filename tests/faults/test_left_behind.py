"""What a failed ingest embedded goes with the next commit; `--verify` repairs or names its finds.

A text that was recorded is kept for the run that resumes; when that run does not want it any more,
nothing of it stays behind.
"""

import random
import sqlite3

import pytest

from ragstream_core.errors import OperationFailed
from ragstream_core.index import catalog, remove
from ragstream_core.index.catalog import open_catalog
from ragstream_core.index.check import Part, verify_data
from ragstream_core.index.view import forget_views
from ragstream_core.ingestion import scan, staging
from tests.conftest import CountingEmbedder, IngestBench
from tests.faults.harness import Child, need_strace, orphans
from tests.lengths import by_length

CANARY = "umbrella marzipan cathedral"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(staging, "BATCH_TEXTS", 2)
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young


def query(bench, statement, *values):
    db = sqlite3.connect(bench.index / "catalog.sqlite")
    rows = db.execute(statement, values).fetchall()
    db.commit()
    db.close()
    forget_views()
    return rows


def stored_texts(bench):
    return {text for (text,) in query(bench, "SELECT text FROM texts")}


@pytest.fixture
def failed(bench, monkeypatch):
    """Two files are indexed; the ingest of a third failed after its text was recorded."""
    for n in range(2):
        bench.write(f"{n}.md", f"text number {n}")
    bench.run()
    bench.write("2.md", f"the phrase is {CANARY}")

    def full(*_, **__):
        raise OperationFailed("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(catalog.commit, "commit", full)
        with pytest.raises(OperationFailed):
            bench.run()
    assert any(CANARY in text for text in stored_texts(bench))
    return bench


def require_nothing_left(bench):
    with open_catalog(bench.index) as catalog:
        assert orphans(catalog.db) == (0, 0, 0)
    assert bench.health() == [] and verify_data(bench.index, Part(1, 1)) == []
    assert bench.pending() is None


@pytest.mark.parametrize("settings", [{}, {"delete_replaced": True}])
def test_a_text_that_is_not_wanted_any_more_goes_with_the_next_commit(failed, settings):
    failed.write("2.md", "another text instead")
    failed.run(**settings)
    require_nothing_left(failed)
    assert CANARY.encode() not in (failed.index / "catalog.sqlite").read_bytes()


def test_it_goes_although_the_folder_is_again_as_it_was_indexed(failed):
    (failed.docs / "2.md").unlink()
    assert failed.pending().reason == "an earlier ingest did not finish"
    assert not failed.run().committed
    require_nothing_left(failed)


def test_what_is_wanted_still_is_not_embedded_again(failed):
    failed.write("3.md", "a third text")
    assert failed.run().chunks["embedded"] == 1
    require_nothing_left(failed)


def test_it_stays_while_the_run_that_wants_it_fails_again(failed, monkeypatch):
    def full(*_, **__):
        raise OperationFailed("No space left on device")

    for n in range(3):
        failed.write(f"more{n}.md", f"more text {n}")
        with monkeypatch.context() as patch:
            patch.setattr(catalog.commit, "commit", full)
            with pytest.raises(OperationFailed):
                failed.run()
    assert failed.run().chunks["embedded"] == 0
    require_nothing_left(failed)


def test_what_an_interrupted_erasing_has_to_look_for_stays(failed):
    query(failed, "INSERT INTO meta VALUES('erasing:gone.md', '{}')")
    failed.write("2.md", "another text instead")
    failed.run()
    assert any(CANARY in text for text in stored_texts(failed))
    query(failed, "DELETE FROM meta WHERE key LIKE 'erasing:%'")
    failed.run()
    require_nothing_left(failed)


def test_texts_of_a_damaged_catalog_that_no_file_has_any_more_go_with_the_rebuild(bench):
    for n in range(4):
        bench.write(f"{n}.md", f"text number {n}")
    bench.run()
    (bench.docs / "3.md").unlink()
    query(bench, "UPDATE generations SET digest = 'x'")
    assert bench.run(rebuild=True).chunks["embedded"] == 0
    require_nothing_left(bench)


def test_vectors_of_a_model_that_was_tried_and_given_up_go(bench, monkeypatch):
    bench.write("a.md", "text")
    bench.run()
    other = IngestBench(bench.root, embedder=CountingEmbedder(fingerprint="another-model"))

    def full(*_, **__):
        raise OperationFailed("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(catalog.commit, "commit", full)
        with pytest.raises(OperationFailed):
            other.run(rebuild=True)
    assert len(query(bench, "SELECT * FROM vectors")) == 2
    bench.run()
    assert len(query(bench, "SELECT * FROM vectors")) == 1
    require_nothing_left(bench)


@pytest.mark.sweep
def test_killed_at_random_moments_nothing_is_left_of_what_is_not_wanted(bench, tmp_path):
    """Each killed ingest has other documents, so that nothing of it is taken up by the next."""
    need_strace()
    rng, left = random.Random(41), 0
    for n in range(4):
        bench.write(f"{n}.md", f"text number {n}")
    bench.run()
    for n in range(by_length(5, 10, 100)):
        for i in range(8):
            bench.write(f"new{i}.md", f"text {i} of round {n} {rng.random()}")
        child = Child(lambda: bench.run(delete_replaced=n % 2 == 0), tmp_path / "said")  # noqa: B023
        child.trace("trace=fdatasync", f"inject=fdatasync:signal=KILL:when={rng.randrange(2, 14)}")
        child.go()
        child.wait()
        for i in range(8):
            (bench.docs / f"new{i}.md").unlink()
        left += orphans_now(bench) > 0
        if bench.pending() is not None:
            bench.run(delete_replaced=True)
        require_nothing_left(bench)
        assert len(stored_texts(bench)) == 4
    print(f"\n{left} killed ingests left texts behind, 0 after the next one")
    assert left


def orphans_now(bench):
    if (bench.index / "catalog.sqlite-journal").exists():
        bench.fresh_view()  # rolls back
    named = "SELECT count(*) FROM texts WHERE text_hash NOT IN (SELECT text_hash FROM chunks)"
    return query(bench, named)[0][0]


# --- what --verify finds besides vectors ---


@pytest.fixture
def filled(bench):
    for n in range(5):
        bench.write(f"{n}.md", f"# Heading {n}\n\nbody words number {n}")
    bench.run()
    return bench


DAMAGE = (
    "UPDATE texts SET text = replace(text, 'number 3', 'numbfr 3')",
    "UPDATE texts SET terms = x'00' WHERE text LIKE '%number 3%'",
    "UPDATE texts SET text_hash = 'abc' WHERE text LIKE '%number 3%'",
    "UPDATE texts SET text = 5 WHERE text LIKE '%number 3%'",
    "DELETE FROM texts WHERE text LIKE '%number 3%'",
)


@pytest.mark.parametrize("statement", DAMAGE)
def test_a_damaged_text_is_told_and_read_again_from_its_file(filled, statement):
    digest = filled.view().digest
    query(filled, statement)
    assert verify_data(filled.index, Part(1, 1)) != []
    stats = filled.run(verify=True)
    assert "3.md: damaged texts were read again" in stats.warnings
    assert not [w for w in stats.warnings if "still damaged" in w]
    assert stats.digest == filled.fresh_view().digest == digest and not stats.committed
    assert verify_data(filled.index, Part(1, 1)) == [] == filled.health()
    assert snippets(filled) == snippets(filled.from_scratch())
    assert filled.run(verify=True).warnings == ()


def snippets(bench):
    view = bench.fresh_view()
    return [chunk.snippet for chunk in view.chunks(view.chunk_ids)]


def test_a_damaged_text_that_only_an_old_generation_has_is_named(filled):
    filled.write("3.md", "something else")
    filled.run()
    query(filled, DAMAGE[0])
    (warning,) = filled.run(verify=True).warnings
    assert warning.startswith("still damaged: 1 texts do not have their hash or crc")
    assert filled.health() == []


def test_a_sound_index_has_nothing_to_say(filled):
    assert filled.run(verify=True).warnings == ()


@pytest.mark.parametrize("how", ["verify", "rebuild"])
def test_damaged_vectors_of_an_earlier_model_are_dropped_with_a_word(filled, how):
    """The generation that needs them cannot be read without them; the others stay."""
    (filled.docs / "4.md").unlink()
    filled.run()
    old = filled.vector_file()
    later = IngestBench(filled.root, embedder=CountingEmbedder(fingerprint="later-model"))
    later.run(rebuild=True)
    (row,) = query(
        filled, "SELECT row FROM vectors JOIN texts USING(text_hash) WHERE text LIKE '%number 4' "
        "AND embed_fp <> 'later-model'",
    )  # fmt: skip
    raw = bytearray(old.read_bytes())
    raw[row[0] * len(raw) // 5 + 3] ^= 1
    old.write_bytes(raw)
    assert verify_data(later.index, Part(1, 1)) != []
    stats = later.run(**{how: True})
    (warning,) = [w for w in stats.warnings if "earlier model" in w]
    assert warning.startswith("1 damaged vectors") and warning.endswith("generation 1")
    assert verify_data(later.index, Part(1, 1)) == [] == later.health()
    kept = [n for (n,) in query(later, "SELECT n FROM generations ORDER BY n")]
    assert kept[:2] == [2, 3] and len(later.fresh_view(2).chunk_ids) == 4


def test_retention_drops_the_mark_of_an_unfinished_ingest_with_its_texts(failed):
    failed.write("2.md", "another text instead")
    with open_catalog(failed.index) as catalog:
        catalog.db.execute("BEGIN")
        went = remove.drop(catalog.db, [], unnamed=True)
        catalog.db.execute("COMMIT")
    assert (went["texts"], went["vectors"]) == (1, 1)
    failed.run()
    require_nothing_left(failed)
