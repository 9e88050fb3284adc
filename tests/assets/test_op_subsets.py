"""An op subset of the query job goes on from the run that it names, or says what it lacks."""

import gzip
import json

import dagster as dg
import pytest
from dagster._core.execution.api import create_execution_plan
from hypothesis import given
from hypothesis import strategies as st

from ragstream_assets.definitions import defs
from ragstream_assets.io_managers import STAGE_JSON_VERSION, read_stage
from ragstream_assets.resources import adopt
from ragstream_core.prompts.chain import OPS, RERUN
from ragstream_core.prompts.chain_steps import outputs_before
from ragstream_core.prompts.recorded import SUFFIX, packed, unpacked
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.make_prompt import rerun
from tests.assets.test_prompts import NOW
from tests.recorded import job, record_prompt


@pytest.fixture
def kept(space, home, request_):
    ingest_project(space, "demo")
    return record_prompt(space, request_, now=NOW)


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
    same = rerun(space, kept.record.prompt_key, op, settings=settings)
    assert record.prompt_key == same.record.prompt_key != kept.record.prompt_key
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
    assert (record.resumed, kept.record.resumed) == (kept.record.prompt_key, "")


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
    early = launched(space, home, ["retrieval"], {"retrieval": told})
    for parent in (space.data_dir / "prompts" / "runs" / early.run_id).glob("from-*"):
        parent.unlink()
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
