"""Bringing the history up to date unattended: what there is to do, and who is waited for."""

import datetime as dt
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import ProjectLocked
from ragstream_core.index.history import turn_counts
from ragstream_core.index.schema import project_lock
from ragstream_core.services import history_update, verify
from ragstream_core.services.history_update import embed
from ragstream_core.wiring.history_index import History, HistoryStatus, SnapshotStatus
from ragstream_core.wiring.journal import append_records
from ragstream_core.wiring.workspace import open_workspace
from tests.processes import PATIENCE_S

NOW = dt.datetime(2026, 10, 5, 12, 0, tzinfo=dt.UTC)


@pytest.fixture
def space(tmp_path):
    return open_workspace(tmp_path, explicit={"embeddings.backend": "hashed"})


def say(space, n, when="2026-10-05T10:00:00+02:00", session="talks", **given):
    append_records(space, [Turn(f"t{n}", session, when, f"Question {n}?", f"Answer {n}.", **given)])


def test_whoever_writes_the_history_is_waited_for(space, monkeypatch):
    say(space, 1)
    held, free = threading.Event(), threading.Event()

    def hold():
        with project_lock(space.layout.history_index):
            held.set()
            free.wait(PATIENCE_S)

    other = threading.Thread(target=hold)
    other.start()
    try:
        assert held.wait(PATIENCE_S)
        monkeypatch.setattr(history_update, "WAIT_S", 0.0)
        for run in (history_update.catch_up, lambda s: history_update.backfill(s, ["2026-10"])):
            with pytest.raises(ProjectLocked):
                run(space)
        monkeypatch.setattr(history_update, "WAIT_S", PATIENCE_S)
        threading.Timer(0.3, free.set).start()
        assert history_update.catch_up(space).stats.embedded == 1
    finally:
        free.set()
        other.join()


def test_behind_as_long_as_a_run_would_do_anything(space):
    say(space, 1)
    assert History(space).status().is_behind
    embed(space, publish=False)
    assert History(space).status().is_behind  # embedded, not published
    history_update.catch_up(space)
    assert not History(space).status().is_behind
    space.layout.history_snapshot.write_bytes(b"no snapshot")
    assert History(space).status().is_behind


def test_counts_and_texts_are_those_of_the_turns(space):
    say(space, 1, when="2026-09-30T23:59:00-08:00")  # October by the clock of UTC
    say(space, 2, session="other")
    say(space, 3, session="other")
    say(space, 4, status="partial")
    done = history_update.catch_up(space)
    assert done.counts == turn_counts(space.layout.history_index)
    assert [row[:4] for row in done.counts] == [
        ("other", "2026-10", 2, 2),
        ("talks", "2026-09", 1, 1),
    ]
    assert [(row.first, row.last) for row in done.counts] == [(2, 3), (1, 1)]


def test_only_what_broke_off_leaves_nothing_to_show(space):
    say(space, 1, status="partial")
    done = history_update.catch_up(space)
    assert (done.counts, done.snapshot, done.stats.generation) == ((), None, 0)
    assert not History(space).status().is_behind


def status_of(pending, oldest="", snapshot=None):
    known = {"seq": 1, "generation": 1, "digest": "", "created": "", "model": "", "turns": 1}
    return HistoryStatus(
        records=1, chunks=1, other_model=False, damaged=[], **known,
        pending=pending, oldest_pending=oldest, snapshot=snapshot,
    )  # fmt: skip


@given(minutes=st.integers(-600_000, 600_000), pending=st.integers(0, 5))
def test_waiting_is_found_after_a_day_and_a_clock_that_goes_back_is_no_reason(minutes, pending):
    since = (NOW - dt.timedelta(minutes=minutes)).isoformat()
    status = status_of(pending, since if pending else "")
    found = verify.waiting(status, NOW)
    assert bool(found) == (pending > 0 and minutes > 24 * 60)


def test_a_turn_without_a_time_waits_at_once():
    assert verify.waiting(status_of(1, "yesterday"), NOW)


def test_the_age_of_a_selection_matters_only_while_turns_wait():
    old, new = (SnapshotStatus(1, 1, "", 1, 0, age_s) for age_s in (100_000.0, 100.0))
    for pending, snapshot, wrong in ((0, old, 0), (1, new, 0), (1, old, 1), (1, None, 1)):
        found = verify.aged(status_of(pending, snapshot=snapshot))
        assert len(found) == wrong


def test_nothing_at_all(space):
    assert "no conversation" in history_update.catch_up(space).idle
    assert not History(space).status().is_behind
    assert History(space).status().records == 0
