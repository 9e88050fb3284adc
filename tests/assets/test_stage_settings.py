"""Settings in the Launchpad: all of the chain's are offered, any form of a value is one value."""

import datetime as dt
import json

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_assets.definitions import defs
from ragstream_assets.launchpad import EXAMPLE, TYPED, resolve
from ragstream_core.config import overlay, typed
from ragstream_core.errors import UnknownSetting, UsageError
from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.chain_steps import OWN
from ragstream_core.prompts.inputs import inputs_of
from ragstream_core.services.replay import replay_prompt
from ragstream_core.settings import SECTIONS, ChainSettings, chain_keys
from ragstream_core.wiring.make_prompt import make_prompt, make_stages
from tests.recorded import config_of, record_prompt, run_steps

NOW = dt.datetime(2026, 3, 1, 12, 30, tzinfo=dt.timezone(dt.timedelta(hours=2), "CEST"))
JOBS = ("build_prompt", "answer_question")


def _fields(job, op):
    """The config fields of an op, as the Launchpad reads them."""
    ops = defs.resolve_job_def(job).run_config_schema.run_config_schema_type.fields["ops"]
    return ops.config_type.fields[op].config_type.fields["config"].config_type.fields


@pytest.mark.parametrize("job", JOBS)
def test_every_setting_is_offered_and_described_and_none_is_filled_in(job):
    offered = set()
    for op in OPS:
        fields = _fields(job, op)
        assert fields["settings"].description and not fields["settings"].default_provided
        settings = fields["settings"].config_type.fields
        for dotted, field in settings.items():
            section, _, key = dotted.partition(".")
            assert field.description.startswith(SECTIONS[section].model_fields[key].description)
            assert "Takes: " in field.description and "Default: " in field.description
            assert not field.is_required and not field.default_provided
            assert field.config_type.given_name == "Any"
        offered |= settings.keys()
    assert offered == set(chain_keys())
    assert set(_fields(job, OPS[0])["settings"].config_type.fields) == offered


def test_each_setting_is_offered_by_a_stage_that_reads_it():
    assert set(OWN) == set(OPS)
    begun = {
        start: [k for k in chain_keys() if k.startswith(start)]
        for own in OWN.values()
        for start in own
    }
    assert all(begun.values())
    later = {key for op in OPS[1:] for start in OWN[op] for key in begun[start]}
    begun_with = {"cache", "cache_match", "cache_min_score", "index_name", "rolling_window",
                  "summary_form", "summary_tokens"}  # fmt: skip
    assert set(chain_keys()) - later == {f"memory.{key}" for key in begun_with}
    assert _fields("build_prompt", "a3_nli_gate")["settings"].config_type.fields.keys() == {
        *(f"gate.{key}" for key in SECTIONS["gate"].model_fields),
        "agents.a3",
        "agents.a3_form",
    }


def test_the_launchpad_fills_in_the_example_and_offers_empty_fields_for_a_question():
    ops = defs.resolve_job_def("build_prompt").run_config_schema.run_config_schema_type
    shown = ops.fields["ops"].default_value
    first = shown["a0_preprocessing"]["config"]
    assert set(first) == {*TYPED, "prompt_ref", "fresh"}
    assert {name: value for name, value in first.items() if value} == {"prompt_ref": "example"}
    assert not any(shown[op].get("config") for op in OPS[1:])


def test_the_launchpad_runs_as_it_stands_without_the_handbook(ingested, home):
    assert "handbook" not in ingested.projects()
    success, run_id = _run(ingested, home, {})
    assert success
    (key,) = _made_in(ingested, run_id)
    assert [pin["project"] for pin in ingested.store.record(key).inputs["pins"]] == ["demo"]


def test_a_launchpad_that_nothing_can_answer_says_what_to_do(space):
    with pytest.raises(UsageError, match="no project is ingested") as refused:
        resolve(space, EXAMPLE)
    assert "ragstream ingest" in refused.value.hint


def _run(space, home, config, parent="", steps=()):
    run = run_steps(space, home, config, parent=parent, steps=steps)
    return run.is_success, run.run_id


def _made_in(space, run_id):
    records = map(space.store.record, space.store.keys())
    return [record.prompt_key for record in records if record.run_id == run_id]


LAUNCHED = (
    ("a3_nli_gate", {"gate.theta": 1, "gate.keep_top": 1, "gate.relative": 0.9}),
    ("a3_nli_gate", {"gate.theta": "1.0", "gate.keep_top": "1", "gate.relative": "0.90"}),
    ("a3_nli_gate", {"gate.theta": 1.0, "gate.keep_top": 1.0, "gate.relative": "9e-1"}),
)


