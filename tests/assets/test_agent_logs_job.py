"""The job `import_agent_logs`: a sensor that asks once a state, and counts alone in Dagster."""

from __future__ import annotations

import dagster as dg
import pytest

from ragstream_assets import agent_logs_job
from ragstream_assets.definitions import defs
from ragstream_assets.resources import adopt
from ragstream_core.conversations.importers import reader
from ragstream_core.wiring.journal import show
from tests.unit.conversations.importers import exports


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as found:
        yield found


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


def unreadable():
    raise PermissionError(13, "Permission denied")


def write(logs, *questions):
    rows = [
        row for q in questions for row in (exports.user(q), exports.agent(exports.words("Yes.")))
    ]
    return exports.write_jsonl(logs / "s.jsonl", exports.claude_code(*rows))


def test_the_sensor_asks_once_for_each_state_of_the_logs(space, logs, instance):
    def tick():
        return agent_logs_job.tick(space, instance)

    assert "1 of 1 folders are not there" in tick().skip_reason.skip_message
    write(logs, "Does it hold?")
    (first,) = tick().run_requests
    (again,) = tick().run_requests
    assert first.run_key == again.run_key
    assert run(space).success
    assert tick().skip_reason.skip_message == "no log has changed"
    write(logs, "Does it hold?", "And now?")
    (later,) = tick().run_requests
    assert later.run_key != first.run_key


def test_a_log_that_cannot_be_read_is_not_asked_for_at_every_look(
    space, logs, instance, monkeypatch
):
    now = agent_logs_job.time.time()
    monkeypatch.setattr(reader, "_opener", lambda source: unreadable)
    write(logs, "Does it hold?")
    (request,) = agent_logs_job.tick(space, instance).run_requests
    job = defs.resolve_job_def(agent_logs_job.JOB)
    given = {"resources": {"workspace": {"config": adopt(space)}}}
    for pause in (31, 61):
        done = job.execute_in_process(run_config=given, instance=instance, tags=request.tags)
        assert done.success
        waits = agent_logs_job.tick(space, instance)
        assert not waits.run_requests and "again later" in waits.skip_reason.skip_message
        now += pause
        monkeypatch.setattr(agent_logs_job.time, "time", lambda at=now: at)
        (later,) = agent_logs_job.tick(space, instance).run_requests
        assert later.run_key != request.run_key
        request = later


def test_without_a_folder_or_a_journal_it_does_nothing(
    root, open_root, space, monkeypatch, instance
):
    monkeypatch.setenv("RAGSTREAM_HISTORY__PERSIST", "false")
    assert agent_logs_job.tick(open_root(root), instance).skip_reason.skip_message == (
        "history.persist is off"
    )
    monkeypatch.delenv("RAGSTREAM_PATHS__AGENT_LOGS")
    assert agent_logs_job.tick(open_root(root), instance).skip_reason.skip_message == (
        agent_logs_job.OFF
    )


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
