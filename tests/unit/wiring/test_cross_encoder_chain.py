"""The chain with a cross-encoder whose weights lie in the data root; a tiny random one."""

import shutil

import pytest

from ragstream_core.errors import WeightsMissing
from ragstream_core.models.rerankers import weights_digest
from ragstream_core.platform import files
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.replay import replay_prompt
from ragstream_core.settings.prompts import MS_MARCO
from ragstream_core.wiring import models
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from ragstream_core.wiring.workspace import open_workspace
from tests.unit.models.rerankers.test_cross_encoder import build


def ask(space, **settings):
    request = PromptRequest("Who may write to the catalog?", ("demo",), settings=settings)
    return run_prompt(space, pin_inputs(space, request))


def test_without_weights_maxsim_stands_in_and_is_named(space):
    inputs = pin_inputs(space, PromptRequest("Who may write?", ("demo",)))
    assert inputs.models["reranker"] == "maxsim"
    rules = {r.rule for r in ask(space).extras.decisions if r.stage == "reranked"}
    assert rules == {"maxsim"}
    with pytest.raises(WeightsMissing, match="maxsim"):
        ask(space, **{"rerank.backend": "cross_encoder"})


def test_with_weights_one_pass_orders_by_the_whole_query(space, tmp_path):
    build(space.layout.models / MS_MARCO)
    prompt = ask(space)
    rows = [r for r in prompt.extras.decisions if r.stage == "reranked"]
    assert {r.rule for r in rows} == {"cross_encoder"}
    assert [r.score for r in rows] == sorted((r.score for r in rows), reverse=True)
    assert prompt.views_by_stage["reranked"] == [r.chunk_id for r in rows]
    assert set(prompt.views_by_stage["reranked"]) == set(prompt.views_by_stage["retrieval"])
    inputs = pin_inputs(space, PromptRequest("Who may write?", ("demo",)))
    assert inputs.models["reranker"] == MS_MARCO
    record = save_prompt(space, prompt)
    assert replay_prompt(space, record.prompt_key).verdict == "identical"


def test_a_prompt_is_replayed_with_the_reranker_it_was_pinned_with(space):
    folder = space.layout.models / MS_MARCO
    before = save_prompt(space, ask(space, **{"gate.theta": -1}))
    build(folder)
    with_weights = ask(space, **{"gate.theta": -1})
    after = save_prompt(space, with_weights)
    trail = [r.rule for r in run_prompt(space, _inputs(before)).extras.decisions]
    assert "maxsim" in trail and "cross_encoder" not in trail
    assert replay_prompt(space, before.prompt_key).verdict == "identical"
    shutil.rmtree(folder)
    verdict = replay_prompt(space, after.prompt_key)
    assert verdict.verdict == "environment differs" and MS_MARCO in verdict.reason


@pytest.mark.parametrize("changed", ["model.safetensors", "tokenizer.json"])
def test_other_weights_are_another_key_and_an_environment_that_differs(space, changed):
    folder = space.layout.models / MS_MARCO
    build(folder)
    record = save_prompt(space, ask(space))
    assert record.inputs["models"]["reranker_weights"] == weights_digest(folder)
    raw = (folder / changed).read_bytes()
    (folder / changed).write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    verdict = replay_prompt(space, record.prompt_key)
    assert verdict.verdict == "environment differs" and "have changed" in verdict.reason
    request = PromptRequest("Who may write to the catalog?", ("demo",))
    assert pin_inputs(space, request).models != record.inputs["models"]
    (folder / changed).write_bytes(raw)
    assert replay_prompt(space, record.prompt_key).verdict == "identical"


def test_a_file_is_read_once_until_it_changes(tmp_path, monkeypatch):
    build(tmp_path)
    first = weights_digest(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(files.hashlib, "file_digest", None)  # whoever reads fails
        assert weights_digest(tmp_path) == first
    (tmp_path / "README.md").write_text("no weight")
    assert weights_digest(tmp_path) == first
    (tmp_path / "model.safetensors").touch()
    assert weights_digest(tmp_path) == first


def test_another_embedding_model_is_an_environment_that_differs(space, tmp_path):
    record = save_prompt(space, ask(space))
    other = open_workspace(tmp_path, explicit={"embeddings.backend": "onnx"})
    verdict = replay_prompt(other, record.prompt_key)
    assert (verdict.verdict, "embedded by model" in verdict.reason) == ("environment differs", True)


def _inputs(record):
    from ragstream_core.records.prompt_inputs import PromptInputs

    return PromptInputs.from_json(record.inputs)


def test_the_cross_encoder_reads_prompt_md_and_never_the_pieces(space, monkeypatch):
    from ragstream_core.prompts.render import render_prompt_md

    asked = []

    class Spy:
        def score(self, query, passages):
            asked.append((query, len(passages)))
            return [0.0] * len(passages)

    monkeypatch.setattr(models, "cross_encoder", lambda config, name, weights: Spy())
    request = PromptRequest(
        "# Task\nWho may write?\n# Format\nA table.", ("demo",),
        settings={"rerank.backend": "cross_encoder"},
    )  # fmt: skip
    prompt = run_prompt(space, pin_inputs(space, request))
    whole = render_prompt_md(prompt.body)
    assert asked == [(whole, len(prompt.views_by_stage["retrieval"]))] and "A table." in whole
