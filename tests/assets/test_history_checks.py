"""The checks of the history: each fails for its own reason, and heals by the next run."""

import datetime as dt
import os

import pytest

from ragstream_assets import history
from ragstream_core.index.snapshot import forget_snapshots
from ragstream_core.index.view import forget_views
from ragstream_core.services import history_update
from ragstream_core.services.verify import history_report
from ragstream_core.wiring.journal import journal

NOW = dt.datetime(2026, 10, 5, 18, 0, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(days=2)


@pytest.fixture
def kept(space, say):
    """Three embedded turns, published."""
    for n in range(3):
        say(space, n)
    history_update.catch_up(space)
    return space


def failing(space, now=NOW):
    forget_snapshots()
    forget_views()
    found = {r.check_name: r for r in history.results(history_report(space, now))}
    assert len(found) == 7
    return {name: result for name, result in found.items() if not result.passed}


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x20
    path.write_bytes(data)


def test_a_sound_history_passes_and_shows_figures(kept):
    assert not failing(kept)
    figures = {r.check_name: r.metadata for r in history.results(history_report(kept, NOW))}
    assert figures[history.HISTORY_WHOLE]["records"].value == 3
    assert figures[history.SOUND]["turns"].value == 3
    assert figures[history.FRESH]["age_hours"].value >= 0


def test_an_empty_history_passes(space):
    assert not failing(space)


def test_damage_inside_the_journal_is_named(kept):
    log = journal(kept).folder / "conversation.log"
    flip(log, log.read_bytes().index(b"number 1"))
    found = failing(kept)
    assert set(found) == {history.HISTORY_WHOLE}
    row, *_ = found[history.HISTORY_WHOLE].metadata["what"].records
    assert "conversation.log" in row.data["message"]


def test_an_older_journal_put_back_is_noticed(kept):
    log = journal(kept).folder / "conversation.log"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    assert history.HIGH_WATER in failing(kept)


@pytest.mark.parametrize("harm", ["cut", "flipped"])
def test_a_damaged_snapshot_is_noticed_and_published_again(kept, harm):
    path = kept.layout.history_snapshot
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        flip(path, path.read_bytes().index(b"It is 7"))
    assert set(failing(kept)) == {history.READABLE}
    history_update.catch_up(kept)
    assert not failing(kept)


def test_a_damaged_vector_is_noticed(kept):
    (vectors,) = kept.layout.history_index.glob("vectors-*.f32")
    flip(vectors, 2)
    assert history.SOUND in failing(kept)


def test_a_turn_that_waits_for_more_than_a_day_is_a_warning(kept, say):
    say(kept, 3)
    assert not failing(kept)
    assert set(failing(kept, LATER)) == {history.PROMPT}
    old = kept.layout.history_snapshot.stat().st_mtime - 2 * 86_400
    os.utime(kept.layout.history_snapshot, (old, old))
    assert set(failing(kept, LATER)) == {history.PROMPT, history.FRESH}
    history_update.catch_up(kept)
    assert not failing(kept, LATER)


def test_a_snapshot_behind_its_catalog_is_noticed(kept, say):
    from ragstream_core.services.history_update import embed

    say(kept, 3)
    embed(kept, publish=False)
    assert set(failing(kept)) == {history.READABLE}
