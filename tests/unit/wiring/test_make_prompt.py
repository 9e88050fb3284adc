"""A prompt, its stages one after the other, and a stage of a kept one again: the same bytes."""

import datetime as dt
import shutil

import pytest

from ragstream_core.errors import Stopped, UnknownSetting, UsageError
from ragstream_core.prompts.chain import BUTTONS, OPS, ops_of, run_chain
from ragstream_core.prompts.inputs import PromptRequest, change_settings
from ragstream_core.records import to_json
from ragstream_core.records.identity import canonical_json
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.services.explain import line_of
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.make_prompt import first_op, make_prompt, make_stages, rerun
from ragstream_core.wiring.stages import stages_of
from tests.workspaces import docs_of, hashed_workspace, write_docs

NOW = dt.datetime(2026, 3, 1, 12, 30, tzinfo=dt.timezone(dt.timedelta(hours=2), "CEST"))
REQUEST = PromptRequest("# Task\nWho may hold the lock of a project?", ("demo",))


@pytest.fixture
def space(tmp_path):
    space = hashed_workspace(tmp_path / "data")
    write_docs(space.data_dir)
    ingest_project(space, "demo")
    return space


@pytest.fixture
def kept(space):
    return make_prompt(space, REQUEST, now=NOW)


def bytes_of(made):
    return canonical_json(to_json(made.super_prompt))


def test_stage_by_stage_equals_all_at_once(space, kept):
    step = make_prompt(space, REQUEST, through="preprocessed", now=NOW)
    assert step.super_prompt.stage == "preprocessed" and step.record is None
    for button in BUTTONS[1:]:
        step = make_stages(space, step, ops_of(button))
    assert bytes_of(step) == bytes_of(kept)
    assert (step.key, step.resumed) == (kept.key, "")


def test_every_step_is_heard_of_and_the_last_one_when_it_is_kept(space):
    heard = []
    make_prompt(space, REQUEST, now=NOW, on_step=lambda op, made: heard.append((op, made)))
    assert [op for op, _ in heard] == list(OPS)
    assert [op for op, made in heard if made.record] == [OPS[-1]]
    assert set(heard[-1][1].timings_ms) == set(OPS)


@pytest.mark.parametrize("op", OPS)
def test_stopped_after_a_step_nothing_is_kept_before_the_last(space, op):
    def stop(passed, made):
        if passed == op:
            raise Stopped("that is enough")

    with pytest.raises(Stopped):
        make_prompt(space, REQUEST, now=NOW, on_step=stop)
    assert len(space.store.keys()) == (op == OPS[-1])
    assert make_prompt(space, REQUEST, now=NOW).record


def test_from_a_middle_stage_with_another_setting(space, kept):
    ops = OPS[OPS.index("a4_condenser") :]
    changes = {"prompt.max_facts": "1"}
    second = make_stages(space, kept, ops, settings=changes)
    before = make_prompt(space, REQUEST, now=NOW, through="a3").super_prompt
    expected = run_chain(stages_of(space), change_settings(before, ops[0], changes), first=ops[0])
    assert bytes_of(second) == canonical_json(to_json(expected))
    assert second.key != kept.key
    assert replay_prompt(space, second.key).verdict == "identical"
    # and back again: what was changed then does not leak into what does not change it
    assert bytes_of(make_stages(space, second, ops)) == bytes_of(kept)


def test_the_same_stage_with_the_same_settings_is_the_same_prompt(space, kept):
    for stage in ("preprocessed", "a2", "retrieval", "a3", "a2_audit", "prompt_builder"):
        again = rerun(space, kept.key, stage)
        assert (again.key, again.record.resumed) == (kept.key, ""), stage


def test_another_setting_gives_another_prompt_and_the_first_one_stays(space, kept):
    settings = {"gate.keep_top": "1", "gate.theta": "0.9"}
    record = rerun(space, kept.key[:8], "a3", settings=settings).record
    assert record.prompt_key != kept.key
    assert space.store.record(kept.key).prompt_key == kept.key
    at = OPS.index("a3_nli_gate")
    then, now = ([list(row) for row in each.trail] for each in (kept.record, record))
    assert now[:at] == then[:at] and now[at] != then[at]
    changes = {tuple(change[:2]) for change in PromptInputs.from_json(record.inputs).changes}
    assert changes == {("a3_nli_gate", "gate.keep_top"), ("a3_nli_gate", "gate.theta")}
    assert replay_prompt(space, record.prompt_key).verdict == "identical"


def test_the_documents_are_those_of_then(space, kept):
    path = docs_of(space) / "later.md"
    path.write_text("# Later\n\nThis came in afterwards and speaks of everything.\n")
    ingest_project(space, "demo")
    assert rerun(space, kept.key, "retrieval").key == kept.key


def test_what_is_no_stage_or_setting_is_refused(space, kept):
    assert first_op("a2") == "a2_prompt_shaper" and first_op("reranked") == "reranker"
    with pytest.raises(UsageError, match="unknown stage"):
        rerun(space, kept.key, "a9")
    with pytest.raises(UnknownSetting):
        rerun(space, kept.key, "a3", settings={"gate.nothing": "1"})


def test_a_stage_at_a_time_goes_on_from_the_finished_prompt(space, kept):
    at = OPS.index("a3_nli_gate")
    gated = make_stages(space, kept, OPS[at : at + 1], settings={"gate.theta": "0.9"})
    done = make_stages(space, gated, OPS[at + 1 :])
    assert done.record.resumed == kept.key != done.key


def test_a_line_of_prompts_ends_where_one_is_gone_or_came_before(space, kept):
    def of(key, value):
        return rerun(space, key, "a3", settings={"gate.theta": value}).record

    first = of(kept.key, "0.9")
    other = of(first.prompt_key, "0.8")
    assert of(other.prompt_key, "0.9").prompt_key == first.prompt_key  # now it goes on from other
    line = line_of(space.store, space.store.record(first.prompt_key))
    assert [(a.prompt_key, a.kept) for a in line] == [(other.prompt_key, True)]
    shutil.rmtree(space.store.root / first.prompt_key)
    line = line_of(space.store, space.store.record(other.prompt_key))
    assert [(a.prompt_key, a.kept) for a in line] == [(first.prompt_key, False)]
    assert line[0].changes == (("a3_nli_gate", "gate.theta", 0.8),)
