"""Every write, fsync, rename and unlink of an ingest is killed or fails once (strace).

The full form (``make faults``) takes every call; the short form a sample of them.
"""

import itertools
import random
import shutil

import pytest

from ragstream_core.index import derived, vectors
from ragstream_core.ingestion import staging
from tests.faults.harness import (
    CALLS,
    CLEAN,
    CRASH,
    DONE,
    EFFECTS,
    Ground,
    Tally,
    need_strace,
    require_healed,
    require_old_or_new,
)
from tests.lengths import FULL, by_length, spread

SAMPLE = by_length(1, 3, 10_000)


@pytest.fixture(scope="module", autouse=True)
def tracing():
    need_strace()


def words(rng, count=25):
    return " ".join(rng.choices(["alpha", "beta", "gamma", "delta", "epsilon"], k=count))


def nothing(bench):
    shutil.rmtree(bench.index, ignore_errors=True)


def ten_files(bench):
    rng = random.Random(5)
    for n in range(10):
        bench.write(f"d{n % 2}/{n}.md", f"# Part {n}\n\n{words(rng)} {n}")


def three_generations(bench):
    ten_files(bench)
    bench.run()
    bench.write("d0/0.md", "second version")
    bench.run()


def four_generations(bench):
    """As three; what changed since the first is so much that another change merges it."""
    three_generations(bench)
    bench.write("d0/8.md", "second version")
    bench.run()


def everything_changes(bench):
    """New, changed, renamed, touched and deleted files; old rows go and vectors are compacted."""
    rng = random.Random(6)
    bench.write("new.md", f"# New\n\n{words(rng)}")
    bench.write("d0/0.md", f"third version {words(rng)}")
    (bench.docs / "d1" / "1.md").rename(bench.docs / "d1" / "one.md")
    bench.write("d0/2.md", (bench.docs / "d0" / "2.md").read_bytes(), mtime=5)
    for n in (4, 5, 6, 7):
        (bench.docs / f"d{n % 2}" / f"{n}.md").unlink()


GROUNDS = {
    "first": (nothing, ten_files, {}),
    "delta": (three_generations, everything_changes, {}),
    "delta, old rows dropped": (
        three_generations, everything_changes, {"delete_replaced": True},
    ),
    "delta, term arrays merged": (four_generations, everything_changes, {}),
}  # fmt: skip


@pytest.fixture(scope="module", params=sorted(GROUNDS))
def ground(request, tmp_path_factory):
    before, change, settings = GROUNDS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "BATCH_TEXTS", 4)
        patch.setattr(vectors, "COMPACT_MIN_ROWS", 4)
        patch.setattr(derived, "WHOLE_BELOW", 1)
        patch.setattr(derived, "MOST_CHANGED", 1.0)
        made = Ground(tmp_path_factory.mktemp("sweep"), before, change, **settings)
        made.turn = sorted(GROUNDS).index(request.param)
        yield made


def counts(ground):
    """How many calls of each kind an untouched run makes."""
    bench = ground.copy()
    out = bench.root / "trace"
    child = ground.child(bench)
    child.trace(f"trace={','.join(CALLS)}", out=out)
    child.go()
    assert child.wait() == DONE, child.words()
    lines = out.read_text().splitlines()
    shutil.rmtree(bench.root)
    return {call: sum(f" {call}(" in line for line in lines) for call in CALLS}


@pytest.mark.sweep
@pytest.mark.parametrize("effect", EFFECTS)
def test_every_call_may_be_the_last(ground, effect, record_property):
    tally = Tally()
    expected = counts(ground)
    assert expected["fsync"] + expected["fdatasync"] > 5 and expected["pwrite64"] > 5
    turn = EFFECTS.index(effect) + ground.turn
    for call in CALLS:
        further = itertools.count(expected[call] + 1) if FULL else ()
        for n in itertools.chain(spread(expected[call], SAMPLE, turn), further):
            if not hinder(ground, call, effect, n, tally):
                assert n > expected[call] - 3, (call, n, expected)
                break
    record_property("sweep", tally.line())
    print(f"\nsweep {effect}: {tally.line()}")
    assert tally.hit >= by_length(5, 10, 10)


def hinder(ground, call, effect, n, tally):
    """Let the n-th call of one kind die or fail; return whether there was an n-th."""
    bench = ground.copy()
    out = bench.root / "trace"
    child = ground.child(bench)
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
    require_old_or_new(bench, ground, tally)
    require_healed(bench, ground.new, **ground.settings)
    shutil.rmtree(bench.root)
    return hit
