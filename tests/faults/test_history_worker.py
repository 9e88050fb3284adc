"""R3: whatever kills or hinders the history worker, the next run has every turn once.

``make faults`` kills 200 times and sweeps every system call of a run; the short form a sample.
"""

import itertools
import random
import shutil
import time
import warnings

import pytest

from ragstream_core.conversations.journal.journal import Journal
from ragstream_core.conversations.journal.records import TagEdit, Turn
from ragstream_core.conversations.units import TurnChunker
from ragstream_core.errors import GenerationGone
from ragstream_core.index import history, vectors
from ragstream_core.index.check import WHOLE, verify_data, verify_structure
from ragstream_core.index.history_check import name_chunk
from ragstream_core.index.remove import leftovers
from ragstream_core.index.view import forget_views
from ragstream_core.ingestion import staging
from ragstream_core.text.chunk_profiles import ChunkProfile
from tests.faults.harness import (
    CALLS,
    CLEAN,
    CRASH,
    DONE,
    EFFECTS,
    LOCKED,
    Child,
    Killer,
    Tally,
    can_trace,
    orphans,
)
from tests.history_bench import HistoryBench, turn, words
from tests.lengths import FULL, by_length, spread

KILLS = by_length(5, 12, 200)
SAMPLE = by_length(1, 3, 10_000)
MISSING = "strace is not installed or may not attach: NO system call is swept"
STAMP = "2026-10-05T12:00:00+00:00"


def findings(bench):
    index = bench.index
    return [*verify_structure(index, name_chunk=name_chunk), *verify_data(index, WHOLE)]


@pytest.fixture(autouse=True, scope="module")
def small_parts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "BATCH_TEXTS", 4)
        patch.setattr(history, "KEPT_GENERATIONS", 2)
        patch.setattr(history, "_RETAIN_EVERY", 1)
        patch.setattr(vectors, "COMPACT_MIN_ROWS", 4)
        yield


def some_turns(rng, count, **given):
    return [turn(words(rng), words(rng), day=rng.randrange(60), **given) for _ in range(count)]


def require_whole(bench):
    """A reader sees one whole state: every turn up to its mark once, with its own vectors."""
    forget_views()
    try:
        mark = bench.rows().mark
    except GenerationGone:
        return 0
    bench.require_complete(upto=mark.position.seq)
    return mark.position.seq


def require_healed(bench):
    """The next run completes: vectors = turns, nothing twice, orphaned or left over."""
    bench.run()
    forget_views()
    live = bench.require_complete()
    assert live.mark.index_fp == bench.chunker.index_fp(live.mark.embed_fp)
    assert len({row.chunk_id for row in live.rows}) == len(live.rows)
    assert findings(bench) == []
    with bench.store() as store:
        assert leftovers(store.db, bench.index) == []
        assert orphans(store.db) == (0, 0, 0)
    assert not list(bench.index.rglob("*.tmp")) and not list(bench.index.glob("*-journal"))
    return live


@pytest.mark.sweep
def test_a_run_killed_between_append_and_commit(tmp_path, record_property):
    rng, killer = random.Random(30), Killer(30)
    bench = HistoryBench(tmp_path)
    seen, acked = {"nothing": 0, "part": 0, "all": 0}, 0

    def talk(records, told):
        log = Journal(bench.journal.folder)
        for record in records:
            (entry,) = log.append([record])
            with told.open("a") as acks:
                acks.write(f"{entry.seq}\n")
            bench.run()

    for n in killer.times(KILLS):
        told = tmp_path / f"acked{n}"
        told.touch()
        before = require_whole(bench)
        child = Child(lambda told=told: talk(some_turns(rng, 3), told), tmp_path / "said")
        child.go()
        while not told.stat().st_size:
            time.sleep(0.0005)
        killer.strike(child, go=False)
        acks = [int(line) for line in told.read_text().split()]
        acked += len(acks)
        mark = require_whole(bench)
        last = bench.journal.newest().seq
        seen["all" if mark == last else "part" if mark > before else "nothing"] += 1
        live = require_healed(bench)
        assert set(acks) <= live.turns.keys()
    record_property("kills", str(seen))
    print(f"\n{killer.line()}, {acked} turns acknowledged: {seen}; 0 lost, 0 twice, 0 orphan")
    assert len(bench.rows().turns) >= acked > 0


@pytest.mark.sweep
def test_of_two_workers_at_once_each_turn_is_embedded_once(tmp_path):
    rng = random.Random(31)
    bench = HistoryBench(tmp_path)
    for n in range(by_length(3, 5, 30)):
        bench.say(*some_turns(rng, 8))
        before = bench.rows().mark.generation if n else 0
        children = [Child(bench.run, tmp_path / f"said{i}") for i in range(2)]
        for child in children:
            child.go()
        ends = [child.wait() for child in children]
        assert set(ends) <= {DONE, LOCKED} and DONE in ends, [c.words() for c in children]
        forget_views()
        assert bench.require_complete().mark.generation == before + 1
    require_healed(bench)


