"""The query job: equal to the plain chain, recorded, and repeatable from any stage."""

import datetime as dt
import json
import shutil
import signal
from dataclasses import asdict, replace

import dagster as dg
import pytest

from ragstream_assets.definitions import defs
from ragstream_core.errors import RagstreamError, Refused
from ragstream_core.prompts.chain import OPS, RERUN
from ragstream_core.records import evolve, to_json
from ragstream_core.records.identity import canonical_json
from ragstream_core.records.stage_results import AuditResult
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring import stages
from ragstream_core.wiring.make_prompt import make_prompt, rerun
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.stages import run_prompt
from tests.assets.executing import execute
from tests.recorded import config_of, record_prompt, run_steps

NOW = dt.datetime(2026, 3, 1, 12, 30, tzinfo=dt.timezone(dt.timedelta(hours=2), "CEST"))


def _json(prompt):
    return canonical_json(to_json(prompt))


def _steps(home, run_id, kind=dg.DagsterEventType.STEP_SUCCESS):
    records = home.get_records_for_run(run_id, of_type=kind).records
    return [r.event_log_entry.step_key for r in records]


class _Rescoping:
    """Makes the real stages, but an audit that always asks for its re-run."""

    def __init__(self, space):
        self.real = stages.make_stage

    def __call__(self, space, op, prompt, **more):
        made = self.real(space, op, prompt, **more)
        if op != "a2_audit":
            return made

        def audit(given):
            audited = made(given)
            asking = evolve(audited)
            asking.extras.pass_no, asking.extras.audit = 2, AuditResult("rescoped")
            return asking

        return audit


def test_job_equals_chain(ingested, home, request_):
    recorded = record_prompt(ingested, request_, now=NOW)
    plain = run_prompt(ingested, pin_inputs(ingested, request_, NOW))
    assert _json(recorded.super_prompt) == _json(plain)
    assert recorded.warnings == ()
    assert _steps(home, recorded.run_id) == list(OPS)
    assert home.get_run_by_id(recorded.run_id).status is dg.DagsterRunStatus.SUCCESS
    assert recorded.record.run_id == recorded.run_id
    kept = ingested.store.record(recorded.record.prompt_key)
    assert canonical_json(asdict(kept)) == canonical_json(asdict(recorded.record))
    assert set(recorded.timings_ms) == set(OPS)


def test_job_equals_chain_with_the_re_run(ingested, home, request_, monkeypatch):
    fake = _Rescoping(ingested)
    monkeypatch.setattr(stages, "make_stage", lambda s, *a, **k: fake(s, *a, **k))
    recorded = record_prompt(ingested, request_, now=NOW)
    plain = run_prompt(ingested, pin_inputs(ingested, request_, NOW))
    assert _json(recorded.super_prompt) == _json(plain)
    again = [f"rerun.{op}" for op in RERUN]
    assert _steps(home, recorded.run_id) == [*OPS[:8], *again, *OPS[8:]]
    assert [op for op, _ in recorded.super_prompt.extras.trail] == [*OPS[:8], *RERUN, *OPS[8:]]

    # a stage behind the fan-in, alone, on top of that run
    config = config_of(home, recorded.run_id)
    a5 = run_steps(ingested, home, config, parent=recorded.run_id, steps=["a5_format_enforcer"])
    assert a5.status is dg.DagsterRunStatus.SUCCESS
    assert _steps(home, a5.run_id) == ["a5_format_enforcer"]


def test_the_settled_way_skips_the_re_run(ingested, home, request_):
    run_id = record_prompt(ingested, request_).run_id
    assert sorted(_steps(home, run_id, dg.DagsterEventType.STEP_SKIPPED)) == sorted(
        f"rerun.{op}" for op in RERUN
    )


def test_the_launchpads_default_runs_as_it_stands(space, make_project):
    make_project("handbook")
    ingest_project(space, "handbook")
    result = execute(space, job="build_prompt")
    assert result.success
    assert "killed half way" in result.output_for_node("prompt_builder").extras.super_prompt


def test_again_from_a_middle_stage_with_another_setting(ingested, home, request_):
    first = record_prompt(ingested, request_, now=NOW)
    ops = OPS[OPS.index("a4_condenser") :]
    changes = {"prompt.max_facts": "1"}
    config = {**config_of(home, first.run_id), ops[0]: {"settings": changes}}
    run = run_steps(ingested, home, config, parent=first.run_id, steps=ops)
    assert run.status is dg.DagsterRunStatus.SUCCESS and run.parent_run_id == first.run_id
    assert _steps(home, run.run_id) == list(ops)
    (record,) = [r for r in map(ingested.store.record, ingested.store.keys())
                 if r.run_id == run.run_id]  # fmt: skip
    same = rerun(ingested, first.key, ops[0], settings=changes)
    assert record.prompt_key == same.key != first.key
    assert replay_prompt(ingested, record.prompt_key).verdict == "identical"


def test_config_and_tags_hold_no_prompt(ingested, home, request_):
    run = home.get_run_by_id(record_prompt(ingested, request_).run_id)
    text = json.dumps([run.run_config, dict(run.tags)])
    assert "killed ingest" not in text and "sha256:" in text


def test_ctrl_c_in_a_stage_stops_it(ingested, home, request_, monkeypatch):
    real = stages.make_stage

    def stage(self, op, prompt, **more):
        if op == "retrieval":
            signal.raise_signal(signal.SIGINT)
        return real(self, op, prompt, **more)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    try:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(stages, "make_stage", stage)
            record_prompt(ingested, request_)
    finally:
        signal.signal(signal.SIGINT, before)
    assert all(run.is_finished for run in home.get_runs()) and not list(ingested.store.keys())
    assert record_prompt(ingested, request_).run_id


