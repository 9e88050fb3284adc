"""Clearing short of erasing: inactive turns, turns without vectors, anonymous copies (R-196)."""

import pytest

from ragstream_core.conversations.clearing import choice_of
from ragstream_core.conversations.journal.records import Turn
from ragstream_core.index import remove
from ragstream_core.index.check import WHOLE
from ragstream_core.index.schema import read
from ragstream_core.index.snapshot import forget_snapshots, open_snapshot
from ragstream_core.index.view import forget_views
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services import clear_history
from ragstream_core.services.clear_history import anonymise, bring_back, clear, put_aside
from ragstream_core.services.history_update import embed
from ragstream_core.services.replay import replay_prompt
from ragstream_core.settings.prompts import MemoryConfig
from ragstream_core.wiring.digest import digest_text
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import (
    append_turn,
    journal,
    show,
    tag,
)
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.copies import said
from tests.workspaces import ingested_workspace

SECRET = "The nightly robot of the catalog is named Pegasus."
MINE = choice_of(session="mine")


@pytest.fixture
def space(tmp_path):
    found = ingested_workspace(tmp_path)
    when = "2026-10-0{}T10:00:00+00:00"
    append_turn(found, Turn("", "mine", when.format(1), "Which robot is it?", SECRET))
    append_turn(found, Turn("", "other", when.format(2), "Lunch?", "Soup, as always."))
    embed(found)
    return found


def ask(space, session="mine"):
    request = PromptRequest("Which nightly robot is named?", ("demo",), session=session)
    return run_prompt(space, pin_inputs(space, request))


def is_used(space):
    digest = digest_text(
        space, MemoryConfig(enabled=True), upto=journal(space).newest().seq, count=len
    )
    return ["Pegasus" in text for text in (
        ask(space).extras.super_prompt, ask(space, "").extras.super_prompt,
        digest,
    )]  # fmt: skip


def tags(space):
    return [row.tags for row in show(space, "mine")]


def holders(space):
    """Files of the index in which the words stand."""
    index = space.data_dir / "history" / "index"
    vectors = space.data_dir / "history" / "vectors"
    files = [p for root in (index, vectors) for p in root.rglob("*") if p.is_file()]
    return [path.name for path in files if b"pegasus" in said(path).lower()]


def sound(space):
    forget_views()
    forget_snapshots()
    return History(space).check(WHOLE) == []


def test_an_inactive_turn_is_kept_listed_and_used_by_nothing_until_it_is_brought_back(space):
    assert is_used(space) == [True, True, True]
    key = save_prompt(space, ask(space)).prompt_key
    assert put_aside(space, MINE, dry_run=True).turns == 1 and tags(space) == [()]
    done = put_aside(space, MINE)
    assert (done.turns, done.sessions, done.rows) == (1, ["mine"], 0)
    assert is_used(space) == [False, False, False]
    embed(space)
    assert is_used(space) == [False, False, False]
    assert [row.assistant for row in show(space, tags=["INACTIVE"])] == [SECRET]
    assert replay_prompt(space, key).verdict == "identical"
    assert put_aside(space, MINE).turns == 0
    assert bring_back(space, MINE, dry_run=True).turns == 1 and tags(space) == [("INACTIVE",)]
    assert bring_back(space, MINE).turns == 1 and tags(space) == [()]
    assert is_used(space) == [True, True, True] and sound(space)


def test_no_setting_lets_an_inactive_turn_through(space):
    put_aside(space, MINE)
    settings = {"history.exclude_tags": "", "history.always_tags": "INACTIVE"}
    request = PromptRequest("Which robot?", ("demo",), settings=settings, session="mine")
    assert "Pegasus" not in run_prompt(space, pin_inputs(space, request)).extras.super_prompt


def test_deleted_vectors_are_gone_from_the_index_and_come_back_with_the_turn(space):
    assert holders(space)
    done = put_aside(space, MINE, vectors=True)
    assert (done.turns, done.rows) == (1, 1)
    assert holders(space) == [] and sound(space)
    assert len(open_snapshot(space.layout.history_snapshot).chunk_ids) == 1
    embed(space)
    embed(space, months=["2026-10"])
    assert holders(space) == [] and show(space, "mine")[0].assistant == SECRET
    assert put_aside(space, MINE, vectors=True).rows == 0
    bring_back(space, MINE)
    assert tags(space) == [()] and is_used(space) == [True, True, True] and sound(space)


