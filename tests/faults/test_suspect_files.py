"""R8: a sync that fails is not tried again; the file is left and its rows move to a new one.

``strace`` lets the n-th fsync fail, one run a call. In the short form only calls on the vector file
and a sample of the others.
"""

import os
import shutil
import sqlite3

import pytest

from ragstream_core.errors import OperationFailed
from ragstream_core.index import vectors
from ragstream_core.ingestion import staging
from ragstream_core.platform import files
from ragstream_core.platform.files import is_suspect
from tests.faults.harness import (
    CLEAN,
    DONE,
    Child,
    Ground,
    Tally,
    need_strace,
    require_healed,
    require_old_or_new,
)
from tests.faults.test_sweep import everything_changes, three_generations
from tests.lengths import FULL, by_length

SYNCS = "fsync,fdatasync"


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    need_strace()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "BATCH_TEXTS", 1)
        patch.setattr(vectors, "COMPACT_MIN_ROWS", 4)
        yield Ground(tmp_path_factory.mktemp("suspect"), three_generations, everything_changes)


def syncs(ground):
    """(call, which of its kind, on a vector file) of an untouched run."""
    bench = ground.copy()
    out = bench.root / "trace"
    child = ground.child(bench)
    child.trace(f"trace={SYNCS}", out=out, options=("-y",))
    child.go()
    assert child.wait() == DONE, child.words()
    seen, found = dict.fromkeys(SYNCS.split(","), 0), []
    for line in out.read_text().splitlines():
        for call in seen:
            if f" {call}(" in line:
                seen[call] += 1
                found.append((call, seen[call], ".f32" in line))
    shutil.rmtree(bench.root)
    return found


def named_files(bench):
    db = sqlite3.connect(bench.index / "catalog.sqlite")
    rows = db.execute("SELECT epoch FROM vector_files").fetchall()
    db.close()
    return {
        path for path in bench.index.glob("*.f32") for (n,) in rows if path.stem.endswith(f"-{n}")
    }


@pytest.mark.sweep
def test_no_failed_sync_is_taken_for_a_commit_or_tried_again(ground, record_property):
    tally, suspects = Tally(), 0
    for at, (call, n, on_vectors) in enumerate(syncs(ground)):
        if not (FULL or on_vectors or at % by_length(11, 5, 1) == 0):
            continue
        bench = ground.copy()
        child = ground.child(bench)
        out = bench.root / "trace"
        child.trace(f"trace={SYNCS}", f"inject={call}:error=EIO:when={n}", out=out)
        child.go()
        status = child.wait()
        assert status in (DONE, CLEAN), child.words()
        assert "(INJECTED)" in out.read_text()
        tally.points, tally.hit = tally.points + 1, tally.hit + 1
        tally.refused += status == CLEAN
        require_old_or_new(bench, ground, tally)
        if status == DONE:
            assert bench.view().digest == ground.new
        suspect = [path for path in named_files(bench) if is_suspect(path)]
        if suspect:
            suspects += 1
            assert status == CLEAN and "the disk failed" in child.words()
            require_left_alone(ground, bench, suspect[0])
        require_healed(bench, ground.new, **ground.settings)
        assert not any(is_suspect(path) for path in bench.index.glob("*.f32"))
        shutil.rmtree(bench.root)
    record_property("syncs", tally.line())
    print(f"\nfailed syncs: {tally.line()}; {suspects} vector files left alone, 0 false commits")
    assert suspects >= 2


def require_left_alone(ground, bench, suspect):
    """The next run writes and syncs another file, says so, and answers with every vector."""
    kept = bench.root / "kept"
    os.link(suspect, kept)
    before = kept.read_bytes()
    out, said = bench.root / "calls", bench.root / "warnings"

    def run():
        said.write_text("\n".join(bench.run(**ground.settings).warnings))

    child = Child(run, bench.root / "said")
    child.trace("trace=pwrite64,write,ftruncate,fsync,fdatasync", out=out, options=("-y",))
    child.go()
    assert child.wait() == DONE, child.words()
    assert f"{suspect.name}: the disk had failed to keep it" in said.read_text()
    assert suspect.name not in out.read_text()
    assert not suspect.exists() and kept.read_bytes() == before
    (named,) = named_files(bench)
    assert named != suspect and f"fsync({_number(out.read_text(), named)}" in out.read_text()


def _number(trace, path):
    """The descriptor with which a file was synced."""
    (line,) = [x for x in trace.splitlines() if " fsync(" in x and str(path) in x][-1:]
    return line.partition("fsync(")[2].partition(")")[0]


@pytest.fixture
def failing(bench, monkeypatch):
    """A bench whose second ingest failed to sync its vectors."""
    for n in range(6):
        bench.write(f"{n}.md", f"text number {n}")
    bench.run()
    bench.write("6.md", "one more text")
    real, failed = os.fsync, []

    def fsync(fd):
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".f32") and not failed:
            failed.append(fd)
            raise OSError(5, "Input/output error")
        return real(fd)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", fsync)
        with pytest.raises(OperationFailed) as caught:
            bench.run()
    assert failed and "check the disk" in caught.value.hint
    assert is_suspect(bench.vector_file())
    return bench


def test_readers_go_on_and_the_next_ingest_moves_the_rows(failing):
    old = failing.vector_file()
    assert len(failing.fresh_view().chunk_ids) == 6
    stats = failing.run()
    assert stats.chunks["embedded"] == 1  # what was committed is carried over, not made again
    assert [w for w in stats.warnings if w.startswith(old.name)]
    assert failing.vector_file() != old and failing.health() == []
    require_healed(failing, failing.from_scratch().view().digest)


def test_what_the_suspect_file_lost_is_found_by_its_crc(failing):
    path = failing.vector_file()
    path.chmod(0o600)
    raw = bytearray(path.read_bytes())
    raw[100] ^= 4
    path.write_bytes(raw)
    path.chmod(0o400)
    failing.run()
    assert failing.health() != []  # carried with its old crc: never blessed
    stats = failing.run(verify=True)
    assert "1 damaged vectors were made again" in stats.warnings
    assert failing.health() == []


@pytest.mark.parametrize("left", [0, 2])
def test_a_suspect_file_that_lost_its_end_is_rebuilt(failing, left):
    path = failing.vector_file()
    stride = failing.embedder.dimension * 4
    path.chmod(0o600)
    os.truncate(path, left * stride + 7)
    path.chmod(0o400)
    stats = failing.run(rebuild=True)
    assert stats.chunks["embedded"] == 7 - left
    assert failing.health() == []


def test_a_new_file_whose_folder_could_not_be_synced_is_not_used(bench, monkeypatch):
    bench.write("a.md", "text")
    real, failed = files.sync_dir, []

    def sync_dir(path):
        if list(path.glob("*.f32")) and not failed:
            failed.append(path)
            raise OSError(5, "Input/output error")
        real(path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "sync_dir", sync_dir)
        with pytest.raises(OperationFailed):
            bench.run()
    (first,) = bench.index.glob("*.f32")
    assert failed and is_suspect(first)
    require_healed(bench, bench.from_scratch().view().digest)
    assert bench.vector_file().name != first.name
