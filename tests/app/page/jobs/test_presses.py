"""A press in a thread: one at a time a desk, attached to again, and many desks at once."""

import functools
import threading

import pytest

from ragstream_app.page.jobs import presses
from ragstream_app.page.prompt_session import BUILD, PromptSession, press, press_all
from ragstream_core.errors import RagstreamError, UsageError
from ragstream_core.prompts import chain
from ragstream_core.prompts.chain import BUTTONS, OPS, RERUN, ops_of
from ragstream_core.prompts.inputs import PromptRequest, inputs_of
from ragstream_core.records import evolve
from ragstream_core.records.stage_results import AuditResult
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring import stages
from ragstream_core.wiring.workspace import open_workspace

QUESTION = "How does the exact file lock restrict a prompt?"
REQUEST = PromptRequest(QUESTION, ("manual",))
WAIT_S = 120.0


@pytest.fixture
def space(indexed):
    return open_workspace()


@pytest.fixture
def held(monkeypatch):
    """Holds the retrieval until it is let go."""
    real, go = stages.make_stage, threading.Event()

    def stage(self, op, prompt, **more):
        if op == "retrieval":
            assert go.wait(WAIT_S)
        return real(self, op, prompt, **more)

    monkeypatch.setattr(stages, "make_stage", stage)
    yield go
    go.set()


def test_a_press_while_one_is_at_work_gives_that_one(space, held):
    desk = PromptSession()
    job = presses.start(desk, BUILD, REQUEST, space, fresh=True)
    assert presses.start(desk, BUILD, REQUEST, space, fresh=True) is job
    assert presses.start(desk, "PreProcessing", REQUEST, space) is job is desk.job
    with pytest.raises(TimeoutError):
        job.get(0.01)
    while job.stage != "retrieval":
        assert not job.wait(0.01)
    assert list(desk.steps) == list(BUTTONS[:2])  # a page that is drawn now shows these
    assert job.fraction == pytest.approx(OPS.index("retrieval") / len(OPS)) and job.running
    held.set()
    job.get(WAIT_S)
    assert (job.running, job.fraction, job.stage, job.error) == (False, 1.0, "", None)
    assert list(desk.steps) == list(BUTTONS) and job.elapsed_s == job.elapsed_s > 0
    assert presses.start(desk, "Prompt Builder", REQUEST, space) is not job
    desk.job.get(WAIT_S)


def test_what_a_stage_raises_comes_out_of_the_result(space):
    desk = PromptSession()
    job = presses.start(desk, "Retrieval", REQUEST, space)
    with pytest.raises(UsageError, match="Search needs Read first"):
        job.get(WAIT_S)
    assert not job.running and isinstance(job.error, UsageError) and desk.steps == {}


def test_run_all_keeps_the_steps_before_an_error(space, monkeypatch):
    real = stages.make_stage

    def stage(self, op, prompt, **more):
        if op == "a4_condenser":
            raise RagstreamError("no more of this")
        return real(self, op, prompt, **more)

    desk = PromptSession()
    with monkeypatch.context() as patch:
        patch.setattr(stages, "make_stage", stage)
        job = presses.start(desk, BUILD, REQUEST, space, fresh=True)
        with pytest.raises(RagstreamError, match="no more of this"):
            job.get(WAIT_S)
    assert list(desk.steps) == list(BUTTONS[:5]) and desk.next_button == "A4 Condenser"
    for button in BUTTONS[5:]:
        press(desk, button, REQUEST, space)
    whole = PromptSession()
    press_all(whole, REQUEST, space, fresh=True)
    assert desk.last.super_prompt.extras.super_prompt == whole.last.super_prompt.extras.super_prompt


@pytest.mark.parametrize("again", [False, True])
def test_run_all_lays_the_steps_that_the_buttons_leave(space, monkeypatch, again):
    """Also where the audit asks for its second pass, which belongs to its own button."""
    real = stages.make_stage

    def stage(self, op, prompt, **more):
        made = real(self, op, prompt, **more)
        if op != "a2_audit" or not again:
            return made

        def audit(given):
            audited = made(given)
            asking = evolve(audited)
            asking.extras.pass_no, asking.extras.audit = 2, AuditResult("rescoped")
            return asking

        return audit

    monkeypatch.setattr(stages, "make_stage", stage)
    one_by_one, whole = PromptSession(), PromptSession()
    for button in BUTTONS:
        press(one_by_one, button, REQUEST, space)
    press_all(whole, REQUEST, space, fresh=True)
    for button in BUTTONS:
        mine, theirs = whole.steps[button], one_by_one.steps[button]
        assert [op for op, _ in mine.super_prompt.extras.trail] == [
            op for op, _ in theirs.super_prompt.extras.trail
        ]
        assert mine.super_prompt.stage == theirs.super_prompt.stage
        assert set(mine.timings_ms) == set(theirs.timings_ms)
    second_pass = set(RERUN) if again else set()
    assert set(whole.steps["A4 Condenser"].timings_ms) == {*ops_of("A4 Condenser"), *second_pass}


