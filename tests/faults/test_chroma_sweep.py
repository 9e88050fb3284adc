"""A sync of the Chroma collection whose n-th system call is killed or fails (strace).

Once in the process that seals and publishes, once in the children that let Chroma write. Afterwards
CURRENT names a whole collection, the old one or the new one, and the next sync completes. The full
form takes every call of the publisher and many of Chroma's, the short form a few.
"""

import shutil
import sqlite3

import pytest

from ragstream_core.errors import RagstreamError
from ragstream_core.ingestion import scan
from ragstream_core.proposers.chroma import seal
from tests.faults.harness import CRASH, DONE, Child, need_strace
from tests.faults.test_chroma_kills import (
    collection_in,
    require_healed,
    require_old_or_new,
    template,
)
from tests.lengths import FULL, by_length

__all__ = ["template"]
PUBLISHER = ("fsync", "rename", "unlink", "unlinkat", "rmdir", "mkdir", "write")
CHROMA = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "write")
EFFECTS = ("signal=KILL", "error=ENOSPC", "error=EIO")
SAMPLE = {"publisher": 10_000 if FULL else 1, "chroma": 8 if FULL else 1}
SHORT = {"signal=KILL": ("rename", "pwrite64")}
LONG = {**SHORT, "error=ENOSPC": ("fsync",)}


@pytest.fixture(autouse=True, scope="module")
def forked_chroma():
    """Override the fixture of the same name: strace follows children of the process, no others."""


@pytest.fixture(autouse=True)
def ground(monkeypatch):
    need_strace()
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young


def hindered(collection, said, *expressions, follow):
    """Run a sync under strace; return its exit status and the trace."""
    out = said.with_name("trace")
    clean = (RagstreamError, OSError, sqlite3.Error)
    child = Child(lambda: collection.sync(), said, clean=clean)
    child.trace(*expressions, out=out, follow=follow)
    child.go()
    status = child.wait()
    assert status != CRASH, child.words()
    return status, out.read_text()


@pytest.mark.sweep
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("where", ["publisher", "chroma"])
def test_every_call_may_be_the_last(template, bench, tmp_path, where, effect, record_property):  # noqa: F811
    follow, calls = where == "chroma", CHROMA if where == "chroma" else PUBLISHER
    if follow and "error" in effect:  # Chroma's threads wake each other by writes to an eventfd
        calls = [call for call in calls if call != "write"]
    if not FULL:
        calls = [call for call in calls if call in by_length(SHORT, LONG, LONG).get(effect, ())]
    if not calls:
        pytest.skip("only in a longer form")
    kept = bench.root / "kept"
    shutil.copytree(template.root, bench.root, dirs_exist_ok=True)
    collection = collection_in(bench)
    shutil.copytree(collection.chroma_dir, kept)
    status, trace = hindered(
        collection, tmp_path / "said", f"trace={','.join(calls)}", follow=follow
    )
    assert status == DONE
    lines = trace.splitlines()
    points = hits = old_seen = 0
    for call in calls:
        number = most_of_one(lines, call)
        for n in range(1, number + 1, max(1, number // SAMPLE[where])):
            shutil.rmtree(collection.chroma_dir)
            shutil.copytree(kept, collection.chroma_dir)
            old = seal.current(collection.chroma_dir).name
            inject = f"inject={call}:{effect}:when={n}"
            _, trace = hindered(
                collection, tmp_path / "said", f"trace={call}", inject, follow=follow
            )
            points += 1
            hits += "(INJECTED)" in trace or "killed by SIGKILL" in trace
            require_old_or_new(collection, old)
            old_seen += seal.current(collection.chroma_dir).name == old
            require_healed(collection)
            if FULL and points % 10 == 1:
                assert collection.faults(vectors=True) == []
    line = f"{points} runs, {hits} hit: CURRENT named the old collection {old_seen} times"
    record_property("sweep", line)
    print(f"\nchroma {where} {effect}: {line}; 0 torn, all completed by the next sync")
    assert hits >= max(1, points * (0.5 if follow else 0.9))


def most_of_one(lines, call):
    """How often the process or thread that makes a call most often makes it."""
    counts = {}
    for line in lines:
        if f" {call}(" in f" {line}":
            pid = line.split()[0]
            counts[pid] = counts.get(pid, 0) + 1
    return max(counts.values(), default=0)
