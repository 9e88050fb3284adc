"""Two workers on hosts of their own, and whatever may end while they embed: each text once."""

import os
import random
import signal
import time

import pytest

from ragstream_core.errors import GenerationGone
from ragstream_core.index.view import forget_views, open_view
from tests.lengths import by_length
from tests.processes import until
from tests.worker_hosts import Team, require_hosts

pytestmark = [pytest.mark.slow, pytest.mark.sweep, pytest.mark.timeout(1800)]
TEXTS = by_length(2_000, 2_000, 20_000)
TIMES = by_length(1, 1, 10)
KILLS = by_length(3, 5, 50)
CUT_S = 30


@pytest.fixture
def team(tmp_path):
    require_hosts()
    made = Team(tmp_path)
    try:
        for host in (1, 2):
            made.start_worker(host)
        made.workers_ready()
        yield made
    finally:
        made.close()


def kill_a_worker(team):
    team.kill_worker(1)


def restart_the_database(team):
    team.postgres.restart(signal.SIGINT)


def crash_the_database(team):
    team.postgres.restart(signal.SIGKILL)


def cut_the_network(team):
    for host in (1, 2):
        team.cut(host)
    time.sleep(CUT_S)  # the trouble itself, not a wait for something
    for host in (1, 2):
        team.join(host)


def kill_the_launcher(team):
    os.kill(team.launcher.pid, signal.SIGKILL)
    team.launcher.wait()
    team.launch()  # the one command that is named: the same again


TROUBLES = (
    kill_a_worker,
    restart_the_database,
    crash_the_database,
    kill_the_launcher,
    cut_the_network,
)


@pytest.mark.parametrize("turn", range(TIMES))
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_every_text_is_there_once_with_the_bits_of_one_machine(team, trouble, turn):
    team.write(TEXTS)
    team.launch()
    begun = TEXTS * (1 + turn) // (2 * TIMES + 8)
    assert until(lambda: team.vectors() >= begun or team.launcher.poll() is not None, 1_500)
    assert team.launcher.poll() is None, (team.folder / "launcher.err").read_text()
    assert team.vectors() < TEXTS, "it was through before the trouble came"
    trouble(team)
    stats = team.finish()
    assert stats["committed"] and stats["chunks"]["live"] == TEXTS
    team.require_exact(TEXTS)
    assert stats["chunks"]["embedded"] + stats["chunks"]["shared"] == TEXTS
    assert stats["chunks"]["shared"] or "--fan-out" in str(stats["warnings"])
    print(f"\n{trouble.__name__}: {stats['chunks']}, {stats['warnings']}")


def test_the_index_is_the_old_or_the_new_one_whenever_the_committer_is_killed(team, make_bench):
    chance = random.Random(16)
    expected, found = [""], []

    def digest():
        forget_views()
        try:
            return open_view(team.data / "index" / "demo", project="demo").digest
        except GenerationGone:
            return ""

    def change(turn):
        team.write(40, f"words {turn}")
        bench = make_bench()
        for path in team.docs.iterdir():
            bench.write(path.name, path.read_bytes())
        bench.run()
        expected.append(bench.fresh_view().digest)

    change("of before")
    began = time.monotonic()
    team.launch()
    team.finish()
    took = time.monotonic() - began  # the kills are spread over all of it, and a little more
    assert digest() == expected[-1]
    for turn in range(KILLS):
        change(turn)
        before = digest()
        team.launch()
        time.sleep(took * (turn + chance.random()) / KILLS * 1.1)
        team.launcher.kill()
        team.launcher.wait()
        found.append(digest())
        assert found[-1] in (before, expected[-1]), turn
    news = sum(one == new for one, new in zip(found, expected[2:], strict=True))
    print(f"\n{KILLS} kills within {took:.0f} s: {news} left the new index, the others the old one")
    team.launch()
    team.finish()
    assert digest() == expected[-1]
