"""Summaries of old spans that answers cite rank higher, until somebody says no (R-240)."""

import pytest

from ragstream_core.conversations.clearing import Choice
from ragstream_core.conversations.journal.records import TagEdit, Turn
from ragstream_core.index.snapshot import forget_snapshots, open_snapshot
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.records.identity import sha256_hex
from ragstream_core.services.clear_history import clear
from ragstream_core.services.history_update import embed, summaries
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.journal import append_turn, journal, tag
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.copies import said
from tests.workspaces import ingested_workspace

SUMMARY = "history::old::1-12::0"


def say(space, session, text, when="2026-10-05", **more):
    return append_turn(space, Turn("", session, f"{when}T10:00:00+00:00", "q?", text, **more))


@pytest.fixture
def space(tmp_path):
    found = ingested_workspace(tmp_path, {"history.summaries": "true"})
    for n in range(12):
        say(found, "old", f"The torque of wheel bolt {n} is {90 + n} Nm.", when="2024-01-05")
    say(found, "new", "Something else.")
    embed(found)
    return found


def cite(space, n):
    row = {"id": sha256_hex(SUMMARY)[:8], "source": "history/old/1", "known": True}
    return say(space, "new", f"As was said, answer {n}.", citations=(row,))


def found(space):
    request = PromptRequest("What is the torque of each wheel bolt?", ("demo",))
    prompt = run_prompt(space, pin_inputs(space, request))
    return prompt, prompt.extras.scores[SUMMARY]


def edits(space):
    return [e.record for e in journal(space).entries() if isinstance(e.record, TagEdit)]


def test_two_answers_promote_it_and_a_person_has_the_last_word(space):
    cite(space, 1)
    assert not any("SILVER" in w for w in embed(space).warnings)
    cite(space, 2)
    (told,) = [w for w in embed(space).warnings if "SILVER" in w]
    assert SUMMARY in told and f"ragstream history tag {SUMMARY} --remove SILVER" in told
    prompt, scores = found(space)
    assert scores.parts["tag"] == 0.1
    (row,) = summaries(space)
    assert (row.id, row.answers, row.tags) == (SUMMARY, 2, ("SILVER",))
    assert row.title.startswith("Summary of turns 1 to 12: ")
    key = save_prompt(space, prompt).prompt_key
    say(space, "new", "One more.")
    assert not any("SILVER" in w for w in embed(space).warnings) and len(edits(space)) == 1
    forget_snapshots()
    view = open_snapshot(space.layout.history_snapshot)
    assert view.columns.tags[view.chunk_ids.index(SUMMARY)] == ("SILVER",)
    assert found(space)[1].parts["tag"] == 0.1
    assert tag(space, SUMMARY, remove=["SILVER"])[1] == ()
    assert "tag" not in found(space)[1].parts
    cite(space, 3)
    embed(space)
    assert "tag" not in found(space)[1].parts and len(edits(space)) == 2
    assert replay_prompt(space, key).verdict == "identical"


def test_a_run_with_nothing_new_stays_one_after_a_promotion(space):
    cite(space, 1)
    cite(space, 2)
    assert embed(space).committed
    assert not embed(space).committed and len(edits(space)) == 1


def test_what_names_a_summary_goes_with_its_turns(space):
    cite(space, 1)
    cite(space, 2)
    embed(space)
    clear(space, Choice("old"))
    assert edits(space) == []
    logs = (space.data_dir / "history" / "logs").iterdir()
    assert not any(SUMMARY.encode() in said(path) for path in logs)
