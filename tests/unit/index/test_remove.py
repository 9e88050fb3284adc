import sqlite3


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
