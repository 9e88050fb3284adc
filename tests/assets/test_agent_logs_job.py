"""The job `import_agent_logs`: a sensor that asks once a state, and counts alone in Dagster."""

from __future__ import annotations

import pytest

from ragstream_assets import agent_logs_job
from ragstream_assets.definitions import defs
from ragstream_assets.resources import adopt
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
    return defs.resolve_job_def(agent_logs_job.JOB).execute_in_process(
        run_config={"resources": {"workspace": {"config": adopt(space)}}}, raise_on_error=False
    )


def write(logs, *questions):
    rows = [
        row for q in questions for row in (exports.user(q), exports.agent(exports.words("Yes.")))
    ]
    return exports.write_jsonl(logs / "s.jsonl", exports.claude_code(*rows))


def test_the_sensor_asks_once_for_each_state_of_the_logs(space, logs):
    assert "is not there" in agent_logs_job.tick(space).skip_reason.skip_message
    write(logs, "Does it hold?")
    (first,) = agent_logs_job.tick(space).run_requests
    (again,) = agent_logs_job.tick(space).run_requests
    assert first.run_key == again.run_key
    assert run(space).success
    assert agent_logs_job.tick(space).skip_reason.skip_message == "no log has changed"
    write(logs, "Does it hold?", "And now?")
    (later,) = agent_logs_job.tick(space).run_requests
    assert later.run_key != first.run_key


def test_without_a_folder_or_a_journal_it_does_nothing(root, open_root, space, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
    assert agent_logs_job.tick(open_root(root)).skip_reason.skip_message == "history.persist is off"
    monkeypatch.delenv("RAGSTREAM_PATHS__AGENT_LOGS")
    assert agent_logs_job.tick(open_root(root)).skip_reason.skip_message == agent_logs_job.OFF


def test_a_run_adds_turns_and_tells_dagster_counts_alone(space, logs):
    log = write(logs, "Where is the secret pump?")
    with log.open("a") as file:
        file.write("{broken}\n")
    result = run(space)
    assert [row["user_text"] for row in show(space)] == ["Where is the secret pump?"]
    (event,) = result.asset_materializations_for_node("follow_agent_logs")
    assert event.metadata["turns"].value == 1
    assert event.metadata["not read"].value == 1
    assert "pump" not in "".join(str(e) for e in result.all_events)
    assert run(space).success
    assert len(show(space)) == 1
