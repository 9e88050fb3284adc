"""`ragstream models` against an endpoint on loopback and the files on this machine."""

import json
import shutil
import socket
from http.server import BaseHTTPRequestHandler

import pytest

from ragstream_core.models.embedders import weights
from tests.hub_server import HubServer
from tests.processes import LoopbackServer
from tests.unit.models.embedders.test_fastembed import SOURCE, tiny_export
from tests.unit.models.embedders.test_prefixes import BGE
from tests.unit.models.rerankers.test_cross_encoder import build


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        data = json.dumps({"data": [{"id": name} for name in self.server.names]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def names(monkeypatch, data):
    """The models that the endpoint has."""
    with LoopbackServer(Handler) as server:
        server.names = ["nomic-embed-text:latest", "llama3.2:latest", "b\x1b[31m"]
        monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", f"{server.url}/v1")
        yield server.names


@pytest.fixture
def nobody(monkeypatch, data):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", url)
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BUDGET_S", "0.3")


def test_list_marks_the_model_that_is_taken(names, run):
    code, out, err = run("models", "list")
    assert code == 0, err
    assert "* llama3.2:latest  free\n" in out and "  nomic-embed-text" in out and "\x1b" not in out
    assert "next: " not in out
    found = json.loads(run("models", "list", "--json")[1])
    assert (found["wanted"], found["choice"]) == ("llama3.2", "llama3.2:latest")
    assert [row["name"] for row in found["models"]] == sorted(names)
    assert all(row["usd_per_mtok"] == [0.0, 0.0] for row in found["models"])


def test_list_shows_prices_and_what_to_do_where_the_model_is_not_there(names, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__INPUT_USD_PER_MTOK", "2.5")
    monkeypatch.setenv("RAGSTREAM_PROVIDER__OUTPUT_USD_PER_MTOK", "10")
    names[:] = ["llama3.2:1b", "zeta"]
    out = run("models", "list")[1]
    assert "* llama3.2:1b  $2.5 / $10 a million tokens\n" in out
    assert "next: set provider.model to one of these; llama3.2 is not among them" in out
    assert "ollama pull llama3.2" in run("models", "pull")[1]
    names.clear()
    code, out, _ = run("models", "list")
    assert code == 0 and "next: ragstream models pull" in out and "one of these" not in out


def test_list_says_what_to_do_where_nobody_answers(nobody, run):
    code, out, err = run("models", "list")
    assert code == 1 and not out
    assert "connection refused" in err and "ollama serve" in err
    assert json.loads(run("models", "list", "--json")[1])["error"]["type"] == "ChatUnreachable"


def test_pull_names_the_command_for_what_is_missing(names, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "qwen3")
    code, out, _ = run("models", "pull")
    assert code == 1 and "ollama pull qwen3" in out
    monkeypatch.setenv("RAGSTREAM_PROVIDER__MODEL", "llama3.2")
    assert run("models", "pull")[:2] == (0, "nothing is missing\n")


def test_pull_without_an_endpoint_names_both_commands(nobody, run):
    code, out, _ = run("models", "pull", "--json")
    commands = [row["command"] for row in json.loads(out)]
    assert code == 1 and any("ollama serve, then ollama pull llama3.2" in c for c in commands)


def test_verify_finds_a_changed_file(data, run, monkeypatch, tmp_path):
    try:
        real = weights.find_default(tmp_path)
    except weights.WeightsMissing:
        pytest.skip("the weights are not on this machine")
    folder = tmp_path / "model"
    shutil.copytree(real, folder)
    monkeypatch.setattr(weights, "find_default", lambda models_dir: folder)
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "onnx")
    checks = {row["name"]: row for row in json.loads(run("models", "verify", "--json")[1])}
    assert checks["embedding model files"]["level"] == "ok"
    vocabulary = folder / "vocab.txt"
    vocabulary.write_bytes(vocabulary.read_bytes()[:-1] + b"x")
    code, out, _ = run("models", "verify")
    assert code == 3 and "vocab.txt" in out and "sha256" in out


@pytest.fixture
def hub(data, monkeypatch, tmp_path):
    """A hub that has a tiny random cross-encoder."""
    folder = build(tmp_path / "source")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    with HubServer(files) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("RAGSTREAM_RERANK__MODEL", "acme/tiny")
        yield server


def test_a_pulled_cross_encoder_is_the_one_that_ranks(names, hub, run, indexed, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_RERANK__BACKEND", "auto")
    assert "ragstream models pull acme/tiny" in run("models", "pull")[1]
    code, _, err = run("models", "pull", "reranker", "--yes")
    assert code == 0, err
    assert "acme/tiny at c0ffee" in err and "licence apache-2.0" in err
    checks = {row["name"]: row for row in json.loads(run("models", "verify", "--json")[1])}
    assert checks["reranker"]["detail"].startswith("acme/tiny, sha256")
    assert "files have the sha256" in checks["reranker files"]["detail"]
    assert run("prompt", "How is the lock turned on?", "-p", "manual")[0] == 0
    (record,) = (indexed / "prompts").rglob("record.json")
    assert json.loads(record.read_text())["inputs"]["models"]["reranker"] == "acme/tiny"
    weights_file = indexed / "models" / "acme" / "tiny" / "model.safetensors"
    weights_file.write_bytes(weights_file.read_bytes()[:-1] + b"x")
    code, out, _ = run("models", "verify")
    assert code == 3 and "model.safetensors differs from what was pulled" in out


def test_a_model_of_fastembed_is_pulled_from_where_its_export_lies(hub, run, data, monkeypatch):
    pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "fastembed")
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__MODEL", BGE)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(data / "no cache"))
    (check,) = (row for row in json.loads(run("doctor", "--json")[1]) if "FastEmbed" in str(row))
    assert check["level"] == "fail"
    assert f"ragstream models pull {SOURCE}" in check["next_step"]
    hub.files = tiny_export(data.parent / "export")
    code, _, err = run("models", "pull", "embedder", "--yes")
    assert code == 0, err
    checks = {row["name"]: row for row in json.loads(run("doctor", "--json")[1])}
    assert checks["embedding model"]["level"] == "ok"
    assert f"{SOURCE}, by FastEmbed on cpu" in checks["embedding model"]["detail"]


def test_nothing_is_fetched_without_consent(names, hub, run, data):
    code, _, err = run("models", "pull", "acme/tiny")
    assert code == 2 and "there is no terminal to confirm on" in err and "say --yes" in err
    assert not (data / "models" / "acme").exists()
    assert not any("resolve" in path for path, _ in hub.seen)


def test_a_scripted_model_needs_nothing(data, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BACKEND", "scripted")
    code, out, _ = run("models", "list")
    assert code == 0 and "* scripted" in out
    assert "ollama" not in run("models", "pull")[1]


def test_a_key_file_open_to_others_is_named_by_doctor(data, run, monkeypatch, tmp_path):
    path = tmp_path / "key"
    path.write_text("sk-canary")
    path.chmod(0o644)
    monkeypatch.setenv("RAGSTREAM_PROVIDER__API_KEY_FILE", str(path))
    checks = {row["name"]: row for row in json.loads(run("doctor", "--json")[1])}
    assert checks["provider"]["level"] == "fail" and "chmod 600" in checks["provider"]["next_step"]
    path.chmod(0o600)
    out = run("doctor", "--json")[1]
    assert "with a key" in out and "canary" not in out
