"""The job `import_agent_logs`: a sensor that asks once a state, and counts alone in Dagster."""

from __future__ import annotations

import pytest

from ragstream_assets import sensors
from ragstream_assets.definitions import defs
from ragstream_assets.resources import adopt
from ragstream_core.conversations.importers import reader
from ragstream_core.wiring.journal import show
from tests.unit.conversations.importers import exports


@pytest.fixture
def logs(tmp_path):
    return tmp_path / "sessions"


@pytest.fixture
def space(root, open_root, monkeypatch, logs):
    monkeypatch.setenv("RAGSTREAM_PATHS__AGENT_LOGS", str(logs))
    return open_root(root)


def run(space):
    return defs.resolve_job_def("import_agent_logs").execute_in_process(
        run_config={"resources": {"workspace": {"config": adopt(space)}}}, raise_on_error=False
    )


def unreadable():
    raise PermissionError(13, "Permission denied")


def write(logs, *questions):
    rows = [
        row for q in questions for row in (exports.user(q), exports.agent(exports.words("Yes.")))
    ]
    return exports.write_jsonl(logs / "s.jsonl", exports.claude_code(*rows))


def test_the_sensor_asks_once_for_each_state_of_the_logs(space, logs):
    missing = sensors.logs_tick(space, None)
    assert "1 of 1 folders are not there" in missing.skip_reason.skip_message
    write(logs, "Does it hold?")
    first = sensors.logs_tick(space, missing.cursor)
    assert len(first.run_requests) == 1
    assert not sensors.logs_tick(space, first.cursor).run_requests
    assert run(space).success
    after = sensors.logs_tick(space, first.cursor)
    assert after.skip_reason.skip_message == "no log has changed"
    write(logs, "Does it hold?", "And now?")
    assert len(sensors.logs_tick(space, first.cursor).run_requests) == 1


def test_a_log_that_cannot_be_read_is_not_asked_for_until_it_changes(space, logs, monkeypatch):
    monkeypatch.setattr(reader, "_opener", lambda source: unreadable)
    write(logs, "Does it hold?")
    first = sensors.logs_tick(space, None)
    assert first.run_requests and run(space).success
    waits = sensors.logs_tick(space, first.cursor)
    assert not waits.run_requests and "as far as they can be" in waits.skip_reason.skip_message
    write(logs, "Does it hold?", "And now?")
    assert sensors.logs_tick(space, first.cursor).run_requests


def test_without_a_folder_or_a_journal_it_does_nothing(root, open_root, space, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
    assert sensors.logs_tick(open_root(root), None).skip_reason.skip_message == (
        "history.persist is off"
    )
    monkeypatch.delenv("RAGSTREAM_PATHS__AGENT_LOGS")
    assert sensors.logs_tick(open_root(root), None).skip_reason.skip_message == (sensors.OFF)


def test_a_run_adds_turns_and_tells_dagster_counts_alone(space, logs):
    log = write(logs, "Where is the secret pump?")
    with log.open("a") as file:
        file.write("{broken}\n")
    result = run(space)
    assert [row.user for row in show(space)] == ["Where is the secret pump?"]
    (event,) = result.asset_materializations_for_node("follow_agent_logs")
    assert event.metadata["turns"].value == 1
    assert event.metadata["not read"].value == 1
    assert "pump" not in "".join(str(e) for e in result.all_events)
    assert run(space).success
    assert len(show(space)) == 1
