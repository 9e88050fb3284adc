"""What a prompt may take of a model is known before it is built, also of one it is pasted to."""

import pytest

from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.token_budget import estimate
from ragstream_core.wiring.workspace import open_workspace


def found(tmp_path, **settings):
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return estimate(open_workspace(tmp_path, explicit=given).config)


def test_without_a_target_it_is_the_model_that_is_asked(tmp_path):
    mine = found(tmp_path)
    assert (mine.model, mine.most_usd, mine.answer_usd) == ("llama3.2", 0.0, 0.0)
    assert mine.budget_tokens == 6000


def test_a_pasted_prompt_has_the_price_of_the_table(tmp_path):
    other = found(tmp_path, prompt__model_target="gpt-4o", prompt__budget_tokens=1000)
    assert other.window_tokens == 128_000 and other.budget_tokens == 1000
    assert other.most_usd == pytest.approx(0.0025) and other.answer_usd == pytest.approx(0.01)
    assert other.price(2000, 0) == pytest.approx(2 * other.most_usd)
    unknown = found(tmp_path, prompt__model_target="made-up-7b")
    assert (unknown.window_tokens, unknown.most_usd, unknown.answer_usd) == (0, None, None)


def test_the_providers_own_model_has_the_providers_price(tmp_path):
    prices = {"provider__input_usd_per_mtok": 2.0, "provider__output_usd_per_mtok": 10.0}
    own = found(tmp_path, prompt__model_target="llama3.2", **prices)
    assert own.most_usd == pytest.approx(own.budget_tokens * 2e-6)
    assert own.answer_usd == pytest.approx(0.01)


@pytest.mark.parametrize("tokens", [500, 4000, 8000])
def test_its_budget_is_the_one_that_the_prompt_gets(tmp_path, tokens):
    (tmp_path / "doc_raw" / "demo").mkdir(parents=True)
    (tmp_path / "doc_raw" / "demo" / "a.md").write_text("# A\n\nOne sentence of text is here.\n")
    explicit = {"embeddings.backend": "hashed", "prompt.model_window": tokens}
    space = open_workspace(tmp_path, explicit=explicit)
    ingest_project(space, "demo")
    pinned = pin_inputs(space, PromptRequest("What is here?", ("demo",)))
    assert estimate(space.config).budget_tokens == pinned.settings["prompt"]["budget_tokens"]
    assert estimate(space.config).budget_tokens == min(6000, max(200, tokens * 3 // 4))


def test_where_no_model_is_named_nobody_is_asked_for_one(tmp_path):
    none = found(tmp_path, provider__model="", provider__base_url="http://127.0.0.1:9/v1")
    assert (none.model, none.most_usd, none.answer_usd) == ("", None, None)
