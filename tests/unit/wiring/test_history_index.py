"""Embedding, publishing, status and check of a data root's history, with the real parts."""

import pytest

from ragstream_core.conversations.journal.records import Asked
from ragstream_core.errors import (
    IntegrityError,
    ModelMismatch,
    OperationFailed,
    UnknownSetting,
    UsageError,
)
from ragstream_core.index.check import WHOLE
from ragstream_core.index.snapshot import forget_snapshots, open_snapshot
from ragstream_core.index.view import forget_views
from ragstream_core.services.history_update import embed
from ragstream_core.wiring import erase_turns, models
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import (
    append_records,
    append_turn,
    journal,
    tag,
)
from ragstream_core.wiring.workspace import open_workspace
from tests.history_bench import turn


def space_at(root, **given):
    return open_workspace(root, explicit={"embeddings.backend": "hashed", **given})


@pytest.fixture
def space(tmp_path):
    return space_at(tmp_path / "data")


def say(space, *words, **given):
    return [append_turn(space, turn(word, **given)) for word in words]


def kinds(space, part=WHOLE):
    forget_views()
    forget_snapshots()
    return {finding.check for finding in History(space).check(part)}


def test_nothing_there_is_sound_and_nothing_to_do(space):
    assert embed(space).generation == 0
    status = History(space).status()
    assert (status.records, status.pending, status.snapshot) == (0, 0, None)
    assert History(space).check(WHOLE) == [] and not (space.data_dir / "history").exists()


@pytest.mark.parametrize("month", ["2026-13", "2026", "soon"])
def test_what_is_no_month_is_refused(space, month):
    say(space, "first")
    with pytest.raises(UsageError, match="not a month"):
        embed(space, months=["2026-10", month])
    assert History(space).status().pending == 1


def test_turns_are_embedded_and_published(space):
    say(space, "first", "second")
    assert History(space).status().pending == 2
    stats = embed(space)
    assert (stats.committed, stats.turns, stats.warnings) == (True, 2, ())
    view = open_snapshot(space.layout.history_snapshot)
    assert len(view.chunk_ids) == 2 and view.mark.position.seq == 2
    assert (space.data_dir / "history" / "logs" / "session-s1.log").exists()
    status = History(space).status()
    assert (status.seq, status.records, status.pending, status.turns) == (2, 2, 0, 2)
    assert status.snapshot.rows == 2 and status.snapshot.generation == 1
    assert status.damaged == [] and not status.other_model
    assert History(space).check(WHOLE) == []


def test_a_change_of_size_or_unit_cuts_all_turns_again_and_only_then(tmp_path):
    space = space_at(tmp_path / "data")
    say(space, "The pump runs at nine bar. " * 60, "short")
    usual = embed(space)
    small = {"history.chunk_size": 300, "history.chunk_unit": "characters"}
    other = space_at(tmp_path / "data", **small)
    cut = embed(other)
    assert cut.committed and cut.generation == usual.generation + 1
    view = open_snapshot(other.layout.history_snapshot)
    assert max(map(len, view.text("text"))) <= 300 * 5 // 4
    assert not embed(other).committed and History(other).check(WHOLE) == []
    back = embed(space)
    assert back.committed and back.embedded == 0 and back.digest == usual.digest


def test_an_overlap_of_half_a_piece_is_refused(tmp_path):
    for given in ({"history.chunk_overlap": 100}, {"history.chunk_size": 40}):
        with pytest.raises(UnknownSetting, match=r"less than half of history\.chunk_size"):
            space_at(tmp_path, **given)


def test_nothing_new_loads_no_model(space, monkeypatch):
    say(space, "first")
    first = embed(space)

    def refuse(config):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(models, "embedder", refuse)
    append_records(space, [Asked("", "s1", "", "only asked")])
    say(space, "broken off", status="partial")
    again = embed(space)
    assert (again.committed, again.digest, again.seq) == (False, first.digest, 1)
    say(space, "second")
    with pytest.raises(AssertionError):
        embed(space)


def test_a_lost_snapshot_and_lost_logs_come_back_without_the_model(space, monkeypatch):
    say(space, "first", "second")
    embed(space)
    before = space.layout.history_snapshot.read_bytes()
    space.layout.history_snapshot.unlink()
    (space.data_dir / "history" / "logs" / "session-s1.log").unlink()
    assert kinds(space) == {"snapshot"}
    monkeypatch.setattr(models, "embedder", lambda config: 1 / 0)
    assert embed(space).warnings == ()
    assert space.layout.history_snapshot.read_bytes() == before
    assert (space.data_dir / "history" / "logs" / "session-s1.log").exists()
    assert kinds(space) == set()


