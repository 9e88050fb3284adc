from __future__ import annotations

import pytest

from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.scan import scan
from ragstream_core.stores.forecast import BYTES_PER_CHUNK, DEFAULT_CHUNKS_PER_S, forecast, known
from ragstream_core.stores.pending import inspect


def looked(bench):
    config = IngestionConfig()
    found = inspect(bench.index, bench.docs, scan_fp=config.scan_fp)
    return known(bench.index, found.newest), found.found


def test_before_the_first_ingest_it_is_an_estimate_and_says_so(bench):
    bench.write("a.md", "x" * BYTES_PER_CHUNK["text"] * 10)
    past, found = looked(bench)
    made = forecast(["a.md"], found, past)
    assert (made.files, made.chunks, made.measured) == (1, 10, False)
    assert made.seconds == pytest.approx(10 / DEFAULT_CHUNKS_PER_S)


def test_afterwards_it_is_what_was_measured_here(bench):
    for n in range(40):
        bench.write(f"{n}.md", f"text number {n} " * 200)
    stats = bench.run()
    past, _ = looked(bench)
    assert past.chunks_per_s > 0
    size = sum(p.stat().st_size for p in bench.docs.iterdir())
    assert past.bytes_per_chunk == pytest.approx(size / stats.chunks["live"])
    bench.write("new.md", "another text " * 2000)
    past, found = looked(bench)
    made = forecast(["new.md"], found, past)
    assert made.measured
    assert made.seconds == pytest.approx(made.chunks / past.chunks_per_s)
    bench.run()
    grown = bench.view()
    real = sum(path == "new.md" for path in grown.paths)
    assert 0.5 * real <= made.chunks <= 2 * real


def test_an_ingest_of_a_few_texts_says_nothing_about_the_speed(bench):
    bench.write("a.md", "a")
    bench.run()
    assert looked(bench)[0].chunks_per_s == 0


def test_nothing_to_do_is_nothing(bench):
    bench.write("a.md", "a")
    past, found = looked(bench)
    assert forecast([], found, past)[:3] == (0, 0, 0)
    assert forecast(["a.md"], found, past).chunks == 1
    bench.write("empty.md", "")
    assert forecast(["empty.md"], scan(bench.docs), past).chunks == 0


def test_what_was_skipped_is_known_with_its_reason(bench):
    bench.write("a.md", b"\xff")
    bench.write("b.md", "b")
    bench.run()
    assert looked(bench)[0].skipped == (("a.md", "not utf-8: undecodable byte at offset 0"),)


def test_a_damaged_catalog_is_no_obstacle(bench):
    bench.write("a.md", "a")
    bench.run()
    past, found = looked(bench)
    newest = bench.view().pinned
    (bench.index / "catalog.sqlite").write_bytes(b"garbage" * 1000)
    assert known(bench.index, newest).chunks_per_s == 0
