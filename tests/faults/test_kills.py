"""kill -9 at random moments, two writers, readers meanwhile, SIGTERM, SIGSTOP, files that change.

The full form (``make faults``) kills 200 times and more; the short form 15 times.
"""

import os
import random
import re
import signal
import threading
import time

import numpy as np
import pytest

from ragstream_core.errors import GenerationGone
from ragstream_core.index import derived, vectors
from ragstream_core.index.catalog import open_catalog
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.ingestion import staging
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from tests.conftest import IngestBench
from tests.faults.harness import (
    DONE,
    LOCKED,
    Child,
    Killer,
    require_healed,
    require_own_vectors,
)
from tests.lengths import by_length

KILLS = by_length(5, 15, 220)
PAIRS = by_length(3, 6, 50)
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(staging, "BATCH_TEXTS", 4)
    monkeypatch.setattr(vectors, "COMPACT_MIN_ROWS", 8)
    monkeypatch.setattr(derived, "WHOLE_BELOW", 1)
    monkeypatch.setattr(derived, "MOST_CHANGED", 0.5)


def text(rng):
    return f"# {rng.choice(WORDS)}\n\n{' '.join(rng.choices(WORDS, k=30))} {rng.random()}"


def shuffle(bench, rng):
    """Write, rewrite, rename and delete some files."""
    for _ in range(rng.randrange(3, 12)):
        bench.write(f"d{rng.randrange(3)}/{rng.randrange(30)}.md", text(rng))
    present = sorted(bench.docs.rglob("*.md"))
    for path in rng.sample(present, min(4, len(present) - 3)):
        if rng.random() < 0.5:
            path.unlink()
        else:
            path.rename(path.with_name(f"r{rng.randrange(99)}.md"))


def scratch_digest(bench, tmp_path, n):
    other = IngestBench(tmp_path / f"scratch{n}", docs=bench.doc_root, embedder=bench.embedder)
    other.run()
    return other.view().digest


@pytest.mark.sweep
def test_killed_at_random_moments(bench, tmp_path, small_batches, record_property):
    rng, killer = random.Random(20), Killer(20, 0.03)
    seen = {"old": 0, "new": 0}
    shuffle(bench, rng)
    bench.run()
    for n in killer.times(KILLS):
        old = bench.view().digest
        shuffle(bench, rng)
        how = {"delete_replaced": n % 3 == 0}
        new = scratch_digest(bench, tmp_path, n)
        killer.strike(Child(lambda how=how: bench.run(**how), tmp_path / "said"))
        view = bench.fresh_view()
        assert view.digest in (old, new)
        seen["new" if view.digest == new else "old"] += 1
        require_own_vectors(bench, view)
        require_healed(bench, new, **how)
    record_property("kills", str(seen))
    print(f"\n{killer.line()}: readers saw the old state {seen['old']}, the new one "
          f"{seen['new']} times; 0 mixed, 0 orphan, 0 missing")  # fmt: skip


@pytest.mark.sweep
def test_of_two_ingests_at_once_one_commits(bench, tmp_path, small_batches):
    rng = random.Random(21)
    outcomes = []
    for n in range(PAIRS):
        shuffle(bench, rng)
        before = bench.view().generation if n else 0
        children = [Child(bench.run, tmp_path / f"said{n}{i}") for i in range(2)]
        for child in children:
            child.go()
        ends = [child.wait() for child in children]
        outcomes += ends
        assert set(ends) <= {DONE, LOCKED}, [child.words() for child in children]
        assert DONE in ends
        for child, end in zip(children, ends, strict=True):
            if end == LOCKED:
                assert f"process {children[1 - children.index(child)].pid}" in child.words()
        view = bench.fresh_view()
        assert view.generation == before + 1
        assert view.digest == scratch_digest(bench, tmp_path, n)
        require_own_vectors(bench, view)
        assert bench.health() == []


def test_readers_are_never_disturbed(bench, tmp_path, small_batches):
    """Two readers load generation after generation while 20 ingests drop and compact."""
    rng = random.Random(22)
    shuffle(bench, rng)
    bench.run()

    def read_all():
        until = time.monotonic() + 60
        seen = 0
        while not (tmp_path / "stop").exists() and time.monotonic() < until:
            forget_views()
            view = open_view(bench.index, project="demo")
            try:
                require_own_vectors(bench, view)
            except GenerationGone:  # dropped between the load and the texts: it says so
                continue
            seen += 1
        assert seen > 0

    readers = [Child(read_all, tmp_path / f"said{n}") for n in range(2)]
    for reader in readers:
        reader.go()
    for n in range(20):
        shuffle(bench, rng)
        bench.run(delete_replaced=n % 2 == 0)
    (tmp_path / "stop").touch()
    assert [reader.wait() for reader in readers] == [DONE, DONE], [r.words() for r in readers]
    assert bench.health() == []


@pytest.mark.sweep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_an_ended_ingest_is_as_a_killed_one(bench, tmp_path, small_batches, number):
    rng = random.Random(int(number))
    shuffle(bench, rng)
    bench.run()
    for n in range(by_length(1, 2, 20)):
        old = bench.view().digest
        shuffle(bench, rng)
        new = scratch_digest(bench, tmp_path, n)
        child = Child(bench.run, tmp_path / "said")
        child.go()
        time.sleep(rng.random() * 0.05)
        child.kill(number)
        assert child.wait() != 0 or bench.fresh_view().digest == new
        assert bench.fresh_view().digest in (old, new)
        require_healed(bench, new)