def test_a_setting_changes_from_the_button_that_is_pressed_next(space):
    desk = PromptSession()
    press_all(desk, REQUEST, space, fresh=True)
    fewer = PromptRequest(QUESTION, ("manual",), settings={"prompt.max_facts": 1})
    assert desk.stale(fewer) == []
    press(desk, "A4 Condenser", fewer, space)
    inputs = inputs_of(desk.last.super_prompt)
    assert inputs.changes == (("a4_condenser", "prompt.max_facts", 1),)
    assert (
        desk.steps["Retrieval"].super_prompt.extras.trail == desk.last.super_prompt.extras.trail[:4]
    )
    for button in BUTTONS[6:]:
        press(desk, button, fewer, space)  # asked for once, not at each button again
    assert inputs_of(desk.last.super_prompt).changes == inputs.changes
    assert replay_prompt(space, desk.last.key).verdict == "identical"
    assert len(desk.last.super_prompt.extras.s_ctx.facts) <= 1
    press(desk, "Prompt Builder", REQUEST, space)  # and back again, from here on
    changed = inputs_of(desk.last.super_prompt).changes[-1]
    default = space.config.settings.prompt.max_facts
    assert changed == ("prompt_builder", "prompt.max_facts", default)


def test_what_only_preprocessing_takes_in_is_named(space):
    desk = PromptSession()
    assert desk.stale(REQUEST) == []
    press(desk, BUTTONS[0], REQUEST, space)
    other = PromptRequest("Something else", ("manual",), lock=True, settings={"gate.theta": 0.1})
    assert desk.stale(REQUEST) == [] and desk.stale(other) == ["text", "lock"]


@pytest.mark.slow
def test_two_tabs_twenty_presses_each(space):
    """Both finish with the same prompt."""
    desks = [PromptSession(), PromptSession()]
    order = [*BUTTONS, *BUTTONS[4:], *BUTTONS[4:], *BUTTONS[4:]]

    def work(desk):
        for button in order:
            presses.start(desk, button, REQUEST, space).get(WAIT_S)

    threads = [threading.Thread(target=work, args=(desk,), daemon=True) for desk in desks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not any(thread.is_alive() for thread in threads)
    texts = {desk.last.super_prompt.extras.super_prompt for desk in desks}
    assert len(texts) == 1 and len(order) == 20
    assert not any(step.notes for desk in desks for step in desk.steps.values())


def test_where_nothing_may_be_kept_a_press_leaves_no_file(indexed, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    desk, space = PromptSession(), open_workspace(explicit={"history.persist": "false"})
    presses.start(desk, BUILD, REQUEST, space, fresh=True).get(WAIT_S)
    assert sorted(tmp_path.rglob("*")) == before and desk.last.key == ""


def test_every_button_has_its_ops():
    assert [op for button in BUTTONS for op in ops_of(button)] == [s.op for s in chain.CHAIN]


def test_run_all_takes_the_steps_from_the_record_and_any_button_goes_on_from_there(space):
    made, again = PromptSession(), PromptSession()
    press_all(made, REQUEST, space, fresh=True)
    assert made.last.answered_at == ""
    presses.start(again, BUILD, REQUEST, space).get(WAIT_S)
    assert again.last.answered_at and again.last.key == made.last.key
    assert list(again.steps) == list(BUTTONS)
    for button in BUTTONS:
        mine, theirs = again.steps[button].super_prompt, made.steps[button].super_prompt
        assert mine.extras.trail == theirs.extras.trail
    fewer = PromptRequest(QUESTION, ("manual",), settings={"prompt.max_facts": 1})
    for desk in (made, again):
        press(desk, "A4 Condenser", fewer, space)
    assert again.last.super_prompt.extras.trail == made.last.super_prompt.extras.trail
    assert again.last.answered_at == ""


def test_a_press_says_which_stages_are_through_and_what_each_took(space, held):
    desk = PromptSession()
    job = presses.start(desk, BUILD, REQUEST, space)
    for _ in range(2000):
        if job.stage == "retrieval":
            break
        job.wait(0.01)
    through, now, waits = job.detail.split(" · ")[:2], *job.detail.split(" · ")[2:4]
    assert [text.split()[0] for text in through] == ["✓", "✓"] and through[0].endswith(" s")
    assert now.startswith("▸ Search ") and waits == "Rank"
    assert job.line.startswith("Search · ")
    held.set()
    assert job.wait(WAIT_S) and job.error is None
    assert job.detail.count("✓") == len(BUTTONS)
    one = presses.start(desk, BUTTONS[0], REQUEST, space)
    assert one.wait(WAIT_S) and one.detail == ""


def test_a_cold_start_names_the_model_that_is_loaded(space, monkeypatch):
    from ragstream_core.models.embedders import registry
    from ragstream_core.wiring import models

    go, real = threading.Event(), registry.same_embeddings.__wrapped__

    def slow(*given, **more):
        assert go.wait(WAIT_S)
        return real(*given, **more)

    monkeypatch.setattr(registry, "same_embeddings", functools.lru_cache(slow))
    job = presses.start(PromptSession(), BUILD, REQUEST, space)
    job.wait(0.05)
    name = space.config.settings.embeddings.model
    assert job.line.startswith(f"Read: loading {name} · ")
    go.set()
    assert job.wait(WAIT_S) and job.error is None
    assert models.model_to_load(OPS[0], space.config) == ""
    assert models.model_to_load("reranker", space.config) == ""
