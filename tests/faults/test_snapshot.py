"""Publishing the history: killed or hindered between any two steps, and damaged afterwards.

Readers see the old selection or the new one; every flipped bit that changes what a query returns
is found by `verify`, and publishing again heals it. The full form takes 1000 flips and cuts.
"""

import random
import re
import warnings

import pyarrow.ipc  # noqa: F401  # imported before the fork
import pytest

from ragstream_core.errors import RagstreamError
from ragstream_core.index.selection import build, publish
from ragstream_core.index.snapshot import forget_snapshots, open_snapshot
from tests.faults.harness import CALLS, CLEAN, CRASH, DONE, Child, can_trace
from tests.history_rows import mark, row, vectors_of
from tests.lengths import by_length

FLIPS = by_length(32, 100, 1000)
MISSING = "strace is not installed or may not attach: NO system call is swept"
TAGS = [("GOLD",), (), ("a", "b"), ("SILVER",)]
OLD = [row(n, tags=TAGS[n % 4]) for n in range(1, 9)]
NEW = [*OLD[1:], *(row(n, session="t", projects=("p",), source="file") for n in range(9, 20))]
OLD_MARK, NEW_MARK = mark(8, 1), mark(19, 2)


def put(path, rows, at):
    return publish(build(rows, vectors_of(rows), mark=at, cap=100), path)


def answers(path):
    """All that a query can get from the published selection."""
    forget_snapshots()
    view = open_snapshot(path)
    columns = view.columns
    return [
        view.digest, view.mark, view.embed_fp, view.generation, list(view.chunk_ids),
        list(view.paths), view.vectors.tobytes(), view.vectors.shape, view.lexical.packed(),
        [(c.id, c.source, c.snippet, c.span, repr(c.meta)) for c in view.chunks(view.chunk_ids)],
        columns.seq.tobytes(), columns.timestamp_ns.tobytes(), columns.importance.tobytes(),
        [[column[i] for i in range(len(columns))]
         for column in (columns.sessions, columns.tags, columns.projects, columns.sources,
                        columns.turn_ids)],
    ]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "vectors" / "history_store.arrow"


@pytest.fixture
def traced():
    if not can_trace():
        warnings.warn(MISSING, stacklevel=1)
        pytest.skip(MISSING)


def child(path, said):
    return Child(lambda: put(path, NEW, NEW_MARK), said)


def count(path, said, tmp_path):
    """How many calls of each kind an untouched publication makes, and its trace."""
    put(path, OLD, OLD_MARK)
    out = tmp_path / "trace"
    publisher = child(path, said)
    publisher.trace(f"trace={','.join((*CALLS, 'openat', 'close'))}", out=out)
    publisher.go()
    assert publisher.wait() == DONE, publisher.words()
    lines = out.read_text().splitlines()
    return {call: sum(f" {call}(" in line for line in lines) for call in CALLS}, lines


def test_the_file_is_synced_before_its_name_and_the_folder_after(traced, path, tmp_path):
    _, lines = count(path, tmp_path / "said", tmp_path)
    steps = []
    for line in lines:
        if opened := re.search(r'openat\(AT_FDCWD, "([^"]*)".*\) = (\d+)', line):
            steps.append(("open", opened[1], opened[2]))
        elif synced := re.search(r" fsync\((\d+)\)\s+= 0", line):
            steps.append(("fsync", synced[1]))
        elif renamed := re.search(r' rename\("([^"]*)", "([^"]*)"\) = 0', line):
            steps.append(("rename", renamed[1], renamed[2]))
    (rename,) = [i for i, step in enumerate(steps) if step[0] == "rename"]
    staging, name = steps[rename][1:]
    assert name == str(path) and staging.startswith(f"{path.parent}/.{path.name}.")
    (staged,) = [i for i, s in enumerate(steps) if s[:2] == ("open", staging)]
    before = [i for i, s in enumerate(steps) if s == ("fsync", steps[staged][2])]
    assert any(staged < i < rename for i in before)
    folder = [s for s in steps[rename:] if s[:2] == ("open", str(path.parent))]
    assert folder and ("fsync", folder[0][2]) in steps[rename:]
    assert not any(s[:2] == ("open", str(path)) for s in steps if "O_WRONLY" in str(s))


