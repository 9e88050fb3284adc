"""The time is a part of a prompt's key where a stage has read it, and nowhere else."""

import datetime as dt

import pytest

from ragstream_core.agents.history_conflicts import is_past
from ragstream_core.prompts.inputs import PromptRequest, begin, inputs_of
from ragstream_core.prompts.stage_versions import Clock, TimedStage
from ragstream_core.prompts.store import key_of
from ragstream_core.records import evolve
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.goldens.corpus import NOW, SCENARIOS, run

LATER = NOW + dt.timedelta(days=3, hours=5)


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_no_stage_read_changes_neither_bytes_nor_key(space, name):
    one, other = run(space, name), run(space, name, LATER)
    timed = bool(inputs_of(one).now)
    assert timed == bool(inputs_of(other).now)
    assert (key_of(one) == key_of(other)) == (not timed)
    if not timed:
        assert one.extras.super_prompt == other.extras.super_prompt
        assert one.extras.trail == other.extras.trail


@pytest.mark.parametrize(
    ("settings", "timed"),
    [
        ({}, False),
        ({"recency_weight": 0.05}, True),
        ({"recency_weight": 0.05, "enabled": False}, False),
        ({"damping": 0.2}, True),
        ({"days": 400}, True),
        ({"always_tags": "GOLD"}, False),
        ({"always_tags": "GOLD@30d"}, True),
    ],
)
def test_the_time_is_read_where_turns_age_or_run_out(space, settings, timed):
    given = {f"history.{name}": value for name, value in settings.items()}
    text = SCENARIOS["past"]["text"]
    keys = set()
    for now in (NOW, LATER):
        request = PromptRequest(text, ("demo",), session="other", settings=given)
        prompt = run_prompt(space, pin_inputs(space, request, now))
        assert bool(inputs_of(prompt).now) == timed
        keys.add(key_of(prompt))
    assert len(keys) == 1 + timed


@pytest.mark.parametrize(
    ("asked", "around", "timed"),
    [
        ("last week", "true", True),
        ("on 5 October 2026", "true", False),
        ("last week", "false", False),
    ],
)
def test_the_time_is_read_where_a_question_counts_days_from_it(space, asked, around, timed):
    text = f"{SCENARIOS['past']['text']} What was said {asked}?"
    keys = set()
    for now in (NOW, LATER):
        given = {"history.around": around}
        request = PromptRequest(text, ("demo",), session="other", settings=given)
        prompt = run_prompt(space, pin_inputs(space, request, now))
        assert bool(inputs_of(prompt).now) == timed
        keys.add(key_of(prompt))
    assert len(keys) == 1 + timed


def test_a_question_that_counts_days_has_one_key_a_day(space):
    def made(now):
        text = f"{SCENARIOS['past']['text']} What was said yesterday?"
        request = PromptRequest(text, ("demo",), session="other")
        return run_prompt(space, pin_inputs(space, request, now))

    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    times = [midnight, NOW, midnight + dt.timedelta(hours=23, minutes=59, microseconds=7)]
    prompts = [made(now) for now in times]
    assert {inputs_of(prompt).now for prompt in prompts} == {midnight.isoformat()}
    assert len({(key_of(p), p.extras.super_prompt, p.extras.trail) for p in prompts}) == 1
    assert key_of(made(midnight + dt.timedelta(days=1))) != key_of(prompts[0])
    record = save_prompt(space, prompts[1])
    assert record.inputs["now"] == midnight.isoformat()
    assert replay_prompt(space, record.prompt_key).verdict == "identical"


def test_a_day_on_which_clocks_change_has_one_key(space):
    text = f"{SCENARIOS['past']['text']} What was said yesterday?"
    request = PromptRequest(text, ("demo",), session="other")
    winter, summer = (dt.timezone(dt.timedelta(hours=n), zone) for n, zone in ((1, "A"), (2, "B")))
    times = [dt.datetime(2026, 3, 29, 1, tzinfo=winter), dt.datetime(2026, 3, 29, 4, tzinfo=summer)]
    made = [run_prompt(space, pin_inputs(space, request, now)) for now in times]
    assert len({(key_of(prompt), prompt.extras.super_prompt) for prompt in made}) == 1
    assert inputs_of(made[0]).now == "2026-03-29T00:00:00+00:00"


def test_who_reads_the_time_as_well_as_the_day_has_a_key_a_time(space):
    settings = {"history.recency_weight": 0.05}
    text = f"{SCENARIOS['past']['text']} What was said yesterday?"
    keys = set()
    for now in (NOW, NOW + dt.timedelta(minutes=1)):
        request = PromptRequest(text, ("demo",), session="other", settings=settings)
        prompt = run_prompt(space, pin_inputs(space, request, now))
        assert inputs_of(prompt).now == now.isoformat()
        keys.add(key_of(prompt))
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("filters", "keys"), [("since:2026-10-05", 1), ("since:30d", 2), ("since:2w type:md", 2)]
)
def test_a_date_in_the_question_is_no_clock_and_an_age_changes_once_a_day(space, filters, keys):
    found = {}
    for now in (NOW, NOW + dt.timedelta(hours=9), NOW + dt.timedelta(days=1)):
        request = PromptRequest(
            f"{SCENARIOS['past']['text']} {filters}", ("demo",), session="other"
        )
        prompt = run_prompt(space, pin_inputs(space, request, now))
        assert not inputs_of(prompt).now
        found[now.date()] = [*found.get(now.date(), ()), key_of(prompt)]
    first, (later,) = found.values()
    assert len(set(first)) == 1 and len({*first, later}) == keys


def test_since_leaves_out_older_turns(space):
    def days(filters):
        text = f"{SCENARIOS['past']['text']} {filters}"
        prompt = run_prompt(
            space, pin_inputs(space, PromptRequest(text, ("demo",), session="other"), NOW)
        )
        turns = [c for c in prompt.base_context_chunks if is_past(c)]
        return {int(c.snippet.removeprefix("[").split()[0]) for c in turns}

    assert min(days("")) == 1
    assert min(days("since:2026-10-02")) == 2
    assert days("since:2026-11-01") == set()


def test_a_replay_gives_the_recorded_time(space):
    prompt = run(space, "aged")
    record = save_prompt(space, prompt)
    assert record.inputs["now"] == NOW.isoformat()
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
    untimed = save_prompt(space, run(space, "lock"))
    assert untimed.inputs["now"] == untimed.inputs["time_zone"] == ""
    assert untimed.prompt_key == save_prompt(space, run(space, "lock", LATER)).prompt_key
    assert replay_prompt(space, untimed.prompt_key).verdict == "identical"


def test_a_clock_notes_that_it_was_read_and_a_second_pass_keeps_the_note(space):
    inputs = pin_inputs(space, PromptRequest("Who?", ("demo",)), NOW)
    prompt, clock = begin(inputs), Clock(inputs.now)
    unread = TimedStage(lambda given: given, clock)(prompt)
    assert not inputs_of(unread).now
    assert clock.now() == NOW
    read = TimedStage(lambda given: evolve(given), clock)(unread)
    again = TimedStage(lambda given: evolve(given), Clock(inputs.now))(read)
    assert inputs_of(read) == inputs_of(again) == inputs