def test_nothing_of_a_prompt_that_may_not_be_kept_is_written(ingested, home, request_):
    request = replace(request_, settings={"history.persist": "false"})
    with pytest.raises(Refused, match="a run would keep the prompt"):
        record_prompt(ingested, request)
    assert home.get_runs_count() == 0 and not ingested.store.root.exists()


def test_missing_stage_json_says_where_to_start(ingested, request_, home):
    first = record_prompt(ingested, request_, now=NOW)
    shutil.rmtree(ingested.data_dir / "prompts" / "runs")
    config = config_of(home, first.run_id)
    run = run_steps(ingested, home, config, parent=first.run_id, steps=["a3_nli_gate"])
    failed = dg.DagsterEventType.STEP_FAILURE
    (failure,) = home.get_records_for_run(run.run_id, of_type=failed).records
    data = failure.event_log_entry.dagster_event.step_failure_data.user_failure_data
    assert data.metadata["next"].value == "re-execute all steps of the run"


def test_the_recorded_config_alone_makes_the_same_prompt(ingested, home, request_):
    first = record_prompt(ingested, request_, now=NOW)
    config = home.get_run_by_id(first.run_id).run_config
    assert config["ops"]["a0_preprocessing"]["config"]["time_zone"] == "CEST"
    again = defs.resolve_job_def("build_prompt").execute_in_process(run_config=config)
    assert _json(again.output_for_node("prompt_builder")) == _json(first.super_prompt)


class _Refusal(RagstreamError):
    exit_code = 3


def _broken(monkeypatch, space, error, at="a3_nli_gate"):
    real = stages.make_stage

    def stage(self, op, prompt, **more):
        if op == at:
            raise error
        return real(self, op, prompt, **more)

    monkeypatch.setattr(stages, "make_stage", stage)


def test_a_stages_own_error_arrives_as_itself(ingested, home, request_, monkeypatch):
    _broken(monkeypatch, ingested, _Refusal("no more of this", hint="do that"))
    with pytest.raises(_Refusal) as caught:
        record_prompt(ingested, request_)
    assert (caught.value.message, caught.value.hint) == ("no more of this", "do that")
    (run,) = home.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE
    (failure,) = home.get_records_for_run(
        run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE
    ).records
    data = failure.event_log_entry.dagster_event.step_failure_data
    assert "no more of this" in data.error.to_string()
    assert data.user_failure_data.metadata["next"].value == "do that"


def test_an_unexpected_error_keeps_its_text_out_of_dagster(ingested, home, request_, monkeypatch):
    _broken(monkeypatch, ingested, KeyError("canary-5d1f"))
    with pytest.raises(KeyError, match="canary-5d1f"):
        record_prompt(ingested, request_)
    (run,) = home.get_runs()
    log = [str(r.event_log_entry) for r in home.get_records_for_run(run.run_id).records]
    assert not any("canary-5d1f" in line for line in log)
    assert any("KeyError" in line for line in log)


def _launched(space, home, config=None, **given):
    ops = {OPS[0]: config} if config else {}
    return execute(space, home, job="build_prompt", ops=ops, **{"raise_on_error": True, **given})


def _shown(result, op):
    (event,) = result.asset_materializations_for_node(op) or [None]
    found = [e for e in result.all_node_events if e.step_key == op and e.is_successful_output]
    return {} if event else dict(found[0].event_specific_data.metadata)


def test_the_job_answers_from_the_record_and_every_step_is_as_it_was(
    ingested, home, request_, monkeypatch
):
    reference = ingested.store.put_request(request_)
    first = _launched(ingested, home, {"prompt_ref": reference})
    plain = stages.make_stage

    def never(*_, **__):
        raise AssertionError("a stage was made")

    monkeypatch.setattr(stages, "make_stage", never)
    second = _launched(ingested, home, {"prompt_ref": reference})
    for op in OPS[: OPS.index("a2_audit")]:
        one, other = first.output_for_node(op), second.output_for_node(op)
        one.extras.inputs = other.extras.inputs
        assert _json(one) == _json(other), op
    shown = _shown(second, OPS[0])
    assert shown["answered_from_the_record"].value[:6]
    assert _shown(second, OPS[-1])["prompt_key"] == _shown(first, OPS[-1])["prompt_key"]
    monkeypatch.setattr(stages, "make_stage", plain)
    fresh = _launched(ingested, home, {"prompt_ref": reference, "fresh": True})
    assert "answered_from_the_record" not in _shown(fresh, OPS[0])
    changed = _launched(ingested, home, {"prompt_ref": reference, "settings": {"gate.theta": 0.9}})
    assert "answered_from_the_record" not in _shown(changed, OPS[0])


def test_the_command_and_the_job_answer_each_other(ingested, home, request_):
    made = record_prompt(ingested, request_)
    reference = ingested.store.put_request(request_)
    shown = _shown(_launched(ingested, home, {"prompt_ref": reference}), OPS[0])
    assert shown["answered_from_the_record"].value == made.record.prompt_key
    again = record_prompt(ingested, request_, fresh=False)
    assert len(again.asked) == 2 and again.run_id == made.run_id
    here = make_prompt(ingested, request_)
    assert len(here.asked) == 3 and here.record == again.record and not here.timings_ms
