"""Plumbing only: the model is tiny and random."""

import shutil

import pytest

from ragstream_core.errors import UsageError, WeightsMissing
from ragstream_core.models.rerankers import (
    CrossEncoderReranker,
    find_cross_encoder,
)
from ragstream_core.text.tokenizer import text_windows


def build(folder, *, labels=1, kin="Bert"):
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij", "wing", "flow"]
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    processor = getattr(processors, f"{kin}Processing")
    tokenizer.post_processor = processor(("[SEP]", 3), ("[CLS]", 2))
    special = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    }
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=32, **special
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=32, num_labels=labels, initializer_range=1.0,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder, safe_serialization=True)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    build(root / "org" / "tiny")
    build(root / "org" / "three", labels=3)
    return root


@pytest.fixture(scope="module")
def reranker(models):
    folder = find_cross_encoder("org/tiny", models)
    return CrossEncoderReranker(folder, model="org/tiny", device="cpu")


def test_scores_do_not_depend_on_neighbours(reranker):
    passages = ["a b c", "wing flow", "d", "a b c " * 3]
    scores = reranker.score("wing a", passages)
    assert len(set(scores)) == len(passages)
    assert reranker.score("wing a", passages[::-1]) == scores[::-1]
    assert [reranker.score("wing a", [p])[0] for p in passages] == scores
    assert scores == [round(score, 6) for score in scores]
    assert reranker.score("wing a", []) == []


def test_a_long_passage_has_the_score_of_its_best_window(reranker):
    for long in ("a b " * 60 + "wing flow j " * 10, "wing flow j " * 10 + "a b " * 60):
        windows = text_windows(long, reranker._load()[1].offsets(long), 28)
        assert len(windows) == 6
        scores = reranker.score("wing", windows)
        assert len(set(scores)) > 1
        assert reranker.score("wing", [long]) == [max(scores)]


@pytest.mark.parametrize("kin", ["Bert", "Roberta"])
def test_no_token_of_a_passage_is_cut_away(kin, tmp_path):
    reranker = CrossEncoderReranker(build(tmp_path, kin=kin), device="cpu")
    model, tokenizer, length = reranker._load()
    room = length - 3 - 1  # beside the special tokens and "wing"
    passage = "a b c " * room
    windows = text_windows(passage, tokenizer.offsets(passage), room)
    pairs = [model.tokenizer("wing", window)["input_ids"] for window in windows]
    assert {len(pair) for pair in pairs} == {32}
    assert reranker.score("wing", [passage]) == [max(reranker.score("wing", windows))]
    kept = [i for pair in pairs for i in pair if i in tokenizer.ids("a b c")]
    assert kept == tokenizer.ids(passage)


def test_one_in_the_local_hugging_face_cache_is_found(models, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    kept, revision = tmp_path / "models--org--tiny", "0" * 40
    assert find_cross_encoder("org/tiny", tmp_path / "none") is None
    shutil.copytree(models / "org" / "tiny", kept / "snapshots" / revision)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(revision)
    assert find_cross_encoder("org/tiny", tmp_path / "none") == kept / "snapshots" / revision


def test_names_and_absence(models, reranker, tmp_path):
    assert reranker.name == "cross_encoder:org/tiny"
    assert find_cross_encoder("org/absent", models) is None
    with pytest.raises(WeightsMissing):
        CrossEncoderReranker(tmp_path).score("q", ["p"])


def test_a_model_with_several_outputs_is_no_reranker(models):
    with pytest.raises(UsageError, match="3 outputs"):
        CrossEncoderReranker(models / "org" / "three", device="cpu").score("q", ["p"])
