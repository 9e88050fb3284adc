"""The journal sensor and the nightly run: they ask when there is something to do, and not again."""

import datetime as dt
import random

import dagster as dg
import pytest

from ragstream_assets import history, schedules, sensors
from ragstream_assets.definitions import defs
from ragstream_assets.resources import WorkspaceResource, adopt
from ragstream_core.conversations.journal.records import Asked, TagEdit
from ragstream_core.models.embedders.registry import EMBEDDERS
from ragstream_core.services import history_update
from ragstream_core.wiring.history_index import History
from ragstream_core.wiring.journal import append_records

NIGHT = dt.datetime(2026, 11, 20, 2, 15, tzinfo=dt.UTC)


@pytest.fixture
def other_backend(counting_embedder):
    """The name of a backend with another model."""
    EMBEDDERS.register("other", lambda: counting_embedder(fingerprint="b" * 64))
    yield "other"
    EMBEDDERS.unregister("other")


def tick(space, home, cursor=None):
    return sensors.history_tick(space, home, cursor)


def obey(space, home, request, embed):
    """Run what was requested, as the daemon does, tags included."""
    result = embed(
        space, home, config=request.run_config["ops"][history.PUBLISH_OP]["config"],
        tags=request.tags,
    )  # fmt: skip
    assert result.success
    return result


def leave(home, request, status):
    """Put a run for a request into the instance."""
    made = home.create_run_for_job(
        defs.resolve_job_def("embed_history"), tags=request.tags, status=status
    )
    if status is dg.DagsterRunStatus.FAILURE:
        home.report_run_failed(made)
    return made


@pytest.fixture
def embedded(space, home, say, embed):
    """Two turns, embedded by a run that the sensor asked for; the sensor's cursor."""
    say(space, 1)
    say(space, 2)
    first = tick(space, home)
    obey(space, home, first.run_requests[0], embed)
    return first.cursor


def test_a_turn_is_requested_once_with_the_record_to_stop_at(space, home, say):
    entry = say(space, 1)
    result = tick(space, home)
    (request,) = result.run_requests
    assert request.run_config["ops"]["publish_snapshot"]["config"] == {"upto": entry.seq}
    assert request.tags["ragstream/project"] == "~history"
    again = tick(space, home, result.cursor)
    assert not again.run_requests and "nothing new" in again.skip_reason.skip_message


def test_what_was_embedded_is_not_requested_again(space, home, embedded, say):
    assert not tick(space, home, embedded).run_requests
    say(space, 3)
    (request,) = tick(space, home, embedded).run_requests
    assert "3" in str(request.run_config)


def test_garbled_cursors_cost_a_look_and_embed_nothing(space, home, embedded):
    rng = random.Random(7)
    cursors = [None, "", "{", "[]", "null", '{"v": 9}', embedded[:-1], embedded.upper()]
    while len(cursors) < 20:
        at = rng.randrange(len(embedded))
        cursors.append(embedded[:at] + chr(33 + rng.randrange(90)) + "~" + embedded[at + 1 :])
    for cursor in cursors:
        result = tick(space, home, cursor)
        assert not result.run_requests
        assert result.cursor == embedded  # what it should be, from now on
    assert History(space).status().generation == 1


def test_records_that_are_no_whole_turn_are_no_reason(space, home, embedded, say):
    asked = Asked("", "talks", "", "Anything else?")
    append_records(space, [asked, TagEdit("", "turn-1", "", ("GOLD",), ())])
    say(space, 3, status="partial")
    assert not tick(space, home, embedded).run_requests


def test_a_lost_snapshot_is_a_reason_once_the_cursor_is(space, home, embedded, embed):
    space.layout.history_snapshot.unlink()
    (request,) = tick(space, home).run_requests
    obey(space, home, request, embed)
    assert not tick(space, home).run_requests


def test_one_run_at_a_time(space, home, say):
    say(space, 1)
    waiting = tick(space, home)
    made = leave(home, waiting.run_requests[0], dg.DagsterRunStatus.NOT_STARTED)
    say(space, 2)
    result = tick(space, home, waiting.cursor)
    assert not result.run_requests and result.cursor == waiting.cursor
    assert "a run is in progress" in result.skip_reason.skip_message
    home.report_run_failed(made)
    (request,) = tick(space, home, waiting.cursor).run_requests
    assert request.run_config["ops"]["publish_snapshot"]["config"] == {"upto": 2}


def test_another_model_is_left_to_the_night(space, home, embedded, say, open_root, other_backend):
    say(space, 3)
    other = open_root(space.data_dir, **{"embeddings.backend": other_backend})
    result = tick(other, home, embedded)
    assert not result.run_requests and result.cursor == embedded
    assert "another model" in result.skip_reason.skip_message
    history_update.catch_up(other, follow_model=True)
    assert not tick(other, home, embedded).run_requests
    say(other, 4)
    assert tick(other, home, embedded).run_requests


@pytest.mark.parametrize("turns", [0, 1])
def test_reasons_to_skip_are_said(space, home, open_root, turns, say):
    for n in range(turns):
        say(space, n)
    off = open_root(space.data_dir, **{"history.persist": "false"}) if turns else space
    reason = "history.persist is off" if turns else "no conversation has been recorded yet"
    result = tick(off, home)
    assert not result.run_requests and reason in result.skip_reason.skip_message
    skipped = nightly(off, home)
    assert isinstance(skipped, dg.SkipReason) and reason in skipped.skip_message


def nightly(space, home):
    context = dg.build_schedule_context(instance=home, scheduled_execution_time=NIGHT)
    return schedules.nightly_history(context, workspace=WorkspaceResource(**adopt(space)))


def test_every_night_what_is_pending_is_embedded_and_all_is_verified(space, home, embed, say):
    say(space, 1)
    request = nightly(space, home)
    assert request.run_key == "history:2026-11-20"
    config = request.run_config["ops"]["publish_snapshot"]["config"]
    assert config == {"follow_model": True}
    result = embed(space, home, job="reconcile_history", config=config)
    assert result.success and History(space).status().pending == 0
    found = {e.check_name: e.passed for e in result.get_asset_check_evaluations()}
    assert len(found) == 6 and all(found.values())  # the seventh is of a collection: none is kept


def test_both_run_by_default(space, home, say):
    sensor = defs.resolve_sensor_def("journal_sensor")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    schedule = defs.resolve_schedule_def("nightly_history")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    say(space, 1)
    context = dg.build_sensor_context(instance=home, definitions=defs)
    resource = WorkspaceResource(**adopt(space))
    assert sensors.journal_sensor(context, workspace=resource).run_requests
