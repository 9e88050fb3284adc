from __future__ import annotations

import pytest

from ragstream_core.embedders import registry
from ragstream_core.embedders.hashed import HashedEmbedder
from ragstream_core.errors import UnknownSetting, UsageError


@pytest.fixture
def toy(tmp_path):
    class Toy(HashedEmbedder):
        def __init__(self, model, device):
            super().__init__()
            self.given = (model, device)

    registry.register_embedding_backend("toy", Toy)
    yield Toy
    registry.unregister_embedding_backend("toy")


def test_a_registered_backend_is_selected_by_name(toy, tmp_path):
    made = registry.create_embeddings("toy", model="m", models_dir=tmp_path, device="d")
    assert isinstance(made, toy)
    assert made.given == ("m", "d")
    assert registry.embed_fingerprint("toy", models_dir=tmp_path) == made.fingerprint
    with pytest.raises(UsageError, match="exists"):
        registry.register_embedding_backend("toy", toy)


@pytest.mark.parametrize("bad", [dict, "text", type("Half", (), {"count": len}), lambda depth: 0])
def test_what_is_no_embedder_is_refused_at_registration(bad):
    with pytest.raises(UsageError):
        registry.register_embedding_backend("bad", bad)
    assert "bad" not in registry.embedding_backends()


def test_what_a_function_returns_is_checked_at_creation(tmp_path):
    registry.register_embedding_backend("bad", lambda: object())
    try:
        with pytest.raises(UsageError, match="port"):
            registry.create_embeddings("bad", models_dir=tmp_path)
    finally:
        registry.unregister_embedding_backend("bad")


def test_import_paths(tmp_path):
    path = "ragstream_core.embedders.hashed:HashedEmbedder"
    assert isinstance(registry.create_embeddings(path, models_dir=tmp_path), HashedEmbedder)
    with pytest.raises(UnknownSetting, match="import"):
        registry.create_embeddings("no.such:thing", models_dir=tmp_path)


def test_unknown_names_and_models(tmp_path):
    with pytest.raises(UnknownSetting, match="sentence_transformers"):
        registry.create_embeddings("nothing", models_dir=tmp_path)
    for function in (registry.create_embeddings, registry.embed_fingerprint):
        with pytest.raises(UnknownSetting, match="BAAI"):
            function("onnx", model="BAAI/bge-small-en-v1.5", models_dir=tmp_path)