def test_a_value_and_its_text_give_the_same_prompt_key(ingested, home, request_):
    first = record_prompt(ingested, request_, now=NOW)
    given = config_of(home, first.run_id)["a0_preprocessing"]
    keys, rest = set(), OPS[OPS.index("a3_nli_gate") :]
    for op, settings in LAUNCHED:
        config = {"a0_preprocessing": given, op: {"settings": settings}}
        succeeded, run_id = _run(ingested, home, config, first.run_id, rest)
        assert succeeded
        keys |= set(_made_in(ingested, run_id))
    button = make_stages(ingested, first, rest, settings=LAUNCHED[1][1])
    assert keys == {button.record.prompt_key} != {first.record.prompt_key}


def test_yes_no_choices_and_lists_are_taken(ingested, home, request_):
    first = record_prompt(ingested, request_, now=NOW)
    given = config_of(home, first.run_id)["a0_preprocessing"]
    settings = {
        "agents.a4": False,
        "history.exclude_tags": ["BLUE", "RED"],
        "prompt.block_order": "classic",
    }
    succeeded, run_id = _run(ingested, home, {"a0_preprocessing": {**given, "settings": settings}})
    assert succeeded
    (key,) = _made_in(ingested, run_id)
    changes = {name: value for _, name, value in ingested.store.record(key).inputs["changes"]}
    assert changes == settings
    assert replay_prompt(ingested, key).verdict == "identical"


@pytest.mark.parametrize(
    ("settings", "said", "next_"),
    [
        ({"gate.theta": 3}, "setting gate.theta = 3 ", "it takes: number ≥ -1 ≤ 1"),
        ({"gate.keep_top": "some"}, "setting gate.keep_top = 'some' ", "it takes: integer ≥ 0"),
        ({"agents.a4": 7}, "setting agents.a4 = 7 ", "it takes: true, false"),
        ({"prompt.block_order": "mine"}, "setting prompt.block_order = 'mine' ", "`classic`"),
        ({"gate.tehta": 0.1}, "unknown setting 'gate.tehta'", "did you mean gate.theta?"),
        (
            {"page.port": 80},
            "page.port is not a setting that one prompt or run can have",
            "set it in",
        ),
    ],
)
def test_what_cannot_be_is_said_with_the_setting_and_its_range(
    ingested, home, request_, settings, said, next_
):
    first = record_prompt(ingested, request_, now=NOW)
    given = config_of(home, first.run_id)["a0_preprocessing"]
    config = {"a0_preprocessing": given, "a3_nli_gate": {"settings": settings}}
    succeeded, run_id = _run(ingested, home, config, first.run_id, ["a3_nli_gate"])
    assert not succeeded
    kind = dg.DagsterEventType.STEP_FAILURE
    (failure,) = home.get_records_for_run(run_id, of_type=kind).records
    data = failure.event_log_entry.dagster_event.step_failure_data
    assert said in data.user_failure_data.description
    assert next_ in data.user_failure_data.metadata["next"].value


def test_a_time_that_is_none_is_said(ingested, home):
    succeeded, run_id = _run(ingested, home, {"a0_preprocessing": {"now": "yesterday"}})
    assert not succeeded
    kind = dg.DagsterEventType.STEP_FAILURE
    (failure,) = home.get_records_for_run(run_id, of_type=kind).records
    data = failure.event_log_entry.dagster_event.step_failure_data
    assert "now = 'yesterday' is not a time" in data.user_failure_data.description


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "gate.theta": st.floats(-1, 1),
            "gate.keep_top": st.integers(0, 50),
            "agents.a3": st.booleans(),
            "gate.backend": st.sampled_from(["auto", "similarity", "nli"]),
            "history.tags": st.lists(st.from_regex(r"[A-Za-z]{1,9}", fullmatch=True)),
        },
    )
)
def test_typed_is_the_same_for_values_and_texts_and_changes_nothing_twice(changes):
    texts = {k: ", ".join(v) if isinstance(v, list) else str(v) for k, v in changes.items()}
    found = typed(changes)
    assert typed(texts) == found == typed(found) == json.loads(json.dumps(found))
    assert overlay(ChainSettings(), found) == overlay(ChainSettings(), changes)


@given(st.floats().filter(lambda x: not -1 <= x <= 1))
def test_out_of_range_is_refused_before_any_stage_runs(value):
    with pytest.raises(UnknownSetting, match="gate.theta"):
        typed({"gate.theta": value})


def test_a_changed_setting_is_kept_as_its_value(ingested, request_):
    first = make_prompt(ingested, request_, through="reranker", now=NOW)
    after = make_stages(ingested, first, ("a3_nli_gate",), settings={"gate.theta": "0.10"})
    assert inputs_of(after.super_prompt).changes == (("a3_nli_gate", "gate.theta", 0.1),)