@pytest.mark.parametrize("effect", ["signal=KILL", "error=ENOSPC", "error=EIO"])
def test_every_call_of_a_publication_may_be_the_last(traced, path, tmp_path, effect):
    said = tmp_path / "said"
    expected, _ = count(path, said, tmp_path)
    assert expected["fsync"] == 2 and expected["rename"] == 1
    digests = {
        build(r, vectors_of(r), mark=m, cap=100).digest: len(r)
        for r, m in ((OLD, OLD_MARK), (NEW, NEW_MARK))
    }
    tally = {"points": 0, "hit": 0, "old": 0, "new": 0, "refused": 0}
    for call in CALLS:
        for n in range(1, expected[call] + 1):
            path.unlink(missing_ok=True)
            put(path, OLD, OLD_MARK)
            said.unlink(missing_ok=True)
            out = tmp_path / "trace"
            publisher = child(path, said)
            publisher.trace(f"trace={call}", f"inject={call}:{effect}:when={n}", out=out)
            publisher.go()
            status = publisher.wait()
            assert status != CRASH, (call, n, publisher.words())
            if status == CLEAN:
                assert str(path) in publisher.words() and "next:" in publisher.words()
            forget_snapshots()
            view = open_snapshot(path)
            view.verify()
            assert digests[view.digest] == len(view.chunk_ids), (call, n)
            tally["points"] += 1
            tally["hit"] += "(INJECTED)" in out.read_text() or "SIGKILL" in out.read_text()
            tally["refused"] += status == CLEAN
            tally["new" if view.mark == NEW_MARK or len(view.chunk_ids) == len(NEW) else "old"] += 1
            put(path, NEW, NEW_MARK)
            assert [p.name for p in path.parent.iterdir()] == [path.name]
            forget_snapshots()
            assert len(open_snapshot(path).chunk_ids) == len(NEW)
    print(f"\npublish {effect}: {tally}")
    assert tally["hit"] >= 4 and tally["old"] and tally["new"]


def damaged(raw, rng, n):
    """Flip a bit, or every fourth time cut the end or lose a block."""
    at = rng.randrange(len(raw))
    if n % 4:
        return raw[:at] + bytes([raw[at] ^ 1 << rng.randrange(8)]) + raw[at + 1 :]
    if n % 8:
        return raw[:at]
    return raw[:at] + bytes(min(512, len(raw) - at)) + raw[at + 512 :]


@pytest.mark.sweep
def test_every_flip_that_changes_an_answer_is_found_and_healed(path, record_property):
    put(path, NEW, NEW_MARK)
    raw, sound = path.read_bytes(), answers(path)
    rng = random.Random("snapshot")
    tally = {"refused at once": 0, "found by verify": 0, "harmless": 0}
    for n in range(FLIPS):
        path.unlink()  # as a publication does: no reader maps a file that is written
        path.write_bytes(damaged(raw, rng, n))
        try:
            changed = answers(path) != sound
        except Exception:  # before `verify` a damaged value may do anything but pass unseen
            changed = True
        forget_snapshots()
        try:
            view = open_snapshot(path)
        except RagstreamError as error:
            assert "history backfill" in error.hint
            kind = "refused at once"
        else:
            try:
                view.verify()
                kind = "harmless"
            except RagstreamError as error:
                assert "history backfill" in error.hint
                kind = "found by verify"
        assert not changed or kind != "harmless", n
        tally[kind] += 1
        if kind != "harmless":
            assert put(path, NEW, NEW_MARK).written
            assert answers(path) == sound
            open_snapshot(path).verify()
    record_property("flips", str(tally))
    print(f"\n{FLIPS} flips and cuts of the snapshot: {tally}")
    assert tally["refused at once"] and tally["found by verify"]
