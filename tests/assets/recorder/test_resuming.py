"""A stage of a kept prompt again: before it all is as then, its run hangs on the run of then."""

import gzip
import json
import shutil

import dagster as dg
import pytest
from dagster._core.execution.api import create_execution_plan
from hypothesis import given
from hypothesis import strategies as st

from ragstream_assets.definitions import defs
from ragstream_assets.io_managers import STAGE_JSON_VERSION, read_stage
from ragstream_assets.job_steps import outputs_before
from ragstream_assets.recorder.resuming import first_op, resume
from ragstream_assets.recorder.writer import writer
from ragstream_assets.resources import adopt
from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.prompts.chain import OPS, RERUN
from ragstream_core.prompts.recorded import SUFFIX, packed, unpacked
from ragstream_core.records.prompt_inputs import PromptInputs
from ragstream_core.services.explain import line_of
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from tests.assets.test_prompts import NOW
from tests.assets.test_stage_settings import job
from tests.recorded import record_prompt, record_stage
from tests.workspaces import docs_of


@pytest.fixture
def kept(space, home, request_):
    ingest_project(space, "demo")
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
        assert (done.record.prompt_key, done.record.resumed) == (key, ""), stage
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
    assert {tuple(c[:2]) for c in PromptInputs.from_json(record.inputs).changes} == {
        ("a3_nli_gate", "gate.keep_top"), ("a3_nli_gate", "gate.theta")}  # fmt: skip
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
    run = home.get_run_by_id(done.run_id)
    assert done.warnings == () and run.status is dg.DagsterRunStatus.SUCCESS
    assert run.parent_run_id == kept.run_id


def test_the_documents_are_those_of_then(space, kept):
    path = docs_of(space) / "later.md"
    path.write_text("# Later\n\nThis came in afterwards and speaks of everything.\n")
    ingest_project(space, "demo")
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


def launched(space, home, subset, ops):
    """Launch an op subset of the query job, as the Launchpad does; return its run."""
    with dg.execute_job(
        dg.reconstructable(job),
        instance=home,
        run_config={
            "resources": {"workspace": {"config": adopt(space)}},
            "ops": {op: {"config": given} for op, given in ops.items()},
        },
        op_selection=subset,
    ) as result:
        return home.get_run_by_id(result.run_id)


def failure_of(home, run):
    """What the step that failed says, and what is to be done."""
    kind = dg.DagsterEventType.STEP_FAILURE
    (failure,) = home.get_records_for_run(run.run_id, of_type=kind).records
    data = failure.event_log_entry.dagster_event.step_failure_data.user_failure_data
    return data.description, data.metadata["next"].value


@pytest.mark.parametrize("name", ["build_prompt", "answer_question"])
def test_a_step_looks_for_what_the_job_gives_it(name):
    steps = create_execution_plan(defs.resolve_job_def(name)).steps
    given = {
        step.key: {
            f"{source.step_key}.{source.output_name}"
            for taken in step.step_inputs
            for source in taken.get_step_output_handle_dependencies()
        }
        for step in steps
    }
    assert len(given) >= len(OPS) + len(RERUN) and given.pop(OPS[0]) == set()
    assert {key: set(outputs_before(key)) for key in given} == given


@pytest.mark.parametrize("op", OPS[1:])
def test_an_op_subset_goes_on_from_the_run_it_names(space, kept, home, op):
    settings = (
        {"prompt.max_facts": 1} if op != "prompt_builder" else {"prompt.block_order": "classic"}
    )
    told = {"from_run": kept.run_id[:8], "settings": settings}
    run = launched(space, home, [f"{op}*"], {op: told})
    assert run.status is dg.DagsterRunStatus.SUCCESS
    assert run.tags["dagster/parent_run_id"] == run.tags["dagster/root_run_id"] == kept.run_id
    ran = {s.step_key for s in home.get_run_step_stats(run.run_id) if s.status.value == "SUCCESS"}
    assert ran == set(OPS[OPS.index(op) :])
    (record,) = [r for r in map(space.store.record, space.store.keys()) if r.run_id == run.run_id]
    same = resume(space, kept.record.prompt_key, op, settings=settings, record=False)
    assert record.prompt_key == same.record.prompt_key != kept.record.prompt_key
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
    assert (record.resumed, kept.record.resumed) == (kept.record.prompt_key, "")


def test_a_button_at_a_time_goes_on_from_the_finished_prompt(space, kept):
    at = OPS.index("a3_nli_gate")
    gated = record_stage(space, kept, OPS[at : at + 1], settings={"gate.theta": "0.9"})
    done = record_stage(space, gated, OPS[at + 1 :])
    assert done.record.resumed == kept.record.prompt_key != done.record.prompt_key


