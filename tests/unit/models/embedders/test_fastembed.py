"""FastEmbed's models by one setting; the model is tiny and random: plumbing only."""

import builtins
import shutil

import numpy as np
import pytest

from ragstream_core.errors import UnknownSetting, WeightsMismatch, WeightsMissing
from ragstream_core.models.embedders import registry
from ragstream_core.models.embedders.onnx_export import exported_bytes
from tests.unit.models.embedders.test_prefixes import BGE, BGE_WORDS, build

SOURCE = "Qdrant/bge-small-en-v1.5-onnx-Q"
FILE = "model_optimized.onnx"
TEXTS = ["a b c", "wing flow", ""]
LONG = "wing flow abcdefghij " * 150


def tiny_export(folder):
    """Make a folder as FastEmbed has it; return its files by name."""
    build(folder)
    (folder / FILE).write_bytes(exported_bytes(folder))
    (folder / "model.safetensors").unlink()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """`<data>/models` with FastEmbed's export of BGE, as `models pull` lays it down."""
    root = tmp_path_factory.mktemp("models")
    tiny_export(root / SOURCE)
    return root


@pytest.fixture(scope="module")
def embedder(models):
    pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
    return opened(models)


@pytest.fixture(autouse=True)
def no_other_cache(tmp_path, monkeypatch):
    pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "no cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "none"))


def opened(models, model=BGE):
    return registry.create_embeddings(
        "fastembed", registry.EmbeddingOptions(model=model, models_dir=models, workers=2)
    )


def test_the_vectors_are_those_of_fastembed_with_the_query_instruction(models, embedder):
    import fastembed

    own = fastembed.TextEmbedding(
        BGE, specific_model_path=str(models / SOURCE), cache_dir=str(models / SOURCE)
    )
    assert np.abs(embedder.embed_documents(TEXTS) - list(own.embed(TEXTS))).max() <= 1e-6
    asked = list(own.embed([f"{BGE_WORDS}: {text}" for text in TEXTS]))
    assert np.abs(embedder.embed_queries(TEXTS) - asked).max() <= 1e-6
    assert (embedder.name, embedder.dimension, embedder.device) == (BGE, 16, "cpu")
    assert embedder.window == 64 - 2 - embedder.count(f"{BGE_WORDS}: ")


def test_the_end_of_a_long_text_counts(embedder):
    plain, changed = embedder.embed_documents([LONG, LONG + "query"])
    assert np.abs(plain - changed).max() > 0
    assert embedder.truncated_inputs == 0
    assert embedder.token_vectors([LONG])[0].shape == (embedder.count(LONG), 16)


def test_names_ignore_case_and_the_models_own_folder_is_looked_into(models, tmp_path, embedder):
    shutil.copytree(models / SOURCE, tmp_path / BGE)
    other = opened(tmp_path, BGE.upper())
    assert np.array_equal(other.embed_documents(TEXTS), embedder.embed_documents(TEXTS))
    assert other.fingerprint == embedder.fingerprint


def test_fastembeds_own_cache_is_looked_into(models, tmp_path, embedder, monkeypatch):
    repository = tmp_path / "cache" / f"models--{SOURCE.replace('/', '--')}"
    shutil.copytree(models / SOURCE, repository / "snapshots" / ("0" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    assert opened(tmp_path).fingerprint == embedder.fingerprint


def test_other_weights_are_another_vector_space(models, tmp_path, embedder):
    shutil.copytree(models / SOURCE, tmp_path / SOURCE)
    path = tmp_path / SOURCE / FILE
    path.write_bytes(path.read_bytes() + b"\0")
    other = registry.embed_fingerprint(
        "fastembed", registry.EmbeddingOptions(model=BGE, models_dir=tmp_path)
    )
    same = registry.embed_fingerprint(
        "fastembed", registry.EmbeddingOptions(model=BGE, models_dir=models)
    )
    assert other != same == embedder.fingerprint


def test_absent_files_are_named_with_the_command_that_gets_them(tmp_path):
    for function in (registry.create_embeddings, registry.embed_fingerprint):
        with pytest.raises(WeightsMissing, match=FILE) as caught:
            function("fastembed", registry.EmbeddingOptions(model=BGE, models_dir=tmp_path))
        assert f"`ragstream models pull {SOURCE}`, or put" in caught.value.hint
    with pytest.raises(WeightsMissing, match=r"onnx/model\.onnx") as caught:
        opened(tmp_path, "thenlper/gte-base")  # `models pull` takes no file of a folder below
    assert caught.value.hint.startswith("put the files of thenlper/gte-base under")


def test_a_model_that_fastembed_has_not_is_refused_with_those_it_has(tmp_path):
    with pytest.raises(UnknownSetting, match="org/none") as caught:
        opened(tmp_path, "org/none")
    assert BGE in caught.value.hint and "backend to onnx" in caught.value.hint


@pytest.mark.parametrize("name", [FILE, "tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_file_is_named(models, tmp_path, name):
    shutil.copytree(models / SOURCE, tmp_path / SOURCE)
    (tmp_path / SOURCE / name).write_bytes(b"<html>not here</html>")
    with pytest.raises(WeightsMismatch, match="cannot load") as caught:
        opened(tmp_path)
    assert str(tmp_path / SOURCE) in caught.value.message


def test_without_the_package_the_error_says_what_to_install(models, monkeypatch):
    real = builtins.__import__

    def refused(name, *args, **kwargs):
        if name == "fastembed":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refused)
    with pytest.raises(WeightsMissing, match="FastEmbed is not installed") as caught:
        opened(models)
    assert caught.value.hint == "pip install 'ragstream[fastembed]'"


def test_nothing_is_downloaded_and_no_cache_is_made(models, tmp_path, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("socket.socket.connect", lambda *a: pytest.fail("the network was asked"))
    assert opened(models).embed_documents(["a"]).shape == (1, 16)
    assert not (tmp_path / "no cache").exists()
    with pytest.raises(WeightsMissing):
        opened(tmp_path)
