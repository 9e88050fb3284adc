"""Any sentence-transformers model through onnxruntime; the models are tiny and random: plumbing."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.errors import EmbeddingFailed, WeightsMissing
from ragstream_core.models.embedders import registry
from ragstream_core.models.embedders.fingerprints import NotExportable, recipe_of
from ragstream_core.models.embedders.onnx_encoder import OnnxEmbedder, known_export
from ragstream_core.models.embedders.sentence_transformers import (
    DeviceBatches,
    SentenceTransformerEmbeddings,
)
from ragstream_core.text import tokenizer as tokenizer_module
from ragstream_core.text.tokenizer import ModelTokenizer
from tests.lengths import by_length
from tests.unit.models.embedders.test_prefixes import build

POOLINGS = ["org/mean", "org/cls", "org/max"]
TEXTS = ["a b c", "wing flow", "wing " * 150, ""]


def made(root, name, *, pooling="mean", **files):
    """A model folder as sentence-transformers writes it."""
    folder = root / name
    build(folder)
    types = ("", "Transformer"), ("1_Pooling", "Pooling")
    rows = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(types)
    ]
    (folder / "modules.json").write_text(json.dumps(rows))
    (folder / "1_Pooling").mkdir()
    config = {"word_embedding_dimension": 16, f"pooling_mode_{pooling}": True}
    if pooling != "mean_tokens":
        config["pooling_mode_mean_tokens"] = False
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    for key, value in files.items():
        (folder / f"{key}.json").write_text(json.dumps(value))
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    made(root, "org/mean", pooling="mean_tokens")
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}}
    made(root, "org/cls", pooling="cls_token", config_sentence_transformers=prompts)
    made(root, "org/max", pooling="max_tokens")
    made(root, "org/odd", pooling="mean_sqrt_len_tokens")
    return root


def opened(models, model, backend="onnx", **options):
    return registry.create_embeddings(
        backend,
        registry.EmbeddingOptions(
            model=model, models_dir=models, device="cpu", workers=1, **options
        ),
    )


@pytest.mark.sweep
@pytest.mark.parametrize("model", by_length(["org/cls"], POOLINGS, POOLINGS))
def test_an_export_gives_the_vectors_of_the_models_own_library(models, model):
    ours = opened(models, model)
    own = opened(models, model, "sentence_transformers")
    assert isinstance(ours, OnnxEmbedder)
    assert (ours.dimension, ours.window) == (own.dimension, own.window)
    for method in ("embed_documents", "embed_queries"):
        difference = getattr(ours, method)(TEXTS) - getattr(own, method)(TEXTS)
        assert np.abs(difference).max() <= 1e-5
    for mine, theirs in zip(ours.token_vectors(TEXTS), own.token_vectors(TEXTS), strict=True):
        assert np.abs(mine.astype(float) - theirs.astype(float)).max(initial=0.0) <= 2e-3
    assert ours.fingerprint != own.fingerprint
    options = registry.EmbeddingOptions(model=model, models_dir=models)
    assert registry.embed_fingerprint("onnx", options) == ours.fingerprint
    assert ours.truncated_inputs == 0


def test_vectors_do_not_depend_on_batch_or_workers(models):
    one = opened(models, "org/cls")
    rows = one.embed_documents(TEXTS)
    other = registry.create_embeddings(
        "onnx", registry.EmbeddingOptions(model="org/cls", models_dir=models, workers=3)
    )
    assert np.array_equal(other.embed_documents(TEXTS[::-1])[::-1], rows)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_batches_for_a_graphics_card_give_the_vectors_of_one_text_a_call(models, device):
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no graphics card that torch can use")
    one = opened(models, "org/cls", "sentence_transformers")
    card = SentenceTransformerEmbeddings(models, model="org/cls", device=device)
    card._batches = DeviceBatches(card._run_batch, pad=0, longest=32)
    texts = [*TEXTS, *("wing flow a b c " * n for n in range(1, 40))]
    for method in ("embed_documents", "embed_queries"):
        rows = getattr(card, method)(texts)
        assert np.abs(rows - getattr(one, method)(texts)).max() <= 1e-5
        assert np.array_equal(getattr(card, method)(texts[::-1])[::-1], rows)
        assert np.array_equal(getattr(card, method)(texts[3:4])[0], rows[3])
    assert card.embed_documents([]).shape == (0, 16)
    assert card.truncated_inputs == 0


@pytest.mark.parametrize("method", ["embed_documents", "token_vectors"])
@pytest.mark.parametrize("kind", ["OutOfMemoryError", "RuntimeError"])
def test_a_graphics_card_without_memory_is_named(models, monkeypatch, method, kind):
    torch = pytest.importorskip("torch")
    card = SentenceTransformerEmbeddings(models, model="org/cls", device="cpu")
    card._batches = DeviceBatches(card._run_batch, pad=0, longest=32)

    def full(_):
        raise getattr(torch, kind, RuntimeError)("out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(card, "_model", full)
    with pytest.raises(EmbeddingFailed, match="too little free memory") as caught:
        getattr(card, method)(["wing"])
    assert "embeddings.device" in caught.value.hint


def test_another_error_of_a_model_is_not_taken_for_a_lack_of_memory(models, monkeypatch):
    card = SentenceTransformerEmbeddings(models, model="org/cls", device="cpu")

    def broken(_):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(card, "_model", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        card.token_vectors(["wing"])


@given(st.lists(st.text(max_size=60), max_size=6), st.integers(1, 30))
def test_tokens_of_several_texts_are_those_of_each(models, texts, most):
    tokenizer = ModelTokenizer.from_file(models / "org/cls" / "tokenizer.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "_AT_ONCE_CHARACTERS", most)
        patch.setattr(tokenizer_module, "_AT_ONCE", 2)
        assert tokenizer.ids_of(texts) == [tokenizer.ids(text) for text in texts]


def test_pooling_length_and_prefixes_come_from_the_models_own_files(models):
    recipe = recipe_of(models / "org/cls", "org/cls")
    assert (recipe.pooling, recipe.length) == ("cls", 32)
    assert (recipe.prefixes.query, recipe.prefixes.passage) == ("query: ", "passage: ")
    assert (recipe.head, recipe.tail) == ((2,), (3,))
    embedder = opened(models, "org/cls")
    query, passage = embedder.embed_queries(["wing"])[0], embedder.embed_documents(["wing"])[0]
    assert np.abs(query - passage).max() > 1e-3


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": ["max"]}, "max"),
        ({"pooling_mode_lasttoken": True}, "lasttoken"),
        ({}, "mean"),
    ],
)
def test_both_forms_of_a_pooling_are_read(models, tmp_path, config, pooling):
    folder = tmp_path / "model"
    shutil.copytree(models / "org/mean", folder)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    assert recipe_of(folder, "m").pooling == pooling


def test_a_model_without_modules_is_pooled_by_mean(tmp_path):
    build(tmp_path / "plain")
    recipe = recipe_of(tmp_path / "plain", "plain")
    assert (recipe.pooling, recipe.length) == ("mean", 64)


def test_torch_runs_what_cannot_be_exported_and_the_reason_is_kept(models):
    embedder = opened(models, "org/odd")
    assert isinstance(embedder, SentenceTransformerEmbeddings)
    export = known_export("org/odd", models)
    assert not export.made and "org/odd pools its tokens by mean_sqrt_len" in export.refused
    light = registry.embed_fingerprint(
        "onnx", registry.EmbeddingOptions(model="org/odd", models_dir=models)
    )
    assert light == embedder.fingerprint
    assert not list(export.folder.glob("*.onnx"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"modules": [*"abc"]}, "not readable"),
        ({"sentence_bert_config": {"do_lower_case": True}}, "lower case"),
        ({"dense": True}, "module Dense"),
        ({"tokenizer": {}}, "no fast tokenizer"),
    ],
)
def test_what_an_export_cannot_have_is_named(models, tmp_path, change, said):
    folder = tmp_path / "model"
    shutil.copytree(models / "org/mean", folder)
    if change.pop("dense", False):
        rows = json.loads((folder / "modules.json").read_text())
        change["modules"] = [*rows, {**rows[0], "type": "x.models.Dense", "path": "2_Dense"}]
    for name, value in change.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    with pytest.raises(NotExportable, match=said):
        recipe_of(folder, "org/model")


def test_an_export_that_differs_from_torch_is_not_used(models, tmp_path, monkeypatch):
    shutil.copytree(models / "org/mean", tmp_path / "org/mean")
    monkeypatch.setattr("ragstream_core.models.embedders.onnx_export.TOLERANCE", -1.0)
    embedder = opened(tmp_path, "org/mean")
    assert isinstance(embedder, SentenceTransformerEmbeddings)
    assert "differs from torch" in known_export("org/mean", tmp_path).refused


def test_a_damaged_export_is_made_again(models, tmp_path):
    shutil.copytree(models / "org/mean", tmp_path / "org/mean")
    before = opened(tmp_path, "org/mean").embed_documents(TEXTS)
    export = known_export("org/mean", tmp_path)
    path = export.folder / "model.onnx"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert not known_export("org/mean", tmp_path).made
    assert np.array_equal(opened(tmp_path, "org/mean").embed_documents(TEXTS), before)
    assert known_export("org/mean", tmp_path).made


def test_an_absent_model_is_named(tmp_path):
    with pytest.raises(WeightsMissing, match="org/none") as caught:
        opened(tmp_path, "org/none")
    assert "ragstream models pull org/none" in caught.value.hint