def test_turns_are_written_while_a_worker_runs(tmp_path):
    """A writer never waits for the worker, and the worker takes what is whole when it looks."""
    rng = random.Random(32)
    bench = HistoryBench(tmp_path)

    def talk():
        log = Journal(bench.journal.folder)
        for record in some_turns(rng, 60):
            log.append([record])

    writers = [Child(talk, tmp_path / f"said{i}") for i in range(2)]
    for writer in writers:
        writer.go()
    for _ in range(12):
        bench.run()
        require_whole(bench)
    assert [writer.wait() for writer in writers] == [DONE, DONE], [w.words() for w in writers]
    assert len(require_healed(bench).turns) == 120


def first(bench):
    return bench


def later(bench):
    """Three generations, then new turns and tags of old ones."""
    rng = random.Random(33)
    old = some_turns(rng, 10)
    for at in (0, 4, 8):
        bench.say(*old[at : at + 4])
        bench.run()
    bench.say(TagEdit("e1", old[0].id, STAMP, add=("GOLD",)), *some_turns(rng, 9))
    return bench


def cut_anew(bench):
    """Other rules for units: every turn is replaced, old rows go and vectors are compacted."""
    later(bench)
    bench.say(*[turn("many words " * 80, words(random.Random(n))) for n in range(3)])
    bench.run()
    bench.say(turn("new"))
    small = ChunkProfile("history_small", 40, 5, overlap="sentence")
    bench.chunker = TurnChunker(window=60, profile=small)
    return bench


GROUNDS = {"first": first, "delta": later, "cut anew": cut_anew}


class Ground:
    """A journal with an index as it is before a run, to be copied for each hindrance."""

    def __init__(self, root, name):
        self.root, self.name, prepare = root, name, GROUNDS[name]
        self.origin = HistoryBench(root / "origin")
        if prepare is first:
            self.origin.say(*some_turns(random.Random(34), 10))
        prepare(self.origin)
        self.template = root / "template"
        shutil.copytree(self.origin.root, self.template)
        self.count = 0

    def copy(self):
        self.count += 1
        other = HistoryBench(self.root / f"n{self.count}", chunker=self.origin.chunker)
        shutil.copytree(self.template / "history", other.root / "history")
        return other


@pytest.fixture(scope="module", params=sorted(GROUNDS))
def ground(request, tmp_path_factory, small_parts):
    if not can_trace():
        warnings.warn(MISSING, stacklevel=1)
        pytest.skip(MISSING)
    return Ground(tmp_path_factory.mktemp("sweep"), request.param)


def counts(ground):
    """How many calls of each kind an untouched run makes."""
    bench = ground.copy()
    out = bench.root / "trace"
    child = Child(bench.run, bench.root / "said")
    child.trace(f"trace={','.join(CALLS)}", out=out)
    child.go()
    assert child.wait() == DONE, child.words()
    lines = out.read_text().splitlines()
    shutil.rmtree(bench.root)
    return {call: sum(f" {call}(" in line for line in lines) for call in CALLS}


@pytest.mark.sweep
@pytest.mark.parametrize("effect", EFFECTS)
def test_every_call_of_a_run_may_be_the_last(ground, effect, record_property):
    tally = Tally()
    expected = counts(ground)
    assert expected["fsync"] + expected["fdatasync"] > 5 and expected["pwrite64"] > 5
    turn = EFFECTS.index(effect) + sorted(GROUNDS).index(ground.name)
    for call in CALLS:
        further = itertools.count(expected[call] + 1) if FULL else ()
        for n in itertools.chain(spread(expected[call], SAMPLE, turn), further):
            if not hinder(ground, call, effect, n, tally):
                assert n > expected[call] - 3, (call, n, expected)
                break
    record_property("sweep", tally.line())
    print(f"\nsweep {effect}: {tally.line()}")
    assert tally.hit >= by_length(3, 10, 10)


def hinder(ground, call, effect, n, tally):
    """Let the n-th call of one kind die or fail; return whether there was an n-th."""
    bench = ground.copy()
    out = bench.root / "trace"
    before = require_whole(bench)
    child = Child(bench.run, bench.root / "said")
    child.trace(f"trace={call}", f"inject={call}:{effect}:when={n}", out=out)
    child.go()
    status = child.wait()
    traced = out.read_text()
    hit = "(INJECTED)" in traced or "killed by SIGKILL" in traced
    tally.points += 1
    tally.hit += hit
    what = (call, effect, n, child.words())
    assert status != CRASH, what
    if status == CLEAN:
        tally.refused += 1
        assert str(bench.index) in child.words() and "next:" in child.words(), what
    after = require_whole(bench)
    tally.old += after == before
    tally.new += after != before
    live = require_healed(bench)
    assert len(live.turns) == sum(isinstance(e.record, Turn) for e in bench.journal.entries())
    shutil.rmtree(bench.root)
    return hit
