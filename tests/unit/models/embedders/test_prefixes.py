"""E5 and BGE by name: their prefixes reach the model, which is tiny and random: plumbing only."""

import shutil

import numpy as np
import pytest

from ragstream_core.models.embedders import fingerprints, registry
from ragstream_core.platform import files

PLAIN, E5, BGE = "org/plain", "intfloat/e5-small-v2", "BAAI/bge-small-en-v1.5"
BGE_WORDS = "represent this sentence for searching relevant passages"
TEXTS = ["a b c", "wing flow", "wing " * 70]


def test_the_files_of_a_model_are_hashed_once_a_process(tmp_path, monkeypatch):
    """Every prompt, each line of `status` and an ingest with nothing to do ask for the digest."""
    build(tmp_path / "model")
    hashed, real = [], files.file_sha256
    monkeypatch.setattr(files, "file_sha256", lambda path: hashed.append(path) or real(path))
    of = (str(tmp_path / "model"), tmp_path, fingerprints.TORCH_RUNTIME)
    first = fingerprints.model_fingerprint(*of)
    once = len(hashed)
    assert once
    assert fingerprints.model_fingerprint(*of) == first
    assert len(hashed) == once
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text() + " ")
    assert fingerprints.model_fingerprint(*of) != first


def build(folder):
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = [*special, *"abcdefghij:", "wing", "flow", "query", "passage", *BGE_WORDS.split()]
    vocabulary = {w: i for i, w in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special, strict=True))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64, **names
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=64, initializer_range=1.0,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder, safe_serialization=True)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    build(root / PLAIN)
    for name in (E5, BGE):
        shutil.copytree(root / PLAIN, root / name)
    return root


@pytest.fixture(scope="module")
def embedders(models):
    return {
        name: registry.create_embeddings(
            "sentence_transformers",
            registry.EmbeddingOptions(model=name, models_dir=models, device="cpu"),
        )
        for name in (PLAIN, E5, BGE)
    }


def written_out(embedders, prefix):
    """Return the short texts as the plain model sees them with the prefix written out."""
    return embedders[PLAIN].embed_documents([prefix + text for text in TEXTS[:2]])


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        (E5, "query: ", "passage: "),
        (BGE, "Represent this sentence for searching relevant passages: ", ""),
        (PLAIN, "", ""),
    ],
)
def test_prefixes_reach_the_model(embedders, name, query, passage):
    queries = embedders[name].embed_queries(TEXTS[:2])
    passages = embedders[name].embed_documents(TEXTS[:2])
    assert np.array_equal(queries, written_out(embedders, query))
    assert np.array_equal(passages, written_out(embedders, passage))
    assert np.array_equal(queries, passages) == (query == passage)


@pytest.mark.parametrize("name", [E5, BGE])
def test_every_window_of_a_long_text_has_its_prefix_and_fits(embedders, name):
    embedder = embedders[name]
    prefix = fingerprints.prefixes_of(name).query
    longest = 64 - 2 - embedder.count(prefix)
    assert embedder.window == longest
    (row,) = embedder.embed_queries([TEXTS[2]])
    assert embedder.truncated_inputs == 0
    count = embedder.count(TEXTS[2])
    pieces = -(-count // longest)
    sizes = [count // pieces + (i < count % pieces) for i in range(pieces)]
    parts = embedders[PLAIN].embed_documents([prefix + "wing " * size for size in sizes])
    mean = parts.astype(np.float64).mean(axis=0)
    assert np.allclose(row, mean / np.linalg.norm(mean), atol=1e-6)


def test_the_family_is_part_of_the_fingerprint_and_nothing_is_mixed(embedders):
    assert len({embedder.fingerprint for embedder in embedders.values()}) == 3
