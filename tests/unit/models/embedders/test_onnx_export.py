import json
import shutil
import sys

import numpy as np
import pytest

from ragstream_core.errors import EmbeddingFailed
from ragstream_core.models.embedders import onnx_export, shipped_model
from ragstream_core.models.embedders.base import mean_unit, stack_checked, unit_rows_f16
from ragstream_core.models.embedders.onnx_encoder import RECENT, ensure_export, open_model
from ragstream_core.records.identity import sha256_hex


def test_a_damaged_export_is_made_again(onnx_embedder, models_dir, tmp_path, monkeypatch):
    good = ensure_export(models_dir).folder
    folder = tmp_path / good.name
    folder.mkdir()
    for name in (onnx_export.TOKENIZER_FILE, onnx_export.STAMP_FILE):
        shutil.copy(good / name, folder)
    (folder / onnx_export.MODEL_FILE).write_bytes(b"damaged")
    made = []

    def whole(weights, precision):
        made.append(precision)
        return (good / onnx_export.MODEL_FILE).read_bytes()

    monkeypatch.setattr(shipped_model, "onnx_bytes", whole)
    for _ in range(2):
        assert ensure_export(tmp_path) == (folder, "", True)
        assert made == ["float32"]
    for name in (onnx_export.STAMP_FILE, onnx_export.MODEL_FILE):
        assert (folder / name).read_bytes() == (good / name).read_bytes()


@pytest.mark.model
def test_the_default_model_is_made_without_torch_and_stamped(tmp_path, monkeypatch):
    for name in ("torch", "transformers", "onnx"):
        monkeypatch.setitem(sys.modules, name, None)
    folder = ensure_export(tmp_path).folder
    stamp = json.loads((folder / onnx_export.STAMP_FILE).read_text())
    assert set(stamp) == {"sha256", "weights", "tokenizer"}
    assert stamp["sha256"] == sha256_hex((folder / onnx_export.MODEL_FILE).read_bytes())


def test_an_opened_model_needs_no_weights(models_dir, onnx_embedder, monkeypatch):
    def refuse(models_dir):
        raise AssertionError("looked for the weights")

    monkeypatch.setattr(onnx_export.weights, "find_default", refuse)
    again = open_model(models_dir, workers=1)
    texts = ["same bits", "in another session"]
    assert np.array_equal(again.embed_documents(texts), onnx_embedder.embed_documents(texts))


def test_the_tokens_of_a_query_need_no_second_pass(onnx_embedder, monkeypatch):
    queries = ["one piece", "another piece", "a long piece " * 200]
    alone = [rows.tobytes() for rows in onnx_embedder.token_vectors(queries)]
    onnx_embedder.token_vectors([f"something else {n}" for n in range(RECENT)])
    passes, session = [], onnx_embedder._session

    class Counted:
        def run(self, *given):
            passes.append(given)
            return session.run(*given)

    monkeypatch.setattr(onnx_embedder, "_session", Counted())
    vectors = onnx_embedder.embed_queries(queries)
    needed = len(passes)
    assert [rows.tobytes() for rows in onnx_embedder.token_vectors(queries)] == alone
    assert needed == len(passes) >= len(queries)
    assert np.array_equal(vectors, onnx_embedder.embed_documents(queries))
    assert len(passes) == 2 * needed


def test_meaning_is_there(onnx_embedder):
    query = onnx_embedder.embed_queries(["How do I repair a flat tyre?"])[0]
    near, far = onnx_embedder.embed_documents(
        ["Fixing a punctured bicycle wheel", "The parliament passed the budget"]
    )
    assert query @ near > query @ far + 0.3


@pytest.mark.parametrize("bad", [[[np.nan, 1.0]], [[np.inf, 1.0]], [[0.0, 0.0]]])
def test_unusable_numbers_are_refused(bad):
    with pytest.raises(EmbeddingFailed):
        mean_unit(np.array(bad))
    with pytest.raises(EmbeddingFailed):
        unit_rows_f16(np.array(bad))
    with pytest.raises(EmbeddingFailed):
        stack_checked([np.array(bad[0], dtype=np.float32)], shape=(1, 2))


def test_token_rows_are_rounded_once_to_float16():
    rows = np.random.default_rng(2).normal(size=(7, 384))
    found = unit_rows_f16(rows)
    exact = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert found.dtype == np.float16
    assert np.array_equal(found, exact.astype(np.float16))
    assert not np.array_equal(found.astype(np.float64), exact)


def test_wrong_counts_and_lengths_are_refused():
    row = np.array([1.0, 0.0], dtype=np.float32)
    with pytest.raises(EmbeddingFailed, match="shape"):
        stack_checked([row], shape=(2, 2))
    with pytest.raises(EmbeddingFailed, match="length 1"):
        stack_checked([row * 2], shape=(1, 2))