def test_a_publisher_that_fails_is_a_warning(space, monkeypatch):
    def fail(workspace):
        raise OSError("no space")

    say(space, "first")
    with monkeypatch.context() as patch:
        patch.setattr(History, "publish", fail)
        stats = embed(space)
    assert stats.committed
    assert stats.warnings == ("the published selection is out of date: no space",)
    assert embed(space).warnings == () and kinds(space) == set()


def test_not_published_where_it_is_not_wanted(space):
    say(space, "first")
    assert embed(space, publish=False).committed
    assert not space.layout.history_snapshot.exists()


def test_tags_reach_the_published_selection(space):
    (entry,) = say(space, "first")
    embed(space)
    tag(space, entry.record.id, add=["GOLD"])
    assert embed(space).retagged == 1
    forget_snapshots()
    view = open_snapshot(space.layout.history_snapshot)
    assert view.columns.tags[0] == ("GOLD",)


def test_another_model_is_refused_then_taken_over_month_by_month(space, tmp_path, monkeypatch):
    say(space, "aug")
    say(space, "oct", day=40)
    embed(space)
    monkeypatch.setattr(models, "fingerprint", lambda config: "other")
    real = models.embedder(space.config)

    class Other:
        fingerprint = "other"

        def __getattr__(self, name):
            return getattr(real, name)

    monkeypatch.setattr(models, "embedder", lambda config: Other())
    assert History(space).status().other_model
    with pytest.raises(ModelMismatch):
        embed(space)
    assert embed(space, months=["2026-08"]).missing == 1
    assert History(space).status().other_model
    assert embed(space, months=["2026-10"]).missing == 0
    assert not History(space).status().other_model
    forget_snapshots()
    assert open_snapshot(space.layout.history_snapshot).embed_fp == "other"
    assert kinds(space) == set()


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_damage_is_found_and_mended(space):
    say(space, "first", "second", "third")
    embed(space)
    (vectors,) = space.layout.history_index.glob("vectors-*.f32")
    flip(vectors, 5)
    assert kinds(space) == {"vectors"}
    assert kinds(space, None) == {"vectors"}
    stats = embed(space, rebuild=True)
    assert (stats.embedded, stats.reused) == (1, 2)
    assert kinds(space) == set()


def test_a_damaged_catalog_is_named_with_the_command(space):
    say(space, "first")
    embed(space)
    path = space.layout.history_index / "catalog.sqlite"
    path.write_bytes(b"garbage" * 1000)
    assert "catalog" in kinds(space)
    say(space, "second")
    with pytest.raises(IntegrityError) as caught:
        embed(space)
    assert caught.value.hint == "ragstream history backfill --rebuild"
    assert History(space).status().damaged
    embed(space, rebuild=True)
    assert kinds(space) == set() and History(space).status().seq == 2


def test_a_journal_that_is_not_the_embedded_one_is_found(space, tmp_path):
    say(space, "first", "second")
    embed(space)
    other = space_at(tmp_path / "other")
    say(other, "another first", "another second")
    log = journal(space).folder / "conversation.log"
    kept = log.read_bytes()
    log.write_bytes((journal(other).folder / "conversation.log").read_bytes())
    assert kinds(space) >= {"mark", "turns"}
    log.write_bytes(kept[: kept.index(b"\n") + 1])
    assert "mark" in kinds(space, None)
    log.write_bytes(kept)
    assert kinds(space) == set()


def test_damage_in_the_journal_is_found_and_the_rest_stays_embedded(space):
    say(space, "first", "second", "third")
    embed(space)
    log = journal(space).folder / "conversation.log"
    flip(log, log.read_bytes().index(b"second"))
    assert "journal" in kinds(space, None)
    assert embed(space).turns == 0
    assert History(space).status().turns == 3


def test_a_snapshot_that_is_ahead_or_behind_is_found(space):
    say(space, "first")
    embed(space)
    say(space, "second")
    embed(space, publish=False)
    found = [f for f in History(space).check() if f.check == "snapshot"]
    assert [f.message for f in found] == ["behind: made from generation 1 of 2"]


def test_turns_are_not_embedded_again_while_cleared_ones_are_still_there(space, monkeypatch):
    def stuck(workspace):
        raise OperationFailed("no space left")

    say(space, "first", "second")
    embed(space)
    monkeypatch.setattr(erase_turns, "resume", stuck)
    say(space, "third")
    (warning,) = embed(space).warnings  # what is new need not wait
    assert "not yet gone" in warning
    for more in ({"rebuild": True}, {"months": ["2026-10"]}):
        with pytest.raises(OperationFailed):
            embed(space, **more)
