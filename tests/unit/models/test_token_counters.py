"""Which counter counts: the model's own where its file is here and whole, else an estimate."""

import base64
import hashlib
from dataclasses import replace

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from ragstream_core.errors import InputUnavailable, WeightsMismatch, WeightsMissing
from ragstream_core.models import token_counters
from ragstream_core.models.token_counters import (
    counter_for,
    counter_named,
    encoding_of,
    resolved_counter,
)
from ragstream_core.settings.prompts import PromptConfig

PAIRS = (b"th", b"the", b" t", b"in")


@pytest.fixture
def ranks():
    """A tiny encoding: every byte, and four pairs."""
    tokens = [*(bytes([n]) for n in range(256)), *PAIRS]
    lines = (base64.b64encode(token) + b" %d" % n for n, token in enumerate(tokens))
    return b"\n".join(lines) + b"\n"


@pytest.fixture
def models(tmp_path, ranks, monkeypatch):
    """`<data>/models` with the tiny encoding under the name of a real one."""
    real = token_counters.TOKEN_FILES["o200k_base"]
    tiny = replace(real, sha256=hashlib.sha256(ranks).hexdigest(), size=len(ranks))
    monkeypatch.setitem(token_counters.TOKEN_FILES, "o200k_base", tiny)
    token_counters._open_encoding.cache_clear()
    folder = token_counters.token_folder(tmp_path)
    folder.mkdir()
    (folder / "o200k_base.tiktoken").write_bytes(ranks)
    return tmp_path


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("openai/gpt-5", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("claude-sonnet-5", ""),
        ("llama3.2:3b", ""),
        ("olmo-2", ""),
        ("", ""),
    ],
)
def test_a_model_is_known_by_its_family(model, encoding):
    assert encoding_of(model) == encoding


def test_an_encoding_counts_tokens(models):
    counter = counter_for(PromptConfig(), models)
    assert counter.name.startswith("tiktoken o200k_base (sha256 ")
    assert counter.count("the") == 1
    assert counter.count("thin") == 2
    assert counter.count("<|endoftext|>") > 1  # a text that looks like a special token is text
    assert counter.count("") == 0


def test_without_a_file_tokens_are_estimated(tmp_path):
    found = resolved_counter(PromptConfig(), tmp_path)
    assert (found.name, found.note) == ("estimate (o200k_base, table 2)", "")
    older = resolved_counter(PromptConfig(model_target="gpt-4"), tmp_path)
    assert older.name == "estimate (cl100k_base, table 2)"


def test_a_model_with_another_tokenizer_is_not_counted_with_a_wrong_one(models):
    found = resolved_counter(PromptConfig(model_target="claude-sonnet-5"), models)
    assert found.name == "estimate (o200k_base, table 2)"


def test_a_setting_chooses_the_counter(models):
    estimate = resolved_counter(PromptConfig(token_counter="estimate"), models)
    assert estimate.name == "estimate (o200k_base, table 2)"
    fixed = counter_for(PromptConfig(chars_per_token=3.5), models)
    assert (fixed.name, fixed.count("x" * 8)) == ("estimate (3.5 characters a token)", 3)
    with pytest.raises(WeightsMissing, match=r"cl100k_base\.tiktoken") as caught:
        resolved_counter(PromptConfig(token_counter="cl100k_base"), models)
    assert "ragstream models pull cl100k_base" in caught.value.hint


@pytest.mark.parametrize("damage", [b"", b"<html>not here</html>", None])
def test_a_damaged_file_is_named_and_auto_estimates_with_a_note(models, ranks, damage):
    path = token_counters.token_folder(models) / "o200k_base.tiktoken"
    path.write_bytes(ranks[:-9] if damage is None else damage)
    with pytest.raises(WeightsMismatch, match=r"o200k_base\.tiktoken is damaged") as caught:
        resolved_counter(PromptConfig(token_counter="o200k_base"), models)
    assert "ragstream models pull o200k_base" in caught.value.hint
    found = resolved_counter(PromptConfig(), models)
    assert found.name == "estimate (o200k_base, table 2)"
    assert str(path) in found.note
    assert "ragstream models pull o200k_base" in found.note


def test_a_file_that_is_no_token_file_is_an_error_even_under_its_sha256(models, monkeypatch):
    path = token_counters.token_folder(models) / "o200k_base.tiktoken"
    path.write_bytes(b"not ranks\n")
    wrong = replace(
        token_counters.TOKEN_FILES["o200k_base"],
        sha256=hashlib.sha256(b"not ranks\n").hexdigest(),
    )
    monkeypatch.setitem(token_counters.TOKEN_FILES, "o200k_base", wrong)
    with pytest.raises(WeightsMismatch, match="not a token file"):
        counter_for(PromptConfig(token_counter="o200k_base"), models).count("a")


def test_a_pinned_counter_is_had_again_or_refused(models):
    name = resolved_counter(PromptConfig(), models).name
    assert counter_named(name, models).count("the") == 1
    assert counter_named("estimate (4 characters a token)", models).count("x" * 9) == 3
    older = "estimate (cl100k_base, table 2)"
    assert counter_named(older, models).name == older
    (token_counters.token_folder(models) / "o200k_base.tiktoken").unlink()
    with pytest.raises(InputUnavailable, match="counted with tiktoken o200k_base") as caught:
        counter_named(name, models)
    assert "models pull" in caught.value.hint
    for other in ("estimate (o200k_base, table 99)", "tokenizer x (sha256 0)", "abacus"):
        with pytest.raises(InputUnavailable):
            counter_named(other, models)


def test_a_models_own_tokenizer_comes_first(tmp_path):
    folder = tmp_path / "acme" / "words"
    folder.mkdir(parents=True)
    tokenizer = Tokenizer(WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    chosen = PromptConfig(model_target="acme/words")
    counter = counter_for(chosen, tmp_path)
    assert counter.name.startswith("tokenizer acme/words (sha256 ")
    assert counter.count("a b c d") == 4
    assert counter_named(counter.name, tmp_path).count("a b") == 2
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InputUnavailable):
        counter_named(counter.name, tmp_path)


def test_a_model_name_leads_nowhere_else(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    inner = tmp_path / "models"
    inner.mkdir()
    for name in ("..", "../models/..", str(tmp_path)):
        found = resolved_counter(PromptConfig(model_target=name), inner)
        assert found.name.startswith("estimate")
