"""`ragstream project add URL`, `project sync` and `ingest --sync` on the command line."""

import json

import pytest

from ragstream_app.cli.main import main
from tests.remote_servers import WebServer
from tests.workspaces import DOCS


@pytest.fixture
def web():
    with WebServer() as server:
        server.address = server.put({path: text.encode() for path, text in DOCS.items()})
        yield server


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command; return its exit code and what it printed."""
    monkeypatch.setenv("RAGSTREAM_EMBEDDINGS__BACKEND", "hashed")

    def call(*words):
        capsys.readouterr()
        code = main(["--data", str(tmp_path / "data"), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_add_sync_ingest_and_ask(run, web):
    code, out, err = run("project", "add", "guide", web.address)
    assert code == 0 and web.address in out and "nothing of it was fetched yet" in out
    assert "next: ragstream project sync guide" in err and web.seen == []

    code, out, err = run("ingest", "guide")
    assert code == 1 and "ragstream project sync guide" in err and web.seen == []

    code, out, _ = run("project", "sync", "guide", "--dry-run")
    assert code == 0 and "4 would be fetched" in out
    code, out, err = run("project", "sync", "guide")
    assert code == 0 and "4 fetched" in out and "next: ragstream ingest guide" in err
    code, out, _ = run("ingest", "guide")
    assert code == 0 and "generation 1" in out
    asked = len(web.seen)
    code, out, _ = run("search", "project lock", "-p", "guide", "--json")
    assert code == 0 and json.loads(out)[0]["source"] == "catalog.md" and len(web.seen) == asked


def test_ingest_with_sync_does_both_and_needs_a_name(run, web):
    run("project", "add", "guide", web.address)
    code, out, _ = run("ingest", "guide", "--sync", "--json")
    assert code == 0 and json.loads(out)["files"]["new"] == 4
    asked = len(web.seen)
    assert run("ingest")[0] == 0 and len(web.seen) == asked
    code, _, err = run("ingest", "--sync")
    assert code == 2 and "names of projects" in err


def test_what_could_not_be_had_is_named_and_the_code_says_so(run, web):
    run("project", "add", "guide", web.address)
    web.files["/docs/catalog.md"] = b"changed"
    web.files["/docs/SHA256SUMS"] += b"0" * 64 + b"  film.mp4\n" + b"0" * 64 + b"  ../up.md\n"
    code, out, _ = run("project", "sync", "guide")
    assert code == 1 and "3 fetched" in out and "failed: catalog.md: it does not have" in out
    assert "film.mp4: type not supported" in out and "../up.md: leads out" in out
    code, out, _ = run("project", "sync", "guide", "--json")
    told = json.loads(out)
    assert code == 1 and not told["complete"] and told["roots"][0]["unchanged"] == 3


@pytest.mark.parametrize("words", [("project", "sync", "one"), ("ingest", "one", "two", "--sync")])
def test_ctrl_c_contacts_no_further_address(run, web, monkeypatch, words):
    from ragstream_core.services import sync_project

    run("project", "add", "one", web.address, f"{web.url}/late/notes.md")
    run("project", "add", "two", web.address)
    asked = []

    def interrupted(workspace, project, root, *more):
        asked.append((project, root.label))
        raise KeyboardInterrupt

    monkeypatch.setattr(sync_project, "_sync_root", interrupted)
    code, _, err = run(*words)
    assert code == 130 and "interrupted" in err and asked == [("one", "docs")]


def test_a_place_that_lists_nothing_needs_a_yes(run, web):
    run("project", "add", "guide", web.address)
    run("project", "sync", "guide")
    web.put({})
    code, _, err = run("project", "sync", "guide")
    assert code == 3 and "lists nothing" in err and "--yes" in err
    code, out, _ = run("project", "sync", "guide", "--yes")
    assert code == 0 and "4 removed" in out


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("ftp://host/docs", 2, "not encrypted"),
        ("https://me:hunter2@host/a.md", 2, "holds a password"),
        ("s3://", 2, "no bucket"),
        ("https://host/docs/", 2, "names no file"),
    ],
)
def test_a_bad_address_is_one_clear_line(run, address, code, words):
    got, out, err = run("project", "add", "guide", address)
    assert got == code and words in err and "hunter2" not in out + err
    assert "Traceback" not in err and "next:" in err


def test_a_project_without_an_address_says_so(run, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.md").write_text("# A\n")
    run("project", "add", "own", str(tmp_path / "own"))
    code, _, err = run("project", "sync", "own")
    assert code == 2 and "no address" in err


def test_one_place_that_fails_stops_no_other_project(run, web):
    run("project", "add", "gone", f"{web.url}/gone/a.md")
    run("project", "add", "guide", web.address)
    code, out, err = run("ingest", "gone", "guide", "--sync")
    assert code != 0 and "gone:" in err and "next:" in err
    assert "4 fetched" in out and "generation 1" in out
