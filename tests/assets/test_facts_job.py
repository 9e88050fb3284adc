"""The job `remember_facts`: three ops, steps that are skipped, and no word in Dagster."""

import json

import dagster as dg
import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.remembered_facts import FactMemory
from tests.assets.executing import execute

ROLE = "I'm a project finance analyst at Contoso."


@pytest.fixture
def space(root, open_root, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_FACTS__FORM", "rules")
    return open_root(root)


def say(space, text):
    return append_turn(space, Turn("", "s", "", text, "Noted."))


def run(space, **config):
    return execute(space, job="remember_facts", ops={"analyze": config} if config else {})


def skipped(result):
    return [e.step_key for e in result.all_events if e.event_type_value == "STEP_SKIPPED"]


def test_three_ops_write_what_is_new_and_skip_what_is_not(space):
    say(space, "What is a lock?")
    result = run(space)
    assert result.success and skipped(result) == ["deduplicate", "write"]
    say(space, ROLE)
    result = run(space)
    assert result.success and skipped(result) == []
    (fact,) = FactMemory(space).candidates()
    (event,) = result.asset_materializations_for_node("write")
    assert event.asset_key == dg.AssetKey(["memory", "facts"])
    (row,) = event.metadata["candidates"].records
    assert row.data["fact"] == fact.short and row.data["turn"] == 2 and row.data["kind"] == "role"
    result = run(space)
    assert result.success and skipped(result) == ["write"]
    assert len(FactMemory(space).facts()) == 1


def test_no_word_of_a_turn_reaches_dagster(space):
    say(space, ROLE)
    result = run(space)
    told = json.dumps([str(event) for event in result.all_events])
    assert result.success and "Contoso" not in told and "analyst" not in told


def test_only_the_turns_that_are_asked_for_are_read(space):
    say(space, ROLE)
    last = say(space, "We host all services in Dublin.")
    assert run(space, since=last.seq).success and FactMemory(space).facts() == []
    assert run(space, upto=last.seq - 1).success
    assert [fact.target for fact in FactMemory(space).facts()] == ["user"]


def test_where_nothing_may_be_written_the_run_says_so(root, open_root, monkeypatch):
    say(open_root(root), ROLE)
    monkeypatch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
    result = run(open_root(root))
    (failed,) = [e for e in result.all_events if e.is_step_failure]
    assert not result.success and failed.step_key == "write"
    assert "history.persist is off" in str(failed.event_specific_data)
