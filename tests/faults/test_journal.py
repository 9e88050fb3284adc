"""The journal under kills, cuts, flipped bits, a full or failing disk, and many writers.

The full form (``LENGTH=full``) kills 200 times, cuts at every byte, flips 1,000 bits and sweeps
every system call; the short form takes samples.
"""

import contextlib
import json
import mmap
import os
import random
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import Cleared, TagEdit, Turn
from ragstream_core.errors import OperationFailed, RagstreamError
from tests.faults.harness import CLEAN, CRASH, DONE, EFFECTS, Child, need_strace
from tests.lengths import by_length

KILLS = by_length(4, 10, 200)
FLIPS = by_length(40, 120, 1000)
EACH = by_length(15, 40, 500)
STEP = by_length(89, 23, 1)
WHEN = "2026-10-05T14:07:09+02:00"
CURRENT = "conversation.log"
CALLS = ("pwrite64", "fsync", "ftruncate", "rename", "openat", "mkdir", "write")


@pytest.fixture
def fast_dir(tmp_path):
    """A folder in memory where there is one: for what is about bytes, not about the disk."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def turn(name, size=900):
    rng = random.Random(name)
    words = " ".join(rng.choices(["alpha", "beta", "gamma", "ä", '"', "\\"], k=size // 5))
    return Turn(name, name.partition("-")[0], WHEN, words, words[::-1])


def filled(folder, count, *, segment_bytes=64 << 20, size=900):
    log = Journal(folder, segment_bytes=segment_bytes)
    for n in range(1, count + 1):
        log.append([turn(f"id-{n}", size)])
    return log


def ids(log):
    return [entry.record.id for entry in log.entries()]


# --- R1, R9: kills, several writers ---


def write_on(folder, acks, name):
    """Append until somebody kills us; say what was acknowledged."""
    log = Journal(folder, segment_bytes=20_000)
    with open(acks, "ab", buffering=0) as out:
        for n in range(10_000):
            log.append([turn(f"{name}-{n}", 200)])
            out.write(f"{name}-{n}\n".encode())


@pytest.mark.sweep
def test_no_acknowledged_turn_is_lost_or_doubled_by_kills(tmp_path, record_property):
    rng = random.Random(9)
    logs, acks = tmp_path / "logs", tmp_path / "acks"
    wanted, kills, acked = by_length(30, 60, 2000), 0, []
    while kills < KILLS or len(acked) < wanted:
        names = [f"k{kills}w{w}" for w in (0, 1)]
        children = [Child(lambda name=name: write_on(logs, acks, name)) for name in names]
        for child in children:
            child.go()
        time.sleep(0.02 + rng.random() * 0.08)
        for child in rng.sample(children, 2):  # one of them goes on a moment longer
            child.kill()
            kills += 1
            time.sleep(rng.random() * 0.01)
        assert [child.wait() for child in children] == [-signal.SIGKILL] * 2
        acked = acks.read_text().splitlines() if acks.exists() else []
    found = Counter(ids(Journal(logs)))
    assert max(found.values()) == 1
    assert set(acked) <= set(found)
    assert len(found) - len(acked) <= kills  # at most the one turn that each was about to report
    for name in {name.partition("-")[0] for name in acked}:
        own = [i for i in ids(Journal(logs)) if i.startswith(f"{name}-")]
        assert own == [f"{name}-{n}" for n in range(len(own))]
    Journal(logs).append([turn("last-0")])
    report = Journal(logs).check()
    assert report.sound
    line = f"{kills} kills of 2 writers, {len(acked)} acknowledged: 0 lost, 0 doubled"
    record_property("kills", f"{line}; {report.segments} segments, {len(report.torn)} torn")
    print(f"\n{line}; {report.segments} segments, {len(report.torn)} torn")


@pytest.mark.sweep
@pytest.mark.parametrize("writers", [2, 8])
def test_many_writers_lose_and_mix_nothing(tmp_path, writers):
    def write(name):
        log = Journal(tmp_path / "logs", segment_bytes=50_000, wait_s=60)
        for n in range(EACH):
            log.append([turn(f"{name}-{n}", 200)])

    children = [
        Child(lambda name=f"w{w}": write(name), tmp_path / f"said{w}") for w in range(writers)
    ]
    for child in children:
        child.go()
    assert [child.wait() for child in children] == [DONE] * writers, [c.words() for c in children]
    found = ids(Journal(tmp_path / "logs"))
    assert len(found) == writers * EACH
    for w in range(writers):
        assert [i for i in found if i.startswith(f"w{w}-")] == [f"w{w}-{n}" for n in range(EACH)]
    assert Journal(tmp_path / "logs").check().sound


def test_a_lock_whose_owner_was_killed_is_free_at_once(tmp_path):
    def hold():
        with Journal(tmp_path).locked():
            (tmp_path / "held").touch()
            time.sleep(60)

    child = Child(hold)
    child.go()
    while not (tmp_path / "held").exists():
        time.sleep(0.002)
    child.kill()
    child.wait()
    Journal(tmp_path, wait_s=0.0).append([turn("id-1")])
    assert ids(Journal(tmp_path)) == ["id-1"]


# --- R1: cut anywhere ---


@pytest.mark.sweep
def test_cut_at_every_byte_of_the_last_three_records(fast_dir, record_property):
    log = filled(fast_dir / "origin", 6)
    entries = list(log.entries())
    data = (fast_dir / "origin" / CURRENT).read_bytes()
    start = entries[3].offset
    assert len(data) - start >= 3000
    folder = fast_dir / "cut"
    points = [
        *range(start, len(data) + 1, STEP),
        *(e.offset + d for e in entries[3:] for d in (-1, 0, 1)),
    ]
    for cut in points:
        folder.mkdir()
        (folder / CURRENT).write_bytes(data[:cut])
        whole = [e for e in entries if e.offset + e.size <= cut]
        kept = whole[-1].offset + whole[-1].size
        assert list(Journal(folder).entries()) == whole, cut

        healed = Journal(folder)
        (new,) = healed.append([turn("new-1")])
        assert list(Journal(folder).entries()) == [*whole, new], cut
        assert new.seq == len(whole) + 1
        assert (folder / CURRENT).read_bytes()[: new.offset] == data[:kept]
        torn = [path.read_bytes() for path in folder.glob("*.torn-*")]
        assert torn == ([data[kept:cut]] if cut > kept else [])
        assert len(healed.warnings) == len(torn)
        assert Journal(folder).check().sound
        shutil.rmtree(folder)
    line = f"cut at {len(points)} of {len(data) - start} bytes: 0 mis-repaired"
    record_property("cuts", line)
    print(f"\n{line}")


# --- R2: flipped bits ---


@pytest.mark.sweep
def test_every_flipped_bit_is_detected_and_costs_one_turn(fast_dir, record_property):
    rng = random.Random(4)
    origin = fast_dir / "origin"
    log = filled(origin, 14, segment_bytes=5000, size=400)
    log.append([TagEdit("tag-1", "id-3", WHEN, ("GOLD",))])
    entries = {e.seq: e for e in log.entries()}
    files = sorted(origin.glob("*.log"), key=lambda path: path.name)
    assert len(files) > 2
    places = [(path.name, byte) for path in files for byte in range(path.stat().st_size)]
    folder = fast_dir / "flipped"
    for _ in range(FLIPS):
        name, byte = rng.choice(places)
        shutil.copytree(origin, folder)
        data = bytearray((folder / name).read_bytes())
        data[byte] ^= 1 << rng.randrange(8)
        (folder / name).write_bytes(bytes(data))

        report = Journal(folder).check()
        assert report.damaged or report.torn, (name, byte)
        assert_all_but_one(list(Journal(folder).entries()), entries)
        assert_all_but_one(list(Journal(folder).backwards())[::-1], entries)
        (new,) = Journal(folder).append([turn("new-1")])
        assert new.seq > max(e.seq for e in Journal(folder).entries() if e.seq != new.seq)
        assert_all_but_one([e for e in Journal(folder).entries() if e.seq != new.seq], entries)
        kept = [path.read_bytes() for path in folder.glob("conversation*")]
        assert any(raw.startswith(bytes(data)) for raw in kept)  # nothing was overwritten
        shutil.rmtree(folder)
    line = f"{FLIPS} flipped bits: all detected, at most 1 of {len(entries)} turns lost each"
    record_property("flips", line)
    print(f"\n{line}")


def assert_all_but_one(found, entries):
    assert len(found) >= len(entries) - 1
    assert [e.seq for e in found] == sorted(e.seq for e in found)
    for entry in found:
        assert entry.record == entries[entry.seq].record


@pytest.mark.sweep
def test_noise_anywhere_never_crashes_a_reader(fast_dir):
    rng = random.Random(7)
    log = filled(fast_dir / "origin", 8, size=300)
    known = {e.seq: e.record for e in log.entries()}
    data = (fast_dir / "origin" / CURRENT).read_bytes()
    for n in range(by_length(15, 30, 200)):
        folder = fast_dir / f"n{n}"
        folder.mkdir()
        at, size = rng.randrange(len(data)), rng.randrange(1, 3000)
        noise = rng.choice([rng.randbytes(size), bytes(size), b"\n" * size, b'{"v":1,"seq":' * 99])
        (folder / CURRENT).write_bytes(data[:at] + noise + data[at + rng.choice([0, size]) :])
        Journal(folder).append([turn("new-1")])
        for entry in Journal(folder).entries():
            assert entry.record.id == "new-1" or known[entry.seq] == entry.record
        assert Journal(folder).check().damaged or Journal(folder).check().torn


# --- R7: no room ---


@pytest.mark.sweep
def test_where_a_file_may_not_grow_turns_are_refused_and_none_is_lost(tmp_path, record_property):
    def write(folder, limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        log = Journal(folder)
        with open(folder.parent / f"{folder.name}-acks", "ab", buffering=0) as out:
            for n in range(20):
                log.append([turn(f"id-{n}", 500)])
                out.write(f"id-{n}\n".encode())

    count = 0
    for limit in range(300, 6000, by_length(1400, 700, 97)):
        folder = tmp_path / f"f{limit}"
        child = Child(lambda f=folder, size=limit: write(f, size), tmp_path / f"said{limit}")
        child.go()
        assert child.wait() == CLEAN, child.words()
        said = child.words()
        assert str(folder / CURRENT) in said
        assert "bytes to write" in said and "bytes free" in said and "next: free disk" in said
        acks = tmp_path / f"f{limit}-acks"
        acked = acks.read_text().split() if acks.exists() else []
        assert ids(Journal(folder)) == acked
        assert not list(folder.glob("*.torn-*"))
        (new,) = Journal(folder).append([turn("new-1")])
        assert new.seq == len(acked) + 1
        assert Journal(folder).check().sound
        count += len(acked)
    record_property("full", f"{count} acknowledged under a limit, all readable")


# --- S: every system call ---


@pytest.fixture(scope="module")
def tracing():
    need_strace()


def plain(folder):
    filled(folder, 3, size=300)


def nothing(folder):
    """The folder is made by the first append."""


def full_segment(folder):
    filled(folder, 4, size=4000)


def torn(folder):
    plain(folder)
    with (folder / CURRENT).open("ab") as out:
        out.write(b'{"v":1,"seq":4,"len":300,"crc":"00')


def damaged(folder):
    plain(folder)
    path = folder / CURRENT
    path.write_bytes(path.read_bytes().replace(b"alpha", b"alpho", 1))


@pytest.mark.sweep
@pytest.mark.parametrize("state", [nothing, plain, full_segment, torn, damaged])
@pytest.mark.parametrize("effect", EFFECTS)
def test_every_call_may_be_the_last(tmp_path, tracing, state, effect, record_property):
    origin = tmp_path / "origin"
    state(origin)
    before = ids(Journal(origin))
    runs = hits = 0
    for call in CALLS:
        n, misses = 1, 0
        while misses == 0:
            folder = tmp_path / f"{call}-{n}"
            if origin.exists():
                shutil.copytree(origin, folder)
            hit = hinder(folder, before, call, f"{effect}:when={n}")
            runs, hits, misses = runs + 1, hits + hit, misses + (not hit)
            n += by_length(2 + n, 1 + n // 3, 1)
    record_property("sweep", f"{runs} runs, {hits} hit")
    assert hits >= by_length(3, 4, 10)


def hinder(folder, before, call, injection):
    out = folder.parent / "trace"
    acks = mmap.mmap(-1, 2)  # shared with the child: saying so takes no system call

    def write():
        log = Journal(folder, segment_bytes=8000)
        for n in (0, 1):
            with contextlib.suppress(OperationFailed):
                log.append([turn(f"new-{n + 1}", 300)])
                acks[n] = 1
        log.append([turn("new-3", 300)])

    child = Child(write, folder.parent / "said")
    child.trace(f"trace={call}", f"inject={call}:{injection}", out=out)
    child.go()
    status = child.wait()
    traced = out.read_text()
    hit = "(INJECTED)" in traced or "killed by SIGKILL" in traced
    what = (call, injection, child.words())
    assert status != CRASH, what
    found = ids(Journal(folder))
    acked = [f"new-{n + 1}" for n in (0, 1) if acks[n]]
    assert found[: len(before)] == before, what
    assert max(Counter(found).values(), default=0) <= 1, what
    assert set(acked) <= set(found), what
    if status == DONE and "EIO" not in injection and "ENOSPC" not in injection:
        assert found == [*before, "new-1", "new-2", "new-3"], what
    (new,) = Journal(folder).append([turn("after-1", 300)])
    assert ids(Journal(folder)) == [*found, "after-1"], what
    assert new.seq > len(before)
    shutil.rmtree(folder)
    return hit


@pytest.mark.sweep
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_purge_may_end_at_every_call(tmp_path, tracing, effect):
    """The one rewrite: what is left is a file as it was or as it will be; again, and it is done."""
    origin = tmp_path / "origin"
    log = filled(origin, 9, segment_bytes=2500, size=300)
    log.append([Cleared("c", WHEN, ((2, 5), (8, 8)), "range")])
    lines = {entry.seq: raw for entry, raw in log.lines()}
    left = {seq: raw for seq, raw in lines.items() if seq not in (2, 3, 4, 5, 8)}
    out, hits = tmp_path / "trace", 0
    for call in ("write", "fsync", "rename", "unlink", "openat"):
        n, hit = 1, True
        while hit:
            folder = tmp_path / f"{call}-{n}"
            shutil.copytree(origin, folder)
            child = Child(lambda f=folder: Journal(f).purge([(2, 5), (8, 8)]), tmp_path / "said")
            child.trace(f"trace={call}", f"inject={call}:{effect}:when={n}", out=out)
            child.go()
            assert child.wait() != CRASH, child.words()
            traced = out.read_text()
            hit = "(INJECTED)" in traced or "killed by SIGKILL" in traced
            hits += hit
            found = {entry.seq: raw for entry, raw in Journal(folder).lines()}
            assert found.items() <= lines.items()
            assert left.items() <= found.items()
            Journal(folder).purge([(2, 5), (8, 8)])
            assert {entry.seq: raw for entry, raw in Journal(folder).lines()} == left
            assert Journal(folder).check().sound
            shutil.rmtree(folder)
            n += by_length(2 + n, 1 + n // 3, 1)
    assert hits > 5


def test_a_failed_sync_is_never_tried_again_nor_acknowledged(tmp_path, tracing):
    """R8: the next append of any process begins a new segment."""
    plain(tmp_path / "origin")
    for n in (1, 2, 3):
        folder, out = tmp_path / f"n{n}", tmp_path / "trace"
        shutil.copytree(tmp_path / "origin", folder)
        acked = tmp_path / f"acked{n}"

        def write(folder=folder, acked=acked):
            log = Journal(folder)
            names = []
            for name in ("a-1", "a-2", "a-3", "a-4"):
                with contextlib.suppress(OperationFailed):
                    log.append([turn(name, 300)])
                    names.append(name)
            acked.write_text(json.dumps(names))

        child = Child(write, tmp_path / "said")
        child.trace("trace=fsync", f"inject=fsync:error=EIO:when={n}", out=out, options=("-y",))
        child.go()
        assert child.wait() == DONE, child.words()
        names = json.loads(acked.read_text())
        assert [name for name in ("a-1", "a-2", "a-3", "a-4") if name not in names] == [f"a-{n}"]
        assert ids(Journal(folder)) == ["id-1", "id-2", "id-3", *names]
        lines = out.read_text().splitlines()
        (failed,) = [i for i, line in enumerate(lines) if "(INJECTED)" in line]
        assert CURRENT in lines[failed]
        assert (folder / "conversation-1.log").exists()
        assert not os.stat(folder / "conversation-1.log").st_mode & 0o200
        assert "conversation-1.log" not in "".join(lines[failed + 1 :])
        assert Journal(folder).check().sound


def test_synced_before_it_is_acknowledged(tmp_path, tracing):
    """R214: write, sync of the file, for a new file sync of its folder, and only then the word."""
    folder, out = tmp_path / "logs", tmp_path / "trace"

    def write():
        log = Journal(folder)
        for name in ("id-1", "id-2"):
            log.append([turn(name)])
            os.write(2, b"ACK")

    child = Child(write, tmp_path / "said")
    child.trace("trace=pwrite64,fsync,write", out=out, options=("-y",))
    child.go()
    assert child.wait() == DONE, child.words()
    seen = []
    for line in out.read_text().splitlines():
        if "ACK" in line:
            seen.append("ack")
        elif CURRENT in line:
            seen.append("write" if "pwrite64" in line else "sync")
        elif "fsync" in line and line.split("<")[1].startswith(f"{folder}>"):
            seen.append("sync folder")
    assert seen == ["write", "sync", "sync folder", "ack", "write", "sync", "ack"]


def test_a_refusal_names_what_to_do(tmp_path):
    def write():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        Journal(tmp_path / "logs").append([turn("id-1")])

    child = Child(write, tmp_path / "said", clean=(RagstreamError,))
    child.go()
    assert child.wait() == CLEAN, child.words()
    assert "Traceback" not in child.words()