@pytest.mark.sweep
def test_a_stopped_ingest_holds_its_lock_and_goes_on(bench, tmp_path, small_batches):
    rng = random.Random(24)
    shuffle(bench, rng)
    bench.run()
    for n in range(by_length(2, 3, 20)):
        old = bench.view().digest
        shuffle(bench, rng)
        new = scratch_digest(bench, tmp_path, n)
        child = Child(bench.run, tmp_path / "said")
        child.go()
        time.sleep(rng.random() * 0.03)
        child.kill(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        rival = Child(bench.run, tmp_path / "rival")
        rival.go()
        assert rival.wait() in (DONE, LOCKED), rival.words()
        child.kill(signal.SIGCONT)
        assert child.wait() in (DONE, LOCKED), child.words()
        assert bench.fresh_view().digest == new != old
        require_healed(bench, new)


@pytest.mark.sweep
def test_a_lock_is_free_at_once_when_its_owner_was_killed(bench, tmp_path):
    bench.write("a.md", "text")
    bench.run()
    for n in range(by_length(2, 4, 20)):
        child = Child(lambda: _hold(bench), tmp_path / "said")
        child.go()
        while not (tmp_path / "held").exists():
            time.sleep(0.001)
        child.kill()
        child.wait()
        (tmp_path / "held").unlink()
        bench.write("a.md", f"text {n}")
        assert bench.run().committed


def _hold(bench):
    with open_catalog(bench.index):
        (bench.root / "held").touch()
        time.sleep(60)


@pytest.mark.sweep
def test_what_is_read_is_one_version_of_a_file_that_is_rewritten_all_the_time(bench):
    """Hash and chunks come from the same bytes, or the old version stays."""
    versions = [f"# Version {v}\n\n" + f"line of version {v}.\n" * 400 for v in range(5)]
    hot = bench.write("hot.md", versions[0])
    bench.write("calm.md", "calm")
    bench.run()
    stop = threading.Event()

    def rewrite():
        rng = random.Random(25)
        while not stop.is_set():
            hot.write_text(rng.choice(versions))
            time.sleep(0.003)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(by_length(8, 15, 100)):
            bench.run()
            view = bench.fresh_view()
            chunks = [c for c in view.chunks(view.chunk_ids) if c.source == "hot.md"]
            seen = {v for c in chunks for v in re.findall(r"version (\d)", c.snippet)}
            assert len(seen) <= 1, seen
            if chunks:
                (sha,) = {c.meta["sha256"] for c in chunks}
                assert sha in {_sha(v) for v in versions}
    finally:
        stop.set()
        writer.join()
    bench.run()
    assert bench.health() == []


def _sha(text):
    from ragstream_core.records.identity import sha256_hex

    return sha256_hex(text)


def test_stat_never_hides_a_change_and_a_touch_embeds_nothing(bench):
    """Same size and mtime with other bytes is embedded anew; another mtime with the same is not."""
    for n in range(100):
        bench.write(f"{n:02}.md", f"contents number {n:02}, first", mtime=1_700_000_000)
    bench.run()
    for n in range(50):
        bench.write(f"{n:02}.md", f"contents number {n:02}, other", mtime=1_700_000_000)
    for n in range(50, 100):
        bench.write(f"{n:02}.md", f"contents number {n:02}, first", mtime=1_700_000_000 + n)
    seen = len(bench.embedder.seen)
    stats = bench.run()
    assert sorted(bench.embedder.seen[seen:]) == [
        f"contents number {n:02}, other" for n in range(50)
    ]
    assert (stats.files["updated"], stats.files["touched"]) == (50, 50)
    assert IngestionConfig().retain_generations > 1


def test_a_compaction_waits_for_the_reader_between_its_rows_and_its_mapping(
    bench, tmp_path, small_batches, monkeypatch
):
    """The reader has read which rows are live and where; then everything is moved."""
    from ragstream_core.index import vectors

    for n in range(16):
        bench.write(f"{n}.md", f"text number {n}")
    bench.run()
    for n in range(8):
        (bench.docs / f"{n}.md").unlink()
    real, begun = vectors.map_rows, []
    mover = Child(lambda: bench.run(delete_replaced=True), tmp_path / "said")

    def pause(path, *, rows, dimension):
        if not begun:
            begun.append(mover.go())
            time.sleep(0.3)
        return real(path, rows=rows, dimension=dimension)

    with monkeypatch.context() as patch:
        patch.setattr(vectors, "map_rows", pause)
        view = bench.fresh_view()
    assert len(view.chunk_ids) == 16
    held = np.asarray(view.vectors)
    assert mover.wait() == DONE, mover.words()
    assert bench.vector_file().name.endswith("-2.f32")
    assert (np.asarray(view.vectors) == held).all()
    after = bench.fresh_view()
    assert len(after.chunk_ids) == 8
    require_own_vectors(bench, after)


def test_a_reader_whose_vector_file_is_gone_starts_again(bench, monkeypatch, small_batches):
    """Outside of a transaction the file may vanish: the reader looks again instead of failing."""
    from ragstream_core.index import generation_rows, vectors

    for n in range(16):
        bench.write(f"{n}.md", f"text number {n}")
    bench.run()
    real, done = vectors.map_rows, []

    def vanish(path, *, rows, dimension):
        if not done:
            done.append(path)
            raise FileNotFoundError(path)
        return real(path, rows=rows, dimension=dimension)

    with monkeypatch.context() as patch:
        patch.setattr(vectors, "map_rows", vanish)
        patch.setattr(generation_rows, "_epoch_now", lambda db, fp: 2)
        view = bench.fresh_view()
    assert done and len(view.chunk_ids) == 16
