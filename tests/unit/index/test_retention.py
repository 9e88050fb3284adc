import sqlite3

from ragstream_core.index import retention


def rows(bench, query):
    db = sqlite3.connect(bench.index / "catalog.sqlite")
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def test_texts_stay_as_long_as_one_kept_generation_names_them(bench):
    bench.write("a.md", "first")
    bench.write("b.md", "shared")
    bench.write("c.md", "shared")
    bench.run()
    (bench.docs / "b.md").unlink()
    bench.write("a.md", "second")
    bench.run(retain_generations=2)
    assert {t for (t,) in rows(bench, "SELECT text FROM texts")} == {"first", "second", "shared"}
    bench.run(retain_generations=1)
    assert {t for (t,) in rows(bench, "SELECT text FROM texts")} == {"second", "shared"}
    assert len(rows(bench, "SELECT * FROM vectors")) == 2
    assert rows(bench, "SELECT n FROM generations") == [(2,)]
    assert bench.health() == []


def test_an_old_models_vectors_go_with_its_last_generation(bench, counting_embedder):
    bench.write("a.md", "text")
    bench.run()
    bench.embedder = counting_embedder(fingerprint="e" * 64)
    bench.run(rebuild=True, retain_generations=1)
    assert [p.name for p in bench.index.glob("*.f32")] == [f"vectors-{'e' * 64}-1.f32"]
    assert bench.health() == []


def test_compaction_switches_to_the_next_epoch_and_scores_stay(bench, monkeypatch):
    monkeypatch.setattr(retention, "COMPACT_MIN_ROWS", 4)
    for n in range(8):
        bench.write(f"{n}.md", f"text number {n}")
    bench.run()
    pinned = bench.view()
    held = pinned.vectors.copy()
    for n in range(4):
        (bench.docs / f"{n}.md").unlink()
    bench.run(delete_replaced=True)
    assert bench.vector_file().name.endswith("-2.f32")
    assert bench.vector_file().stat().st_size == 4 * 4 * bench.embedder.dimension
    assert (pinned.vectors == held).all()
    assert bench.health() == []
    bench.write("new.md", "after the compaction")
    bench.run()
    assert bench.health() == []
    assert bench.view().digest == bench.from_scratch().view().digest