@pytest.mark.parametrize("cleared", [False, True])
def test_deleting_vectors_that_was_killed_is_finished_and_takes_no_prompt_with_it(
    space, monkeypatch, cleared
):
    """The turns are put aside, not cleared: what they were quoted in stays."""
    if cleared:
        append_turn(space, Turn("", "third", "2026-10-03T10:00:00+00:00", "Tea?", "No tea."))
        clear(space, choice_of(session="third"))
    record = save_prompt(space, ask(space))
    purge = remove.purge_texts

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(remove, "purge_texts", killed)
    with pytest.raises(KeyboardInterrupt):
        put_aside(space, MINE, vectors=True)
    monkeypatch.setattr(remove, "purge_texts", purge)
    assert holders(space)
    embed(space)
    forget_views(), forget_snapshots()
    assert not holders(space)
    assert read(space.layout.history_index, remove.tombstones) == []
    assert space.store.record(record.prompt_key).output_sha256 == record.output_sha256


def test_a_turn_that_was_never_embedded_is_passed_over(space):
    append_turn(space, Turn("", "mine", "", "And its key?", "Pegasus hides it."))
    put_aside(space, MINE, vectors=True)
    assert embed(space).embedded == 0 and holders(space) == [] and sound(space)
    embed(space, rebuild=True)
    assert holders(space) == [] and sound(space)


def test_anonymous_copies_take_the_place_of_the_turns(space):
    text = (
        "Write to ada.king@example.org or +49 170 1234567, says Ada Lovelace; the pass of "
        "/home/ada is at 10.2.3.4, IBAN DE89 3704 0044 0532 0130 00."
    )
    turn = Turn("", "mine", "2026-10-03T11:12:13+02:00", "Whom do I ask?", text,
                speakers=("Babbage", "assistant"), tags=("GOLD",))  # fmt: skip
    append_turn(space, turn)
    save_prompt(space, ask(space))
    counted = anonymise(space, MINE, mask=["Ada Lovelace"], dry_run=True)
    assert counted.masked == {
        "account": 1, "address": 1, "email": 1, "home": 1, "name": 1, "phone": 1,
    }  # fmt: skip
    assert show(space, "mine")
    done = anonymise(space, MINE, mask=["Ada Lovelace"])
    assert (done.turns, done.left) == (2, []) and show(space, "mine") == []
    first, second = [r for r in show(space) if r.session.startswith("anonymous-")]
    assert first.assistant == SECRET and second.tags == ("GOLD",)
    assert second.turn.timestamp.startswith("2026-10-03T00:00") and second.turn.prompt_key == ""
    assert second.turn.speakers == ("user", "assistant")
    for word in ("ada.king", "1234567", "lovelace", "/home/ada", "10.2.3.4", "0532 0130"):
        assert word not in second.assistant.lower()
        assert not any(word.encode() in said(p).lower() for p in space.data_dir.rglob("*.log"))
    embed(space)
    assert sound(space)


def test_what_is_said_while_turns_are_masked_is_not_lost(space, monkeypatch):
    """Selected twice, a turn that came in between went without a copy."""
    append_turn(space, Turn("", "mine", "2026-10-03T10:00:00+00:00", "Again?", "Pegasus, again."))
    tag(space, "1", add=["BLUE"])
    (source,) = [row.id for row in show(space, "mine") if row.assistant == SECRET]
    late = [
        Turn("", "mine", "2026-10-04T10:00:00+00:00", "Who asks late?", "The night watch."),
        Turn("", "other", "2026-10-04T11:00:00+00:00", "Which robot is it?", SECRET,
             origin="cached", origin_turn=source),
    ]  # fmt: skip
    masked = clear_history.masked

    def slowly(*args):
        while late:
            append_turn(space, late.pop(0))
        return masked(*args)

    monkeypatch.setattr(clear_history, "masked", slowly)
    anonymise(space, MINE)
    copies = [row for row in show(space) if row.session.startswith("anonymous-")]
    assert [row.user for row in copies] == ["Which robot is it?", "Again?", "Which robot is it?"]
    assert [row.turn.origin for row in copies] == ["", "", "cached"]
    assert copies[0].tags == ("BLUE",)
    assert [row.user for row in show(space, "mine")] == ["Who asks late?"]
    assert [row.user for row in show(space, "other")] == ["Lunch?"]
