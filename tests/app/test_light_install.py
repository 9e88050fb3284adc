"""A base install with the model's weights: no package of another extra is there to be imported."""

import json
import os
import subprocess
import sys

import pytest

from ragstream_core.platform import extras
from tests.workspaces import QUESTION, write_docs

ABSENT = sorted(
    {module for extra in extras.EXTRAS if extra != "offline" for module in extras.EXTRAS[extra]}
    | {"transformers", "scipy", "kubernetes", "torchgen"}
)
EVAL = ["eval", "retrieval", "--corpus", "c.jsonl", "--queries", "q.jsonl", "--qrels", "r.tsv"]
RUN = f"""
import sys
for name in {ABSENT!r}:
    sys.modules[name] = None
from ragstream_app.cli.main import main
raise SystemExit(main(sys.argv[1:]))
"""


def run(root, *words, **settings):
    """Run a command without the packages of other extras, over the default settings."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RAGSTREAM_", "MEMORY_"))}
    env |= settings
    command = [sys.executable, "-c", RUN, "--data", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=root, env=env, check=False)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A data root with an ingested project; the ONNX model was made there, without torch."""
    folder = tmp_path_factory.mktemp("light")
    write_docs(folder)
    (folder / "c.jsonl").write_text('{"id": "a", "text": "One lock for one writer."}\n')
    (folder / "q.jsonl").write_text('{"id": "q", "text": "Which lock?"}\n')
    (folder / "r.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    done = run(folder, "ingest", "demo")
    assert done.returncode == 0, done.stderr
    assert "chroma" not in done.stdout + done.stderr
    return folder


def test_prompt_and_replay_need_only_the_weights(root):
    asked = run(root, "prompt", QUESTION, "-p", "demo", "--json")
    assert asked.returncode == 0, asked.stderr
    answer = json.loads(asked.stdout)
    assert "One writer holds the project lock" in answer["super_prompt"]
    again = run(root, "replay", answer["prompt_key"])
    assert again.returncode == 0, again.stderr
    assert "identical" in again.stdout


@pytest.fixture
def cross_encoder(tmp_path):
    """A folder that looks like a cross-encoder's."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("torch", ["prompt", "x", "-p", "demo", "--set", "rerank.backend=cross_encoder"]),
        ("chroma", ["prompt", "x", "-p", "demo", "--set", "retrieval.store=chroma"]),
        ("faiss", ["prompt", "x", "-p", "demo", "--set", "retrieval.store=faiss"]),
        ("faiss", ["prompt", "x", "-p", "demo", "--set", "retrieval.store=faiss_ivf"]),
        ("maps", ["index", "tsne", "demo"]),
        ("eval", EVAL),
    ],
)
def test_what_is_missing_names_its_extra_and_is_no_traceback(root, extra, words, cross_encoder):
    done = run(root, *words, RAGSTREAM_RERANK__MODEL=str(cross_encoder))
    assert done.returncode != 0, done.stdout
    assert f"pip install 'ragstream[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr and "ImportError" not in done.stderr


def test_doctor_shows_each_extra_with_its_command(root, cross_encoder):
    done = run(root, "doctor", "--json", RAGSTREAM_RERANK__MODEL=str(cross_encoder))
    checks = {row["name"]: row for row in json.loads(done.stdout)}
    for extra in extras.EXTRAS:
        if extra != "offline":
            assert checks[f"extra {extra}"]["next_step"] == f"pip install 'ragstream[{extra}]'"
    assert checks["extras"]["detail"].startswith("offline")
    assert checks["reranker"]["level"] == "warn", "its weights are here, and nothing runs them"
    assert checks["reranker"]["next_step"] == "pip install 'ragstream[torch]'"


def test_a_collection_that_is_asked_for_and_cannot_be_made_is_a_warning(root):
    done = run(root, "ingest", "demo", "--rebuild", RAGSTREAM_VECTOR_STORE__COLLECTION="true")
    assert "ragstream[chroma]" in done.stdout + done.stderr
