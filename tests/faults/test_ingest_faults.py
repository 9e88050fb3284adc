"""Kills, full disks, torn tails and rivals: the index is the old one or the new one, never less."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragstream_core.errors import OperationFailed, ProjectLocked
from ragstream_core.index.schema import project_lock
from ragstream_core.index.view import forget_views
from ragstream_core.ingestion import staging
from ragstream_core.platform import files

ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}

INGEST = """
import sys
from pathlib import Path
from ragstream_core.text.chunk_profiles import chunk_profile
from ragstream_core.models.embedders.hashed import HashedEmbedder
from ragstream_core.errors import ProjectLocked
from ragstream_core.ingestion import staging
from ragstream_core.text.chunker import Chunker
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.ingestion_manager import IngestionManager
import ragstream_core.text.bm25, ragstream_core.index.vectors
staging.BATCH_TEXTS = 8
manager = IngestionManager(
    Path(sys.argv[1]), Path(sys.argv[2]),
    embedder=HashedEmbedder(), chunkers=lambda name: Chunker(chunk_profile(name)))
print("go", flush=True)
sys.stdin.readline()
try:
    stats = manager.run("demo", IngestionConfig())
    print("done", stats.committed, flush=True)
except ProjectLocked as error:
    print("locked", error.message, flush=True)
"""


def start(bench):
    process = subprocess.Popen(
        [sys.executable, "-c", INGEST, str(bench.doc_root), str(bench.root / "index")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV,
    )  # fmt: skip
    assert process.stdout.readline() == "go\n", process.stderr.read()
    return process


def go(process):
    process.stdin.write("\n")
    process.stdin.flush()


def fill(bench, rng, count=60):
    for n in range(count):
        words = " ".join(rng.choices(["alpha", "beta", "gamma", "delta", "epsilon"], k=30))
        bench.write(f"d{n % 5}/{n:03}.md", f"# Part {n}\n\n{words} {rng.random()}")


def digests_agree(bench):
    assert bench.health() == []
    assert bench.view().digest == bench.from_scratch().view().digest


def test_what_a_killed_first_ingest_embedded_is_kept(bench):
    fill(bench, random.Random(1), 80)
    process = start(bench)
    go(process)
    catalog = bench.index / "catalog.sqlite"
    until = time.monotonic() + 30
    while not list(bench.index.glob("*.f32")) and time.monotonic() < until:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert catalog.exists()
    stats = bench.run()
    if stats.committed:  # else the kill came too late
        assert stats.chunks["embedded"] + stats.chunks["reused"] == 80
    digests_agree(bench)


def test_a_tail_torn_at_every_byte_of_the_last_row_is_harmless(bench):
    for n in range(3):
        bench.write(f"{n}.md", f"text {n}")
    bench.run()
    path, digest = bench.vector_file(), bench.view().digest
    committed = path.read_bytes()
    stride = len(committed) // 3
    torn = bytes(range(256)) * (stride // 256 + 1)
    for cut in range(stride):
        path.write_bytes(committed + torn[:cut])
        forget_views()
        assert bench.view().digest == digest
    bench.write("new.md", "one more")
    stats = bench.run()
    assert stats.chunks["embedded"] == 1
    assert path.stat().st_size == 4 * stride
    digests_agree(bench)


def test_the_last_row_torn_at_every_byte_before_its_commit_is_written_again(bench):
    bench.write("a.md", "kept")
    bench.run()
    path = bench.vector_file()
    committed = path.read_bytes()
    for cut in range(0, len(committed), 97):
        path.write_bytes(committed + b"\xff" * cut)
        bench.write("b.md", f"version {cut}")
        bench.run(delete_replaced=True)
        assert bench.health() == []
        committed = path.read_bytes()[: len(path.read_bytes()) // 1536 * 1536]


class Full:
    """Fails the n-th call with ENOSPC."""

    def __init__(self, real, n):
        self.real, self.left = real, n

    def __call__(self, *args, **kwargs):
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.real(*args, **kwargs)


@pytest.mark.parametrize("call", ["pwrite", "fsync", "replace"])
def test_a_full_disk_at_every_call_loses_nothing(bench, monkeypatch, call):
    monkeypatch.setattr(staging, "BATCH_TEXTS", 2)
    bench.write("first.md", "first")
    bench.run()
    round_no = 0
    for n in range(1, 50):
        old = bench.view().digest
        for k in range(4):
            bench.write(f"{k}.md", f"text {k} {call} {n}")
        full = Full(getattr(os, call), n)
        with monkeypatch.context() as patch:
            patch.setattr(files.os, call, full)
            try:
                stats = bench.run()
            except OperationFailed as error:
                assert "No space left" in error.message
                assert str(bench.index) in error.message
                assert error.hint
                assert bench.fresh_view().digest == old
            else:
                assert bench.fresh_view().digest != old
                assert (full.left <= 0) == bool(stats.warnings)
        bench.run()
        assert bench.health() == []
        round_no = n
        if full.left > 0:
            break
    assert round_no > 1
    assert full.left > 0  # the sweep went past the last call
    digests_agree(bench)


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
from ragstream_core.errors import OperationFailed
"""


