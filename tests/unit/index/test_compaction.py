"""Compaction: which vectors move to a new file, and that scores stay."""

import numpy as np

from ragstream_core.index import vectors


def test_compaction_switches_to_the_next_epoch_and_scores_stay(bench, monkeypatch):
    monkeypatch.setattr(vectors, "COMPACT_MIN_ROWS", 4)
    for n in range(8):
        bench.write(f"{n}.md", f"text number {n}")
    bench.run()
    pinned = bench.view()
    held = np.asarray(pinned.vectors)
    for n in range(4):
        (bench.docs / f"{n}.md").unlink()
    bench.run(delete_replaced=True)
    assert bench.vector_file().name.endswith("-2.f32")
    assert bench.vector_file().stat().st_size == 4 * 4 * bench.embedder.dimension
    assert (np.asarray(pinned.vectors) == held).all()
    assert bench.health() == []
    bench.write("new.md", "after the compaction")
    bench.run()
    assert bench.health() == []
    assert bench.view().digest == bench.from_scratch().view().digest
