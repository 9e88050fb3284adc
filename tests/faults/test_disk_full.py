"""Disks of every size: a refusal that names path and bytes, the old state intact, then it works."""

import os
import random
import shutil
import subprocess

import pytest

from ragstream_core.ingestion import staging
from ragstream_core.platform import disk
from tests.conftest import IngestBench
from tests.faults.harness import CLEAN, DONE, Child, require_healed, require_own_vectors

SIZES = (96, 128, 160, 200, 240, 280, 320, 400, 480, 640, 800, 4000)
"""KiB of the disk that the index lies on."""
WORDS = ["alpha", "beta", "gamma", "delta"]


@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs that can be made larger; skipped where this user may not mount."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(kib, *more):
        return subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kib}k{''.join(more)}", "tmpfs", str(folder)],
            capture_output=True, check=False,
        ).returncode  # fmt: skip

    if os.geteuid() != 0 or shutil.which("mount") is None or mount(4000) != 0:
        pytest.skip("needs root and tmpfs; the RLIMIT_FSIZE test beside this one needs neither")
    yield lambda kib: mount(kib, ",remount")
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(bench, n, count=60):
    rng = random.Random(n)
    for i in range(count):
        bench.write(f"{i}.md", f"# Part {i}\n\n{' '.join(rng.choices(WORDS, k=25))} {n}")


def test_a_disk_of_any_size(tmp_path, small_disk, monkeypatch):
    monkeypatch.setattr(staging, "BATCH_TEXTS", 8)
    monkeypatch.setattr(disk, "RESERVE", -(10**9))  # into the wall, not before it
    outcomes = []
    for n, kib in enumerate(SIZES):
        small_disk(20_000)
        root = tmp_path / "disk" / f"n{n}"
        bench = IngestBench(root, docs=tmp_path / f"docs{n}")
        fill(bench, n, 10)
        bench.run()
        old = bench.view().digest
        fill(bench, n + 100)
        small_disk(kib)
        child = Child(bench.run, tmp_path / "said")
        child.go()
        status = child.wait()
        outcomes.append(status)
        assert status in (DONE, CLEAN), child.words()
        if status == CLEAN:
            assert str(bench.index) in child.words() and "next: free disk space" in child.words()
            assert bench.fresh_view().digest == old
        view = bench.fresh_view()
        require_own_vectors(bench, view)
        small_disk(20_000)
        require_healed(bench, scratch(bench, tmp_path, n))
        shutil.rmtree(root)
    assert {DONE, CLEAN} <= set(outcomes), outcomes
    print(f"\n{len(SIZES)} disks: {outcomes.count(CLEAN)} clean refusals, 0 lost, all healed")


def scratch(bench, tmp_path, n):
    other = IngestBench(tmp_path / f"scratch{n}", docs=bench.doc_root, embedder=bench.embedder)
    other.run()
    return other.view().digest


def test_a_nearly_full_disk_is_refused_before_anything_is_begun(tmp_path, small_disk):
    bench = IngestBench(tmp_path / "disk", docs=tmp_path / "docs")
    fill(bench, 1)
    child = Child(bench.run, tmp_path / "said")
    child.go()
    assert child.wait() == CLEAN
    said = child.words()
    assert str(bench.index) in said and "bytes to write" in said and "free" in said
    assert not list(bench.index.glob("*.f32"))


def test_the_reserve_is_measured_on_the_disk_itself(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=disk.RESERVE + 200))
    disk.require_space(tmp_path, 100)
    with pytest.raises(disk.OperationFailed) as caught:
        disk.require_space(tmp_path, 101)
    assert "101 bytes" in caught.value.message and str(disk.RESERVE + 200) in caught.value.message
