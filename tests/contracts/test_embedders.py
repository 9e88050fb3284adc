"""One contract for every embedder: the laws of `ports.Embedder`."""

import random

import numpy as np
import pytest

from ragstream_core.models.embedders import registry, weights
from ragstream_core.models.embedders.base import EmbeddingBackend

TEXTS = [
    "Hybrid retrieval mixes BM25 with dense vectors.",
    "",
    "a",
    "Ein Satz mit Umlauten: äöüß, 漢字 and 👩‍👩‍👧.",
    "lone surrogate \ud800 and a zero byte \x00",
    "word " * 120,
    "long text, " * 110,  # more than one window
]


class Vowels(EmbeddingBackend):
    """What a person writes: one method, rows of any length, nothing for the empty text."""

    def embed_documents(self, texts):
        return [[text.count(vowel) for vowel in "aeiou"] for text in texts]


BACKENDS = ["onnx", "sentence_transformers", "fastembed", "hashed", "own"]


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request):
    if request.param == "fastembed":
        pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
    if request.param != "own":
        yield request.param
        return
    registry.EMBEDDERS.register("own", Vowels)
    yield "own"
    registry.EMBEDDERS.unregister("own")


@pytest.fixture(scope="module")
def weights_dir(models_dir, onnx_embedder, tmp_path_factory):
    """The tests' models, and the default one laid out as FastEmbed's export of it."""
    root = tmp_path_factory.mktemp("models")
    for path in models_dir.iterdir():
        (root / path.name).symlink_to(path.resolve())
    source = root / "Qdrant" / "all-MiniLM-L6-v2-onnx"
    source.mkdir(parents=True)
    (source / "model.onnx").symlink_to(
        models_dir.resolve() / onnx_embedder.fingerprint / "model.onnx"
    )
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (source / name).symlink_to(weights.find_default(models_dir) / name)
    return root


@pytest.fixture(scope="module")
def embedder(backend, weights_dir):
    return registry.create_embeddings(
        backend, registry.EmbeddingOptions(models_dir=weights_dir, device="cpu", workers=2)
    )


@pytest.fixture(scope="module")
def vectors(embedder):
    return embedder.embed_documents(TEXTS)


def test_rows_are_float32_unit_vectors(embedder, vectors):
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1.0).max() <= 1e-6


def test_no_texts_give_no_rows(embedder):
    assert embedder.embed_documents([]).shape == (0, embedder.dimension)
    assert embedder.token_vectors([]) == []


def test_bits_do_not_depend_on_order_or_batch(embedder, vectors):
    order = list(range(len(TEXTS)))
    random.Random(7).shuffle(order)
    shuffled = embedder.embed_documents([TEXTS[i] for i in order])
    assert np.array_equal(shuffled, vectors[order])
    single = np.vstack([embedder.embed_documents([text]) for text in TEXTS])
    assert np.array_equal(single, vectors)


def test_bits_do_not_depend_on_workers(backend, weights_dir, vectors):
    for workers in (1, 3):
        other = registry.create_embeddings(
            backend,
            registry.EmbeddingOptions(models_dir=weights_dir, device="cpu", workers=workers),
        )
        assert np.array_equal(other.embed_documents(TEXTS), vectors)


def test_nothing_is_truncated(embedder):
    body = "The committee met again on the second day. " * 60
    plain, changed = embedder.embed_documents([body, body + "Zebras graze in the savannah."])
    assert embedder.count(body) > embedder.window
    assert not np.array_equal(plain, changed)
    assert embedder.truncated_inputs == 0


def test_token_vectors_are_float16_unit_rows_one_a_token(embedder):
    for text, rows in zip(TEXTS, embedder.token_vectors(TEXTS), strict=True):
        assert rows.dtype == np.float16
        assert rows.shape == (embedder.count(text), embedder.dimension)
        if len(rows):
            lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
            assert np.abs(lengths - 1.0).max() < 2e-3


def test_token_offsets_agree_with_the_count(embedder):
    for text in TEXTS:
        offsets = embedder.token_offsets(text)
        assert len(offsets) == embedder.count(text)
        assert all(0 <= start <= end <= len(text) for start, end in offsets)


def test_progress_ends_with_all(embedder):
    seen: list[tuple[int, int]] = []
    embedder.embed_documents(TEXTS[:3], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3, 3)
    assert seen == sorted(seen)


def test_light_fingerprint_is_the_real_one(backend, embedder, weights_dir):
    light = registry.embed_fingerprint(backend, registry.EmbeddingOptions(models_dir=weights_dir))
    assert light == embedder.fingerprint
    assert len(light) == 64


def test_backends_never_share_a_fingerprint(weights_dir):
    pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
    names = ["onnx", "sentence_transformers", "fastembed", "hashed"]
    options = registry.EmbeddingOptions(models_dir=weights_dir)
    assert len({registry.embed_fingerprint(name, options) for name in names}) == 4


@pytest.mark.parametrize("other", ["sentence_transformers", "fastembed"])
def test_onnx_is_the_same_model(onnx_embedder, weights_dir, other):
    if other == "fastembed":
        pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
    theirs = registry.create_embeddings(
        other, registry.EmbeddingOptions(models_dir=weights_dir, device="cpu")
    )
    same = theirs.window == onnx_embedder.window  # else the windows of long texts differ
    texts = [text for text in TEXTS if same or theirs.count(text) <= onnx_embedder.window]
    difference = onnx_embedder.embed_documents(texts) - theirs.embed_documents(texts)
    assert np.abs(difference).max() <= 1e-5
