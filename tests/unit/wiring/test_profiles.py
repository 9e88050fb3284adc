"""The shipped task profiles, through the chain."""

import pytest

from ragstream_core.errors import UnknownSetting
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.workspaces import ingested_workspace

TOPICS = {
    f"{n:02}.md": f"# Lock {n}\n\nLock number {n} is held by writer {n}.\n" for n in range(30)
}


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    root = tmp_path_factory.mktemp("profiles")
    return ingested_workspace(root, docs=TOPICS)


def asked(space, **more):
    request = PromptRequest("Which writer holds lock number 7?", ("demo",), **more)
    return run_prompt(space, pin_inputs(space, request))


def test_the_chat_profile_is_ten_and_ten_reranked_to_five(space):
    prompt = asked(space, task="chat")
    chain = prompt.extras.inputs.settings
    assert (chain["retrieval"]["depth"], chain["retrieval"]["dense_weight"]) == (10, 0.5)
    assert (chain["retrieval"]["top_k"], chain["rerank"]["keep"]) == (20, 5)
    found, ranked = (prompt.views_by_stage[stage] for stage in ("retrieval", "reranked"))
    assert 10 <= len(found) <= 20 and len(ranked) == 5
    rules = [d.rule for d in prompt.extras.decisions if d.stage == "reranked"]
    assert rules == ["maxsim"] * 5 + ["keep"] * (len(found) - 5)


def test_without_a_profile_every_candidate_goes_on(space):
    prompt = asked(space)
    assert sorted(prompt.views_by_stage["reranked"]) == sorted(prompt.views_by_stage["retrieval"])
    assert len(prompt.views_by_stage["retrieval"]) == 30


@pytest.mark.parametrize("change", [{"rerank.keep": 7}, {"rerank.passes": 2}])
def test_how_many_are_kept_and_the_passes_are_part_of_the_key(space, change):
    plain, other = (save_prompt(space, asked(space, settings=given)) for given in ({}, change))
    assert plain.prompt_key != other.prompt_key
    assert replay_prompt(space, other.prompt_key).verdict == "identical"


@pytest.mark.parametrize(
    "setting", ["rerank.keep=-1", "rerank.keep=many", "rerank.passes=0", "rerank.passes=6"]
)
def test_a_number_out_of_range_is_refused_by_name(space, setting):
    name, _, value = setting.partition("=")
    with pytest.raises(UnknownSetting, match=name):
        asked(space, settings={name: value})
