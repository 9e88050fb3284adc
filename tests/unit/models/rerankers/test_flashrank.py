"""FlashRank's folders, read by onnxruntime; the model is tiny and random."""

import json
import shutil

import numpy as np
import pytest

from ragstream_core.errors import OperationFailed, UsageError, WeightsMissing
from ragstream_core.models.rerankers import FlashRankReranker, find_flashrank
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.replay import replay_prompt
from ragstream_core.wiring.prompt_inputs import pin_inputs
from ragstream_core.wiring.saved_prompts import save_prompt
from ragstream_core.wiring.stages import run_prompt
from tests.unit.models.rerankers.test_cross_encoder import build
from tests.workspaces import ingested_workspace

onnx = pytest.importorskip("onnx")
NAME = "ms-marco-MiniLM-L-12-v2"


def build_flashrank(folder, *, labels=1, wanted=("input_ids", "attention_mask", "token_type_ids")):
    """Sum an embedding over the unmasked tokens, once a segment: order and masks matter."""
    from onnx import TensorProto, helper, numpy_helper

    build(folder)  # its tokenizer; the weights go
    (folder / "model.safetensors").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 32}))
    rng = np.random.default_rng(0)
    table = rng.normal(size=(64, 8)).astype(np.float32)
    weight = rng.normal(size=(8, labels)).astype(np.float32)
    both = [helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["mask3"])]  # fmt: skip
    segment = []
    if "token_type_ids" in wanted:
        segment = [helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
                   helper.make_node("Add", ["types", "one"], ["types1"]),
                   helper.make_node("Unsqueeze", ["types1", "last"], ["types3"]),
                   helper.make_node("Mul", ["masked", "types3"], ["scaled"])]  # fmt: skip
    last = "scaled" if segment else "masked"
    nodes = [
        *both,
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Mul", ["rows", "mask3"], ["masked"]),
        *segment,
        helper.make_node("ReduceMean", [last], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Tanh", ["mean"], ["bent"]),
        helper.make_node("MatMul", ["bent", "weight"], ["logits"]),
    ]  # fmt: skip
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "s"]) for n in wanted]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["b", labels])
    arrays = {"table": table, "weight": weight, "last": np.array([2]), "one": np.float32(1)}
    graph = helper.make_graph(
        nodes, "tiny", inputs, [output],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(folder / f"flashrank-{folder.name}.onnx"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build_flashrank(tmp_path_factory.mktemp("models") / "flashrank" / NAME)


@pytest.fixture(scope="module")
def reranker(folder):
    return FlashRankReranker(folder, model=NAME)


def test_scores_do_not_depend_on_neighbours(reranker):
    passages = ["a b c", "wing flow", "d", "j j j"]
    scores = reranker.score("wing a", passages)
    assert len(set(scores)) == len(passages)
    assert reranker.score("wing a", passages[::-1]) == scores[::-1]
    assert [reranker.score("wing a", [p])[0] for p in passages] == scores
    assert reranker.score("flow", passages) != scores
    assert reranker.score("wing a", []) == []


def test_a_long_passage_has_the_score_of_its_best_window_and_a_long_query_is_cut(reranker):
    whole = reranker.score("wing", ["a b " * 60 + "wing flow j " * 10])
    assert len(whole) == 1 and np.isfinite(whole[0])
    assert whole[0] >= max(reranker.score("wing", ["a b " * 8]))
    assert np.isfinite(reranker.score("wing flow " * 100, ["a b c"])[0])


def test_two_outputs_give_their_difference_and_three_are_refused(tmp_path):
    two = FlashRankReranker(build_flashrank(tmp_path / "two", labels=2))
    assert len(set(two.score("wing", ["a", "b"]))) == 2
    with pytest.raises(UsageError, match="3 outputs"):
        FlashRankReranker(build_flashrank(tmp_path / "three", labels=3)).score("wing", ["a"])


def test_a_model_without_token_types_is_fed_what_it_wants(tmp_path):
    plain = build_flashrank(tmp_path / "plain", wanted=("input_ids", "attention_mask"))
    assert len(set(FlashRankReranker(plain).score("wing", ["a", "b"]))) == 2


def test_names_absence_and_damage(folder, tmp_path):
    root = folder.parent.parent
    assert find_flashrank(NAME, root) == folder
    assert find_flashrank(str(folder), tmp_path) == folder
    assert find_flashrank("absent", root) is None
    assert FlashRankReranker(folder, model=NAME).name == f"flashrank:{NAME}"
    with pytest.raises(WeightsMissing):
        FlashRankReranker(tmp_path).score("q", ["p"])
    broken = shutil.copytree(folder, tmp_path / "broken")
    next(broken.glob("*.onnx")).write_bytes(b"no model")
    with pytest.raises(OperationFailed, match="cannot be read"):
        FlashRankReranker(broken).score("q", ["p"])


def test_through_the_chain_pinned_by_its_weights(tmp_path, folder):
    space = ingested_workspace(tmp_path, {"rerank.backend": "flashrank"})
    request = PromptRequest("Who may write to the catalog?", ("demo",))
    with pytest.raises(WeightsMissing) as caught:
        run_prompt(space, pin_inputs(space, request))
    assert f"flashrank/{NAME}" in caught.value.hint
    here = space.layout.models / "flashrank" / NAME
    shutil.copytree(folder, here)
    prompt = run_prompt(space, pin_inputs(space, request))
    rows = [r for r in prompt.extras.decisions if r.stage == "reranked"]
    assert {r.rule for r in rows} == {"flashrank"}
    assert [r.score for r in rows] == sorted((r.score for r in rows), reverse=True)
    record = save_prompt(space, prompt)
    assert record.inputs["models"]["reranker"] == f"flashrank:{NAME}"
    assert len(record.inputs["models"]["reranker_weights"]) == 64
    assert replay_prompt(space, record.prompt_key).verdict == "identical"
    path = next(here.glob("*.onnx"))
    path.write_bytes(path.read_bytes() + b"\0")
    assert replay_prompt(space, record.prompt_key).verdict == "environment differs"