def test_a_quota_of_any_size_is_a_clean_failure(bench):
    bench.write("first.md", "first")
    bench.run()
    fill(bench, random.Random(2), 40)
    old, failed = bench.view().digest, 0
    script = LIMITED + INGEST.replace('print("go", flush=True)\nsys.stdin.readline()\n', "")
    script += 'except OperationFailed as error:\n    print("failed", error.message)\n'
    for limit in range(4096, 400_000, 24_000):
        answer = subprocess.run(
            [sys.executable, "-B", "-c", script, str(bench.doc_root),
             str(bench.root / "index"), str(limit)],
            capture_output=True, text=True, env=ENV, check=False,
        )  # fmt: skip
        word = answer.stdout.split()[0] if answer.stdout else answer.stderr
        if word == "done":
            break
        failed += 1
        assert word == "failed", answer.stderr
        assert str(bench.index) in answer.stdout
        assert bench.fresh_view().digest == old
    assert failed > 2
    bench.run()
    digests_agree(bench)


def test_of_two_ingests_one_is_told_who_holds_the_lock(bench):
    fill(bench, random.Random(3))
    with project_lock(bench.index):
        rival = start(bench)
        go(rival)
        out, err = rival.communicate(timeout=240)
    assert out.startswith("locked"), err
    assert str(os.getpid()) in out
    rivals = [start(bench) for _ in range(2)]
    for rival in rivals:
        go(rival)
    answers = sorted(rival.communicate(timeout=240)[0].split()[0] for rival in rivals)
    assert answers in (["done", "locked"], ["done", "done"])
    bench.run()
    digests_agree(bench)


def test_the_lock_is_refused_in_process_too(bench):
    bench.write("a.md", "text")
    with project_lock(bench.index), pytest.raises(ProjectLocked):
        bench.run()
    assert bench.run().committed


def test_a_reader_rolls_back_what_a_killed_writer_left(bench):
    bench.write("a.md", "text")
    bench.run()
    digest = bench.view().digest
    script = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN IMMEDIATE")
db.execute("UPDATE generations SET digest = 'half done'")
for n in range(4000):
    db.execute("INSERT INTO meta VALUES(?, ?)", (str(n), "x" * 400))
os.kill(os.getpid(), 9)
"""
    catalog = bench.index / "catalog.sqlite"
    subprocess.run([sys.executable, "-c", script, str(catalog)], check=False)
    assert (bench.index / "catalog.sqlite-journal").exists()
    assert bench.pending() is not None  # never a no-op on top of a hot journal
    assert bench.fresh_view().digest == digest
    assert bench.health() == []


NO_OP = """
import json, sys, time
from pathlib import Path
docs = sys.argv[2]
opened, written = [], []
def hook(event, args):
    if event == "open" and isinstance(args[0], str):
        if args[0].startswith(docs):
            opened.append(args[0])
        if isinstance(args[1], str) and set(args[1]) & set("wax+"):
            written.append(args[0])
    if event in ("os.rename", "os.remove", "os.mkdir", "os.truncate", "os.chmod"):
        written.append(str(args[0]))
sys.addaudithook(hook)
from ragstream_core.ingestion.ingestion_config import IngestionConfig
from ragstream_core.ingestion.document_tree import DocumentTree
from ragstream_core.ingestion.forecast import inspect
found = inspect(Path(sys.argv[1]), DocumentTree.of(Path(docs)), scan_fp=IngestionConfig().scan_fp)
stats = found.idle_stats("demo", seconds=0.0).to_json()
heavy = {"numpy", "dagster", "chromadb", "torch", "onnxruntime", "pydantic", "pathspec", "pandas"}
print(json.dumps({"pending": found.pending is not None, "opened": opened, "written": written,
                  "heavy": sorted(heavy & set(sys.modules)), "stats": stats}))
"""


def test_a_no_op_opens_no_document_writes_nothing_and_loads_nothing_heavy(bench):
    fill(bench, random.Random(5))
    bench.run()
    later = bench.manager(clock=lambda: time.time_ns() + 10**10)
    from ragstream_core.ingestion.ingestion_config import IngestionConfig

    later.run(bench.project, IngestionConfig())
    answer = subprocess.run(
        [sys.executable, "-B", "-c", NO_OP, str(bench.index), str(bench.docs)],
        capture_output=True, text=True, env=ENV, check=True,
    )  # fmt: skip
    found = json.loads(answer.stdout)
    assert not found["pending"]
    assert (found["opened"], found["written"], found["heavy"]) == ([], [], [])
    assert found["stats"]["files"]["unchanged"] == 60