def test_a_line_of_prompts_ends_where_one_is_gone_or_came_before(space, kept):
    def of(key, value):
        return again(space, key, "a3", settings={"gate.theta": value}, record=False).record

    first = of(kept.record.prompt_key, "0.9")
    other = of(first.prompt_key, "0.8")
    assert of(other.prompt_key, "0.9").prompt_key == first.prompt_key  # now it goes on from other
    line = line_of(space.store, space.store.record(first.prompt_key))
    assert [(a.prompt_key, a.kept) for a in line] == [(other.prompt_key, True)]
    shutil.rmtree(space.store.root / first.prompt_key)
    line = line_of(space.store, space.store.record(other.prompt_key))
    assert [(a.prompt_key, a.kept) for a in line] == [(first.prompt_key, False)]
    assert line[0].changes == (("a3_nli_gate", "gate.theta", 0.8),)


def test_an_op_subset_goes_on_from_a_run_that_itself_goes_on_from_one(space, kept, home):
    first = launched(
        space, home, ["a3_nli_gate*"],
        {"a3_nli_gate": {"from_run": kept.run_id, "settings": {"gate.keep_top": 1}}},
    )  # fmt: skip
    told = {"from_run": first.run_id, "settings": {"rerank.backend": "none"}}
    run = launched(space, home, ["reranker*"], {"reranker": told})
    assert run.status is dg.DagsterRunStatus.SUCCESS  # what it reads is two runs back
    assert run.tags["dagster/parent_run_id"] == first.run_id
    assert run.tags["dagster/root_run_id"] == kept.run_id
    group = {other.run_id for other in home.get_run_group(kept.run_id)[1]}
    assert group == {kept.run_id, first.run_id, run.run_id}


def test_an_op_subset_says_what_it_lacks(space, kept, home, request_):
    def says(subset, **told):
        return failure_of(home, launched(space, home, subset, told))

    said, next_ = says(["a3_nli_gate*"], a3_nli_gate={})
    assert "no step runs before a3_nli_gate" in said and "from_run" in next_
    for name in ("../..", "*", "0" * 8, kept.run_id[:7]):
        said, next_ = says(["a5_format_enforcer"], a5_format_enforcer={"from_run": name})
        assert repr(name) in said and "from_run" in next_
    (space.data_dir / "prompts" / "runs" / f"{kept.run_id[:8]}-twin").mkdir()
    said, _ = says(["a3_nli_gate"], a3_nli_gate={"from_run": kept.run_id[:8]})
    assert said.startswith("2 runs with stage JSON begin with")
    told = {"from_run": kept.run_id}
    said, next_ = says(["retrieval", "reranker"], retrieval=told, reranker=told)
    assert "from_run" in said and next_ == "choose reranker* as the subset"
    early = record_prompt(space, request_, through="retrieval", now=NOW)
    said, next_ = says(["a4_condenser"], a4_condenser={"from_run": early.run_id})
    assert "has nothing that a4_condenser reads" in said and "got that far" in next_


FIELDS = st.sampled_from(["version", "prompt", "step"])
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(FIELDS, inner, max_size=3)
        | st.fixed_dictionaries({"version": st.just(STAGE_JSON_VERSION), "prompt": inner})
    ),
)


@given(VALUES)
def test_whatever_stage_json_holds_a_step_says_where_to_start(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("run") / f"retrieval.result{SUFFIX}"
    path.write_bytes(gzip.compress(json.dumps(value).encode()))
    with pytest.raises(dg.Failure, match="cannot be read|is of version") as told:
        read_stage(path)
    assert told.value.metadata["next"].value == "re-execute all steps of the run"


def test_each_damage_of_stage_json_is_named(space, kept):
    path = next((space.data_dir / "prompts" / "runs" / kept.run_id).glob("retrieval.*"))
    whole = path.read_bytes()
    assert read_stage(path).stage == "retrieval"
    for version in (STAGE_JSON_VERSION - 1, STAGE_JSON_VERSION + 1):
        path.write_bytes(packed({**unpacked(path), "version": version}))
        with pytest.raises(dg.Failure, match=f"is of version {version}, and this is"):
            read_stage(path)
        path.write_bytes(whole)
    for cut in range(0, len(whole), max(1, len(whole) // 50)):
        path.write_bytes(whole[:cut])
        with pytest.raises(dg.Failure, match="cannot be read"):
            read_stage(path)
    path.unlink()
    with pytest.raises(dg.Failure, match="is gone"):
        read_stage(path)
