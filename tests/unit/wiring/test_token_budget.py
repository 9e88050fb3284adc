"""The budget of a prompt stays within what its model can read."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragstream_core.models.chat.prices import context_window
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.replay import replay_prompt
from ragstream_core.settings import ChainSettings
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.token_budget import LEAST_TOKENS, within_window
from tests.unit.services.memory.conftest import opened
from tests.workspaces import DOCS, write_docs


def asked(**prompt):
    return ChainSettings.model_validate({"prompt": prompt})


@given(budget=st.integers(200, 10**6), window=st.integers(1, 10**6))
@example(budget=3_000, window=4_000)
@example(budget=3_001, window=4_000)
def test_a_quarter_of_the_window_stays_free_and_no_budget_grows(budget, window):
    found = within_window(asked(budget_tokens=budget, model_window=window))
    room = max(LEAST_TOKENS, window - window // 4 - (window % 4 > 0))
    assert found.prompt.budget_tokens == min(budget, room)
    assert within_window(found) == found


@pytest.mark.parametrize("target", ["", "nobody-knows-this-model"])
def test_without_a_known_window_the_settings_stand(target):
    settings = asked(budget_tokens=900_000, model_target=target)
    assert within_window(settings) is settings


def test_the_price_table_knows_windows_and_the_settings_outrank_it():
    window = context_window("gpt-4o-mini")
    assert window >= 100_000
    found = within_window(asked(budget_tokens=10**6, model_target="gpt-4o-mini"))
    assert found.prompt.budget_tokens == window * 3 // 4
    known = asked(budget_tokens=10**6, model_target="gpt-4o-mini", model_window=8_000)
    assert within_window(known).prompt.budget_tokens == 6_000


def test_a_prompt_for_a_small_model_is_small_and_replays(tmp_path):
    write_docs(tmp_path, docs={**DOCS, "long.md": "The project lock is held. " * 400})
    space = opened(tmp_path)
    ingest_project(space, "demo")
    settings = {"prompt.model_target": "toy-1", "prompt.model_window": 1_000}
    asked_for = PromptRequest("Who holds the project lock?", ("demo",), settings=settings)
    record = save_prompt(space, run_prompt(space, pin_inputs(space, asked_for)))
    assert record.inputs["settings"]["prompt"]["budget_tokens"] == 750
    assert 0 < record.tokens <= 750
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
