"""A sync of the Chroma collection that is killed: the old collection or the new one, never less."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from ragstream_core.ingestion import scan
from ragstream_core.proposers.chroma import seal
from ragstream_core.proposers.chroma.collection import Collection
from ragstream_core.proposers.chroma.seal import copy_of
from tests.lengths import FULL, by_length

KILLS = 60 if FULL else 4
FEW = ("after write_receipt", "after publish_dir")
MORE = (*FEW, "after copy_checked", "after point_to")
ALL = (
    *(*MORE, "before copy_checked", "after replace_bytes", "before write_receipt"),
    *("before publish_dir", "before point_to", "before sweep"),
)
SYNC = """
import os, sys
from pathlib import Path
from ragstream_core.proposers.chroma import collection, seal
when, name = sys.argv[4].split()
owner = {"write_receipt": seal, "point_to": seal}.get(name, collection)
real = getattr(owner, name, None)

def dying(*args, **given):
    if when == "after":
        real(*args, **given)
    os.kill(os.getpid(), 9)

if name != "nothing":
    setattr(owner, name, dying)
collection.Collection(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], "toy").sync()
"""


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(scan, "RACY_NS", 0)  # files of a test are always young


def collection_in(bench):
    return Collection(bench.root / "chroma_db" / "demo", bench.index, bench.project, "toy")


@pytest.fixture(scope="module")
def template(make_bench):
    """A collection that is one generation behind its index."""
    made = make_bench()
    for i in range(40):
        made.write(f"f{i}.md", f"# Heading {i}\n\nA sentence about subject number {i}.\n")
    made.run()
    collection_in(made).sync()
    made.write("f1.md", "# Another\n\nWholly different words.\n")
    (made.docs / "f2.md").unlink()
    made.run()
    return made


@pytest.fixture
def behind(template, bench):
    shutil.copytree(template.root, bench.root, dirs_exist_ok=True)
    return collection_in(bench)


def start(collection, point="before nothing"):
    arguments = [str(collection.chroma_dir), str(collection.index_dir), collection.project, point]
    return subprocess.Popen(
        [sys.executable, "-c", SYNC, *arguments], start_new_session=True, stderr=subprocess.DEVNULL
    )


def require_old_or_new(collection, old):
    folder = seal.current(collection.chroma_dir)
    assert folder is not None
    with copy_of(folder):  # whatever CURRENT names is whole
        receipt = seal.receipt_of(folder)
    assert receipt.generation in (1, 2)
    assert (receipt.generation == 1) == (folder.name == old)


def require_healed(collection):
    report = collection.sync()
    assert report.receipt.generation == 2
    left = {path.name for path in collection.chroma_dir.iterdir()}
    assert left == {".lock", ".lock-holder", "CURRENT", report.folder.name}


@pytest.mark.sweep
@pytest.mark.parametrize("point", by_length(FEW, MORE, ALL))
def test_killed_at_a_chosen_step(behind, point):
    old = seal.current(behind.chroma_dir).name
    assert start(behind, point).wait(timeout=120) == -signal.SIGKILL
    require_old_or_new(behind, old)
    require_healed(behind)
    assert behind.faults(vectors=True) == []


@pytest.mark.slow
def test_killed_at_any_moment(behind):
    chance = random.Random(11)
    old = seal.current(behind.chroma_dir).name
    began = time.monotonic()
    copy = behind.chroma_dir.parent / "timed"
    shutil.copytree(behind.chroma_dir, copy)
    timed = Collection(copy, behind.index_dir, behind.project, "toy")
    assert start(timed).wait(timeout=120) == 0
    longest = time.monotonic() - began
    for _ in range(KILLS):
        running = start(behind)
        time.sleep(chance.uniform(0.1, longest))
        os.killpg(running.pid, signal.SIGKILL)  # with the child that writes
        running.wait()
        require_old_or_new(behind, old)
    require_healed(behind)
    assert behind.faults(vectors=True) == []
