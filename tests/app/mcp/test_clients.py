"""What clients' files say of the server: everything else in them stays, or nothing is changed."""

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_app.cli.main import main
from ragstream_app.mcp.clients import CLIENTS, snippet, usual_file
from tests.workspaces import write_docs

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(TEXTS, min_size=1, max_size=4), st.sampled_from(sorted(CLIENTS)))
def test_what_is_printed_is_read_as_the_command_it_is(command, name):
    client = CLIENTS[name]
    text = snippet(client, "ragstream", client.entry(command))
    parsed = tomllib.loads(text) if client.is_toml else json.loads(text)
    entry = parsed[client.section]["ragstream"]
    assert [entry["command"], *entry["args"]] == command


@pytest.fixture
def here(tmp_path, monkeypatch):
    write_docs(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def install(*words):
    return main(["mcp", "install", *words])


@pytest.mark.parametrize("client", CLIENTS)
def test_it_is_printed_and_nothing_is_written(here, capsys, client):
    assert install(client, "-p", "demo") == 0
    said = capsys.readouterr()
    parsed = tomllib.loads(said.out) if client == "codex" else json.loads(said.out)
    entry = parsed[CLIENTS[client].section]["ragstream"]
    assert entry["args"][-5:] == ["--data", str(here / "data"), "mcp", "--project", "demo"]
    assert Path(entry["command"]).is_absolute()
    assert str(usual_file(client, here)) in said.err
    assert sorted(path.name for path in here.iterdir()) == ["data"]


def test_the_write_of_before_says_what_to_do(here, capsys):
    assert install("claude-code", "--write") == 2
    assert "ragstream mcp install claude-code" in capsys.readouterr().err
    assert sorted(path.name for path in here.iterdir()) == ["data"]


def test_the_configuration_in_use_is_named_and_the_environment_told_of(here, capsys, monkeypatch):
    (here / "ragstream.yaml").write_text("retrieval:\n  top_k: 9\n")
    monkeypatch.setenv("RAGSTREAM_RETRIEVAL__DEPTH", "9")
    assert main(["--config", "ragstream.yaml", "mcp", "install", "cursor"]) == 0
    said = capsys.readouterr()
    args = json.loads(said.out)["mcpServers"]["ragstream"]["args"]
    assert args[2:4] == ["--config", str(here / "ragstream.yaml")]
    assert "retrieval.depth" in said.err


@pytest.mark.parametrize("below", [".", "src/deep"])
def test_beside_a_project_its_folder_and_its_settings_are_meant(
    tmp_path, capsys, monkeypatch, below
):
    monkeypatch.delenv("RAGSTREAM_DATA_DIR", raising=False)
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "ragstream.yaml").write_text("mcp:\n  allow_remember: true\n")
    assert main(["init", str(tmp_path)]) == 0
    monkeypatch.chdir(tmp_path / below)
    capsys.readouterr()
    assert install("vscode") == 0
    said = capsys.readouterr()
    assert str(tmp_path / ".vscode" / "mcp.json") in said.err
    made = json.loads(said.out)
    assert made["servers"]["ragstream"]["args"] == [
        *("--data", str(tmp_path / ".ragstream"), "mcp"),
    ], "the root leads to its settings; named, they would count without being confirmed"


def test_a_data_root_without_projects_is_told_of(here, capsys):
    assert main(["--data", str(here / "nix"), "mcp", "install", "cursor"]) == 0
    assert f"no projects under {here / 'nix'}" in capsys.readouterr().err
    assert install("cursor") == 0
    assert "no projects" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [["nix"], ["cursor", "--name", "a b"], ["cursor", "-p", "nix"]])
def test_wrong_words_are_refused(here, capsys, words):
    assert install(*words) == 2
    assert "Traceback" not in capsys.readouterr().err
