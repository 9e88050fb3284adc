"""`retrieval.token_overhead` is set aside: so much less is there for the attachments."""

from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.agents.a4_condenser import Condenser
from ragstream_core.settings import ChainSettings
from ragstream_core.text.token_estimates import HeuristicTokenCounter
from ragstream_core.wiring.prompt_inputs import pin_inputs
from tests.unit.agents.test_condense import GATE, INDEX, NEWER, OTHER, kept

TEXTS = (GATE, INDEX, OTHER, NEWER)


def picked(budget, overhead):
    stage = Condenser(
        HeuristicTokenCounter(),
        budget_tokens=budget,
        max_context_tokens=10_000,
        token_overhead=overhead,
    )
    result = stage(kept(*TEXTS))
    return result.final_selection_ids, result.extras.cuts


@given(st.integers(300, 1200), st.integers(0, 300))
def test_what_is_set_aside_is_a_smaller_budget(budget, overhead):
    assert picked(budget, overhead) == picked(budget - overhead, 0)


def test_it_makes_a_difference():
    assert len(picked(420, 0)[0]) > len(picked(420, 200)[0])


def test_the_chain_hands_the_setting_on(tmp_path):
    from ragstream_core.prompts.inputs import PromptRequest, begin
    from ragstream_core.wiring.stages import make_stage
    from tests.workspaces import ingested_workspace

    space = ingested_workspace(tmp_path)
    given = {"retrieval.token_overhead": 123}
    inputs = pin_inputs(space, PromptRequest("Who may write?", ("demo",), settings=given))
    assert make_stage(space, "a4_condenser", begin(inputs)).token_overhead == 123
    assert ChainSettings().retrieval.token_overhead != 123
