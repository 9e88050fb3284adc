"""Agents that ask a language model inside the Dagster job: the same prompt, the same key."""

import datetime as dt
from dataclasses import replace

from ragstream_core.wiring import models
from ragstream_core.wiring.make_prompt import make_stages
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.recorded import record_prompt
from tests.unit.wiring.test_llm_stages import ALL, Thinking

NOW = dt.datetime(2026, 3, 1, 12, 30, tzinfo=dt.UTC)


def test_job_equals_chain_with_a_language_model(ingested, home, request_, monkeypatch):
    model = Thinking()
    monkeypatch.setattr(models, "chat_model", lambda config: model)
    asking = replace(request_, settings={**request_.settings, **ALL})
    recorded = record_prompt(ingested, asking, now=NOW)
    assert len(model.asked) == 4
    plain = run_prompt(ingested, pin_inputs(ingested, asking, NOW))
    assert recorded.record.prompt_key == save_prompt(ingested, plain).prompt_key
    assert recorded.super_prompt.extras.exchanges == plain.extras.exchanges
    assert len(recorded.record.exchanges) == 4

    # the condenser again, now without the model: what was said upstream of it stays
    changes = {"agents.a4_form": "deterministic"}
    again = make_stages(ingested, recorded, ("a4_condenser",), settings=changes)
    upstream = ("a2_prompt_shaper", "a3_nli_gate")
    assert again.super_prompt.extras.exchanges == {
        op: plain.extras.exchanges[op] for op in upstream
    }
