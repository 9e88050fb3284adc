"""Publishing from the catalog, and an older selection made again for a replay."""

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.errors import InputUnavailable, ProjectLocked
from ragstream_core.index.schema import project_lock
from ragstream_core.index.snapshot import forget_snapshots, open_snapshot
from ragstream_core.services.history_update import embed
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import append_turn, journal, tag
from ragstream_core.wiring.workspace import open_workspace


def opened(tmp_path, **explicit):
    return open_workspace(tmp_path, explicit={"embeddings.backend": "hashed", **explicit})


def say(space, text, **given):
    append_turn(space, Turn("", "s", "", text, f"answer to {text}", **given))


def view_of(space):
    forget_snapshots()
    return open_snapshot(space.layout.history_snapshot)


def test_nothing_is_published_before_the_first_turn(tmp_path):
    assert History(opened(tmp_path)).publish() is None
    assert not (tmp_path / "history").exists()


def test_embedding_publishes_and_the_same_is_not_written_again(tmp_path):
    space = opened(tmp_path)
    say(space, "first")
    say(space, "second", tags=("GOLD",))
    embed(space)
    view, path = view_of(space), space.layout.history_snapshot
    view.verify()
    assert view.mark.position.seq == 2 and len(view.chunk_ids) == 2
    assert [list(view.columns.tags[i]) for i in range(2)] == [[], ["GOLD"]]
    before = path.stat()
    again = History(space).publish()
    assert not again.written and again.digest == view.digest and again.rows == 2
    assert path.stat().st_ino == before.st_ino


def test_a_new_cap_is_published_without_a_new_turn(tmp_path):
    space = opened(tmp_path)
    for n in range(5):
        say(space, f"number {n}", importance=n / 10)
    embed(space)
    small = History(opened(tmp_path, **{"history.max_chunks": 2})).publish()
    assert (small.written, small.rows, small.evicted) == (True, 2, 3)
    assert view_of(space).columns.seq.tolist() == [4, 5]
    assert History(space).publish().rows == 5


@pytest.mark.parametrize("damage", [b"", b"nonsense", None, "one bit"])
def test_a_damaged_or_missing_snapshot_is_published_again(tmp_path, damage):
    space = opened(tmp_path)
    say(space, "first")
    embed(space)
    path = space.layout.history_snapshot
    digest = view_of(space).digest
    sound = path.read_bytes()
    path.unlink()
    if damage is not None:
        flipped = sound.replace(b"answer to first", b"answer to firsu")
        path.write_bytes(flipped if damage == "one bit" else damage)
    forget_snapshots()
    assert History(space).publish().written
    assert view_of(space).digest == digest


def test_while_a_worker_writes_nothing_is_published(tmp_path):
    space = opened(tmp_path)
    say(space, "first")
    embed(space)
    before = space.layout.history_snapshot.read_bytes()
    say(space, "second")
    embed(space, publish=False)
    with project_lock(space.layout.history_index), pytest.raises(ProjectLocked):
        History(space).publish()
    assert space.layout.history_snapshot.read_bytes() == before
    assert History(space).publish().written


def test_an_older_selection_is_made_again_with_its_tags(tmp_path):
    space = opened(tmp_path)
    say(space, "first")
    say(space, "second")
    tag(space, "1", add=["SILVER"])
    embed(space)
    old = view_of(space)
    tag(space, "1", add=["GOLD"], remove=["SILVER"])
    say(space, "third")
    embed(space)
    assert view_of(space).digest != old.digest
    forget_snapshots()
    made = History(space).selection_at(upto=old.mark.position.seq, digest=old.digest, cap=20_000)
    made.verify()
    assert list(made.chunk_ids) == list(old.chunk_ids) and made.columns.tags[0] == ("SILVER",)
    assert History(space).selection_at(upto=3, digest=old.digest, cap=20_000) is made
    newest = view_of(space)
    assert History(space).selection_at(upto=5, digest=newest.digest, cap=20_000) is newest


def test_what_cannot_be_made_again_is_refused(tmp_path):
    space = opened(tmp_path)
    say(space, "first")
    embed(space)
    with pytest.raises(InputUnavailable, match="record 1"):
        History(space).selection_at(upto=1, digest="0" * 64, cap=20_000)


def test_a_damaged_file_is_made_good_from_the_catalog_for_a_prompt(tmp_path):
    space = opened(tmp_path)
    say(space, "first")
    embed(space)
    path = space.layout.history_snapshot
    digest, raw = view_of(space).digest, bytearray(path.read_bytes())
    raw[raw.index(b"answer to first")] ^= 1
    path.unlink()
    path.write_bytes(raw)
    forget_snapshots()
    made = History(space).selection_at(upto=1, digest=digest, cap=20_000)
    assert "answer to first" in made.chunks(made.chunk_ids)[0].snippet


def test_summaries_are_published_where_they_are_switched_on(tmp_path):
    space = opened(tmp_path, **{"history.summaries": True, "history.summarise_after_days": 1})
    for n in range(12):
        append_turn(space, Turn("", "s", f"2024-01-{n + 1:02}T10:00:00+00:00", f"the brakes {n}"))
    append_turn(space, Turn("", "s", "2025-01-01T10:00:00+00:00", "today"))
    embed(space)
    view = view_of(space)
    assert list(view.chunk_ids) == ["history::s::1-12::0", "history::s::13-13::0"]
    assert view.chunks(view.chunk_ids)[0].meta["turn_id_end"] == 12
    assert History(opened(tmp_path)).publish().rows == 13
    assert journal(space).newest().seq == 13
