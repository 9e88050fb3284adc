"""`ragstream index publish` and `pull` on the command line."""

import json

import pytest

from ragstream_app.cli.main import main
from tests.workspaces import write_docs


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command over a data root; return its exit code and what it printed."""
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")

    def call(root, *words):
        capsys.readouterr()
        code = main(["--data", str(tmp_path / root), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_publish_here_and_pull_there(run, tmp_path):
    write_docs(tmp_path / "here")
    (tmp_path / "there").mkdir()
    place = str(tmp_path / "place")
    assert run("here", "index", "publish", "demo", place)[0] == 1
    assert run("here", "ingest", "demo")[0] == 0
    code, out, err = run("here", "index", "publish", "demo", place)
    assert code == 0 and "generation 1" in out and f"ragstream index pull {place}" in err

    code, _, err = run("there", "index", "pull")
    assert code == 2 and "ragstream index pull PLACE" in err
    code, out, err = run("there", "index", "pull", place)
    assert code == 0 and "blocks fetched" in out and "ragstream prompt -p demo" in err
    assert "up to date" in run("there", "index", "pull")[1]
    code, out, _ = run("there", "index", "pull", "demo", "--json")
    assert code == 0 and json.loads(out)[0]["changed"] is False
    code, out, _ = run("there", "search", "project lock", "--json")
    assert code == 0 and json.loads(out)[0]["source"] == "catalog.md"
    assert f"pulled from {place}" in run("there", "project", "list")[1]
    assert run("there", "status")[0] == 0


def test_what_is_pulled_is_ingested_nowhere_else(run, tmp_path):
    write_docs(tmp_path / "here")
    (tmp_path / "there").mkdir()
    place = str(tmp_path / "place")
    run("here", "ingest", "demo")
    run("here", "index", "publish", "demo", place)
    run("there", "index", "pull", place)
    code, _, err = run("there", "ingest", "demo")
    assert code == 3 and "made elsewhere" in err and "ragstream index pull demo" in err
    code, _, err = run("there", "ingest")
    assert code == 2 and "is pulled" in err
    code, _, err = run("here", "index", "pull", place)
    assert code == 3 and "--name" in err
    code, out, _ = run("here", "index", "pull", place, "--name", "copy", "--json")
    assert code == 0 and json.loads(out)[0]["project"] == "copy"
    assert run("here", "project", "remove", "copy", "--yes")[0] == 0


def test_one_that_cannot_be_pulled_stops_no_other(run, tmp_path):
    write_docs(tmp_path / "here")
    (tmp_path / "there").mkdir()
    run("here", "ingest", "demo")
    for name in ("a", "b"):
        run("here", "index", "publish", "demo", str(tmp_path / name))
        run("there", "index", "pull", str(tmp_path / name), "--name", name)
    code, _, err = run("there", "index", "pull", "--name", "c")
    assert code == 2 and "ragstream index pull PLACE --name c" in err
    (tmp_path / "a" / "newest").unlink()
    code, out, err = run("there", "index", "pull")
    assert code == 2 and "b: generation 1" in out and "nothing is published" in err
    code, out, _ = run("there", "index", "pull", "--json")
    assert code == 2 and [row["project"] for row in json.loads(out)] == ["a", "b"]


def test_what_cares_for_all_passes_what_is_pulled_by(run, tmp_path):
    write_docs(tmp_path / "here")
    place = str(tmp_path / "place")
    run("here", "ingest", "demo")
    run("here", "index", "publish", "demo", place)
    run("here", "index", "pull", place, "--name", "theirs")
    code, out, _ = run("here", "index", "gc")
    assert code == 0 and "demo:" in out and "theirs" not in out
    assert run("here", "index", "gc", "theirs")[0] == 3
    code, out, err = run("here", "backup", str(tmp_path / "copy"))
    assert code == 0 and "demo: generation 1" in out and "theirs is made elsewhere" in err


def test_what_needs_the_documents_says_where_they_are(run, tmp_path):
    write_docs(tmp_path / "here")
    (tmp_path / "there").mkdir()
    place = str(tmp_path / "place")
    run("here", "ingest", "demo")
    run("here", "index", "publish", "demo", place)
    run("there", "index", "pull", place)
    for option in ("--file", "--diff"):
        code, _, err = run("there", "prompt", "What is it?", "-p", "demo", option, "catalog.md")
        assert code == 2 and "where its index is made" in err
    code, _, err = run("there", "project", "sync", "demo")
    assert code == 3 and "ragstream index pull demo" in err


def test_a_kept_prompt_holds_nothing_that_is_made_elsewhere(run, tmp_path):
    write_docs(tmp_path / "here")
    (tmp_path / "there").mkdir()
    place = str(tmp_path / "place")
    run("here", "ingest", "demo")
    run("here", "index", "publish", "demo", place)
    run("there", "index", "pull", place)
    code, out, _ = run("there", "prompt", "What is the lock?", "-p", "demo", "--json")
    key = json.loads(out)["prompt_key"]
    code, out, err = run("there", "keep", key)
    assert code == 0 and "with it" not in out and "dropped where its index is made" in err
    code, _, err = run("there", "project", "remove", "demo", "--yes")
    assert code == 3 and "ragstream keep KEY --undo" in err
    assert run("there", "keep", key, "--undo")[0] == 0
    assert run("there", "project", "remove", "demo", "--yes", "--keep-index")[0] == 3
    assert run("there", "project", "remove", "demo", "--yes")[0] == 0
