import numpy as np
import pytest

from ragstream_core.errors import EmbeddingFailed, UnknownSetting, UsageError, WeightsMissing
from ragstream_core.models.embedders import registry
from ragstream_core.models.embedders.base import EmbeddingBackend
from ragstream_core.models.embedders.hashed import HashedEmbedder


@pytest.fixture
def toy(tmp_path):
    class Toy(HashedEmbedder):
        def __init__(self, model, device):
            super().__init__()
            self.given = (model, device)

    registry.EMBEDDERS.register("toy", Toy)
    yield Toy
    registry.EMBEDDERS.unregister("toy")


def test_a_registered_backend_is_selected_by_name(toy, tmp_path):
    made = registry.create_embeddings(
        "toy", registry.EmbeddingOptions(model="m", models_dir=tmp_path, device="d")
    )
    assert isinstance(made, toy)
    assert made.given == ("m", "d")
    options = registry.EmbeddingOptions(models_dir=tmp_path)
    assert registry.embed_fingerprint("toy", options) == made.fingerprint


def test_what_is_no_embedder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="Embedder port: count, embed_documents, embed_queries"):
        registry.create_embeddings(
            "builtins:object", registry.EmbeddingOptions(models_dir=tmp_path)
        )


def test_unknown_names_and_models(tmp_path):
    with pytest.raises(UnknownSetting, match="sentence_transformers"):
        registry.create_embeddings("nothing", registry.EmbeddingOptions(models_dir=tmp_path))
    for function in (registry.create_embeddings, registry.embed_fingerprint):  # it is not here
        with pytest.raises(WeightsMissing, match="BAAI"):
            function(
                "onnx",
                registry.EmbeddingOptions(model="BAAI/bge-small-en-v1.5", models_dir=tmp_path),
            )


class Lengths(EmbeddingBackend):
    def embed_documents(self, texts):
        return np.array([[len(text), text.count(" "), 1.0] for text in texts])


def test_one_method_makes_a_backend(tmp_path):
    made = Lengths()
    assert (made.name, made.dimension, made.device) == ("Lengths", 3, "cpu")
    rows = made.embed_documents(["a", "a b", ""])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    assert np.array_equal(made.embed_queries(["a b"])[0], rows[1])
    path = f"{__name__}:Lengths"
    options = registry.EmbeddingOptions(models_dir=tmp_path)
    assert registry.embed_fingerprint(path, options) == made.fingerprint


def test_a_fingerprint_follows_the_version_and_the_class():
    class Later(Lengths):
        version = 2

    class Renamed(Lengths):
        name = "other"

    found = {made().fingerprint for made in (Lengths, Later, Renamed)}
    assert len(found) == 3


def test_what_a_method_inherits_is_not_wrapped_twice():
    class Child(Lengths):
        pass

    assert np.array_equal(Child().embed_documents(["a b"]), Lengths().embed_documents(["a b"]))


@pytest.mark.parametrize("bad", [[1.0, 2.0], [[1.0], [2.0]], [["x"]], None, [[float("nan"), 1.0]]])
def test_what_is_no_vector_is_refused(bad):
    class Bad(EmbeddingBackend):
        def embed_documents(self, texts):
            return bad

    with pytest.raises(EmbeddingFailed):
        Bad().embed_documents(["a"])


def test_a_class_without_the_method_cannot_be_made():
    class Nothing(EmbeddingBackend):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()
