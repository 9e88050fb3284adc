"""What a prompt's run shows: the last word on every candidate, language models, edits by hand."""

import datetime as dt
from dataclasses import replace

import dagster as dg
import pytest

from ragstream_assets.metadata import prompt_metadata, stage_metadata
from ragstream_core.prompts.chain import BUTTONS, OPS, ops_of
from ragstream_core.prompts.edits import edited
from ragstream_core.prompts.exchanges import usage_of
from ragstream_core.records.identity import shown_name
from ragstream_core.services.edit_prompt import put_edits
from ragstream_core.wiring import models
from ragstream_core.wiring.make_prompt import make_prompt
from tests.recorded import record_prompt, run_steps
from tests.unit.wiring.test_llm_stages import ALL, Thinking

NOW = dt.datetime(2026, 3, 1, 12, 30, tzinfo=dt.UTC)
ASKING = {"a2_prompt_shaper", "a3_nli_gate", "a4_condenser", "a2_audit"}


@pytest.fixture
def asked(ingested, request_, monkeypatch):
    model = Thinking()
    monkeypatch.setattr(models, "chat_model", lambda config: model)
    asking = replace(request_, settings={**request_.settings, **ALL})
    return record_prompt(ingested, asking, now=NOW)


def _shown(home, run_id):
    """The metadata of each step's output, as the run's page shows it."""
    kind = dg.DagsterEventType.STEP_OUTPUT
    events = [r.event_log_entry for r in home.get_records_for_run(run_id, of_type=kind).records]
    return {e.step_key: e.dagster_event.step_output_data.metadata for e in events}


def _rows(value):
    return [record.data for record in value.records]


def test_each_candidate_has_one_last_word(ingested, request_, home):
    made = record_prompt(ingested, request_, now=NOW)
    rows = _rows(_shown(home, made.run_id)[OPS[-1]]["ledger"])
    decisions = made.super_prompt.extras.decisions
    own = {shown_name(row.chunk_id): row for row in decisions}
    assert rows and {row["chunk"] for row in rows} == set(own) and len(rows) == len(own)
    for row in rows:
        last = own[row["chunk"]]
        assert (row["stage"], row["reason"]) == (last.stage, last.reason)
        assert row["kept"] == ("yes" if last.kept else "no")


def test_what_agents_asked_is_shown_where_and_in_all(asked, home):
    shown = _shown(home, asked.run_id)
    assert {op for op in OPS if "language_model" in shown[op]} == {*ASKING, OPS[-1]}
    for op in ASKING:
        (row,) = _rows(shown[op]["language_model"])
        assert row["stage"] == op and row["input_tokens"] > 0
    last, whole = shown[OPS[-1]], usage_of(asked.super_prompt)
    assert {row["stage"] for row in _rows(last["language_model"])} == ASKING
    assert last["language_model_input_tokens"].value == whole.input_tokens
    assert last["language_model_output_tokens"].value == whole.output_tokens
    cost = "unknown" if whole.cost_usd is None else f"{whole.cost_usd:.6f}"
    assert last["language_model_cost_usd"].value == cost


def test_a_fallback_is_named_at_its_step_and_at_the_end(ingested, home, request_, monkeypatch):
    model = Thinking(Condensed=lambda said: {"facts": 7})
    monkeypatch.setattr(models, "chat_model", lambda config: model)
    asking = replace(request_, settings={**request_.settings, **ALL})
    shown = _shown(home, record_prompt(ingested, asking, now=NOW).run_id)
    for op in ("a4_condenser", OPS[-1]):
        assert "fallback=SAF-A1" in shown[op]["warnings"].value
        instead = {row["stage"]: row["instead"] for row in _rows(shown[op]["language_model"])}
        assert instead["a4_condenser"] == "SAF-A1"
    assert not any("warnings" in shown[op] for op in ("a2_prompt_shaper", "a3_nli_gate"))


def test_without_a_language_model_or_edits_nothing_is_said_of_them(ingested, home, request_):
    shown = _shown(home, record_prompt(ingested, request_, now=NOW).run_id)
    names = {name for metadata in shown.values() for name in metadata}
    assert not any(name.startswith(("language_model", "edited")) for name in names)


def test_edits_by_hand_are_named_without_their_text(ingested, home, request_):
    step = make_prompt(ingested, request_, through=ops_of(BUTTONS[1])[-1])
    prompt = edited(step.super_prompt, {"audience": "auditors of banks"}, when=NOW.isoformat())
    named = {op: {"edits": ref} for op, ref in put_edits(ingested, prompt).items()}
    config = {OPS[0]: {"prompt_ref": ingested.store.put_request(request_)}, **named}
    shown = _shown(home, run_steps(ingested, home, config).run_id)
    assert {shown[op]["edited_by_hand"].value for op in OPS[3:]} == {
        "audience (after a1_file_injector)"
    }


def test_the_reranker_is_named_with_its_device_its_candidates_and_its_time(
    ingested, home, request_
):
    shown = _shown(home, record_prompt(ingested, request_, now=NOW).run_id)["reranker"]
    assert shown["reranker"].value == "maxsim"
    assert shown["device"].value == "cpu"
    assert 0 < shown["reranked"].value <= shown["candidates"].value
    assert shown["milliseconds"].value >= 0


def test_tables_hold_their_columns_and_no_more(asked, tmp_path):
    metadata = stage_metadata(asked.super_prompt, 0.5) | prompt_metadata(
        asked.super_prompt, asked.record, tmp_path
    )
    tables = [v for v in metadata.values() if isinstance(v, dg.TableMetadataValue)]
    assert len(tables) == 6
    for value in tables:
        columns = {column.name for column in value.schema.columns}
        assert value.records and all(set(row) == columns for row in _rows(value))
