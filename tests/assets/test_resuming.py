"""A stage of a kept prompt again: before it all is as then, its run hangs on the run of then."""

import dagster as dg
import pytest

from ragstream_assets.recording.resuming import first_op, resume
from ragstream_assets.recording.writer import writer
from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.orchestration.chain import OPS
from ragstream_core.orchestration.inputs import inputs_from
from tests.assets.test_prompts import NOW
from tests.recorded import record_prompt


@pytest.fixture
def kept(space, request_):
    space.ingest("demo")
    return record_prompt(space, request_, now=NOW)


def again(*args, **given):
    try:
        return resume(*args, **given)
    finally:
        assert writer.flush(60)


def test_the_same_stage_with_the_same_settings_is_the_same_prompt(space, kept):
    key = kept.record.prompt_key
    for stage in ("preprocessed", "a2", "retrieval", "a3", "a2_audit", "prompt_builder"):
        done = again(space, key, stage, record=False)
        assert done.record.prompt_key == key, stage
        assert done.recording is None


def test_another_setting_gives_another_prompt_and_the_first_one_stays(space, kept, home):
    key = kept.record.prompt_key
    done = again(space, key[:8], "a3", settings={"gate.keep_top": "1", "gate.theta": "0.9"})
    record = done.record
    assert record.prompt_key != key and space.store.record(key).prompt_key == key
    at = OPS.index("a3_nli_gate")
    then = [list(row) for row in kept.record.trail]
    now = [list(row) for row in record.trail]
    assert now[:at] == then[:at] and now[at] != then[at]
    assert {tuple(c[:2]) for c in inputs_from(record.inputs).changes} == {
        ("a3_nli_gate", "gate.keep_top"), ("a3_nli_gate", "gate.theta")}  # fmt: skip
    assert space.replay(record.prompt_key).verdict == "identical"
    run = home.get_run_by_id(done.run_id)
    assert done.warnings == () and run.status is dg.DagsterRunStatus.SUCCESS
    assert run.parent_run_id == kept.run_id


def test_the_documents_are_those_of_then(space, kept):
    path = space.doc_dir("demo") / "later.md"
    path.write_text("# Later\n\nThis came in afterwards and speaks of everything.\n")
    space.ingest("demo")
    done = again(space, kept.record.prompt_key, "retrieval", record=False)
    assert done.record.prompt_key == kept.record.prompt_key


def test_without_the_run_of_then_a_new_one_is_recorded_from_the_start(space, kept, home):
    home.delete_run(kept.run_id)
    done = again(space, kept.record.prompt_key, "a4", settings={"prompt.max_facts": "2"})
    assert home.get_run_by_id(done.run_id).status is dg.DagsterRunStatus.SUCCESS
    assert "recorded from the start" in done.warnings[0]


def test_what_is_no_stage_or_setting_is_refused(space, kept):
    assert first_op("a2") == "a2_prompt_shaper" and first_op("reranked") == "reranker"
    with pytest.raises(UsageError, match="unknown stage"):
        resume(space, kept.record.prompt_key, "a9")
    with pytest.raises(UnknownSetting):
        resume(space, kept.record.prompt_key, "a3", settings={"gate.nothing": "1"}, record=False)
