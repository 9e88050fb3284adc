"""Addresses of projects: noted by `project add`, fetched by `project sync`, then documents."""

import json
import shutil
import socket
import subprocess
import sys

import pytest
import yaml

from ragstream_core.errors import (
    InputUnavailable,
    OperationFailed,
    Refused,
    RunCommand,
    Stopped,
    UsageError,
)
from ragstream_core.ingestion.file_types import denial, not_supported
from ragstream_core.services.backup import backup
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.projects import AddRequest, add, project_state
from ragstream_core.services.remove_project import remove
from ragstream_core.services.search import search
from ragstream_core.services.sync_project import SyncRequest, roots, sync_project
from ragstream_core.wiring import ingestion
from tests.remote_servers import WebServer
from tests.workspaces import DOCS, ask, hashed_workspace, write_docs

FILES = {path: text.encode() for path, text in DOCS.items()}


@pytest.fixture
def web():
    with WebServer() as server:
        server.address = server.put(FILES)
        yield server


@pytest.fixture
def space(tmp_path):
    return hashed_workspace(tmp_path / "data")


def added(space, web, *more, **given):
    return add(space, "guide", AddRequest([web.address, *more], **given))


def test_an_address_is_noted_and_nobody_is_contacted(space, web):
    done = added(space, web)
    text = (space.data_dir / "projects" / "guide" / "project.yaml").read_text()
    assert yaml.safe_load(text) == {"roots": [{"label": "docs", "url": web.address}]}
    (root,) = done.project.roots
    assert (root.path, root.state, root.reason) == (
        web.address, "missing", "nothing of it was fetched yet",
    )  # fmt: skip
    assert project_state(space, "guide").roots == done.project.roots
    assert ingestion.status(space, "guide").absent == (
        f"{web.address}: nothing of it was fetched yet",
    )
    with pytest.raises(InputUnavailable) as raised:
        ingest_project(space, "guide")
    assert "ragstream project sync guide" in raised.value.hint
    assert web.seen == []


def test_what_was_fetched_is_a_project_like_any_other(space, web):
    added(space, web)
    done = sync_project(space, "guide")
    assert done.is_complete and done.totals()["fetched"] == len(FILES)
    asked = len(web.seen)
    stats = ingest_project(space, "guide")
    assert stats.files["new"] == len(FILES)
    assert search(space, "project lock", ["guide"], k=1)[0].source == "catalog.md"
    prompt = ask(space, projects=("guide",), files=("settings.yaml",))
    assert "top_k: 50" in prompt.extras.super_prompt
    assert not ingest_project(space, "guide").committed
    assert len(web.seen) == asked, "only a sync contacts the place"


def test_a_document_that_changes_or_goes_does_so_with_the_next_sync(space, web):
    added(space, web)
    sync_project(space, "guide")
    ingest_project(space, "guide")
    left = {"catalog.md": b"# The catalog\n\nIt holds xylophones.\n"}
    web.put(left)
    assert not ingest_project(space, "guide").committed
    report = sync_project(space, "guide").roots[0].report
    assert report.fetched == ("catalog.md",) and len(report.removed) == len(FILES) - 1
    stats = ingest_project(space, "guide")
    assert (stats.files["updated"], stats.files["deleted"]) == (1, len(FILES) - 1)
    assert "xylophones" in search(space, "xylophones", ["guide"], k=1)[0].snippet


def test_a_mirror_that_is_gone_keeps_its_documents_in_the_index(space, web):
    added(space, web)
    sync_project(space, "guide")
    ingest_project(space, "guide")
    shutil.rmtree(space.data_dir / "mirrors")
    with pytest.raises(InputUnavailable, match="nothing was changed"):
        ingest_project(space, "guide")
    sync_project(space, "guide")
    assert not ingest_project(space, "guide").files["deleted"]


def test_folders_and_addresses_stand_side_by_side(space, web, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "own.md").write_text("# Own\n\nA page of mine.\n")
    added(space, web, str(own), labels=["web", "own"])
    assert sync_project(space, "guide").roots[0].label == "web"
    ingest_project(space, "guide")
    documents = space.documents("guide")
    assert documents.location("own/own.md") == own / "own.md"
    assert documents.is_mirrored("web/catalog.md") and not documents.is_mirrored("own/own.md")
    with pytest.raises(UsageError, match="no address under the label own"):
        sync_project(space, "guide", SyncRequest(labels=("own",)))


def test_only_what_an_ingest_would_take_is_fetched(space, web):
    web.address = web.put(
        {**FILES, "film.mp4": b"x" * 9, ".env": b"KEY=1", "a/id_rsa": b"k", "drafts/d.md": b"d",
         ".ragignore": b"notes/\n", "odd 100%25.md": b"# Odd\n"}
    )  # fmt: skip
    added(space, web, exclude=["drafts/"])
    report = sync_project(space, "guide").roots[0].report
    assert dict(report.skipped) == {
        "film.mp4": not_supported("film.mp4"),
        ".env": denial(".env"),
        "a/id_rsa": denial("id_rsa"),
        "drafts/d.md": "excluded by project.yaml",
    }
    assert set(report.fetched) == {*FILES, ".ragignore", "odd 100%25.md"}
    fetched = {path for method, path in web.seen if method == "GET"}
    assert not {"/docs/film.mp4", "/docs/.env", "/docs/a/id_rsa", "/docs/drafts/d.md"} & fetched
    assert ingest_project(space, "guide").files["new"] == len(FILES) - 1 + 1


def test_a_document_that_is_forgotten_does_not_come_back(space, web):
    added(space, web)
    sync_project(space, "guide")
    ingest_project(space, "guide")
    with pytest.raises(Refused):
        forget(space, "guide", "catalog.md")
    done = forget(space, "guide", "catalog.md", exclude=True)
    assert done.texts and done.left == []
    assert sync_project(space, "guide").roots[0].report.skipped == (
        ("catalog.md", "excluded by project.yaml"),
    )
    assert not list((space.data_dir / "mirrors").rglob("catalog.md"))
    assert all(hit.source != "catalog.md" for hit in search(space, "catalog", ["guide"], k=9))


def test_one_address_that_fails_does_not_stop_the_others(space, web):
    away = "http://127.0.0.1:9/SHA256SUMS"
    added(space, web, away, labels=["here", "away"])
    done = sync_project(space, "guide")
    assert not done.is_complete and len(done.roots) == 1
    (problem,) = done.problems
    assert problem.url == away and "does not answer" in problem.message and problem.advice
    told = json.loads(json.dumps(done.to_json()))
    assert told["complete"] is False and told["problems"][0][0] == away
    assert all(told["problems"][0])
    with pytest.raises(OperationFailed, match="does not answer"):
        sync_project(space, "guide", SyncRequest(labels=("away",)))


@pytest.mark.parametrize("stopped_at", ["fetching", "listing"])
def test_a_stop_ends_the_sync_of_every_address(space, web, stopped_at):
    with WebServer() as second:
        added(space, web, second.put({"late.md": b"# Late\n"}), labels=["one", "two"])
        if stopped_at == "listing":  # the first has nothing new; the stop comes before the second
            sync_project(space, "guide", SyncRequest(labels=("one",)))
        told = []

        def progress(phase, done, total):
            told.append(phase)
            if told.count(stopped_at) == (2 if stopped_at == "listing" else 1):
                raise Stopped("you stopped it")

        with pytest.raises(Stopped, match="you stopped it"):
            sync_project(space, "guide", progress=progress)
        assert second.seen == [], "no further address is contacted"
        kept = sum(path.is_file() for path in (space.data_dir / "mirrors").rglob("files/**/*"))
        assert kept >= 1
        done = sync_project(space, "guide")
        assert done.is_complete and done.totals()["fetched"] == len(FILES) + 1 - kept


def test_a_place_that_lists_nothing_names_the_command_that_empties_it(space, web):
    added(space, web)
    sync_project(space, "guide")
    web.put({})
    with pytest.raises(Refused, match="lists nothing") as raised:
        sync_project(space, "guide")
    assert raised.value.advice[-1] == RunCommand("project sync", "guide --yes")
    add(space, "guide", AddRequest([f"{web.url}/gone/notes.md"]))
    problem = sync_project(space, "guide").problems[0]
    assert problem.advice[-1] == RunCommand("project sync", "guide --label docs --yes")


def test_limits_of_the_settings_hold(space, web, tmp_path):
    small = hashed_workspace(tmp_path / "data", {"remote.max_files": 2})
    added(small, web)
    with pytest.raises(Refused, match=r"remote\.max_files") as raised:
        sync_project(small, "guide")
    assert "more than 2 files" in raised.value.message
    small = hashed_workspace(tmp_path / "data", {"remote.max_file_mb": 0.0001})
    report = sync_project(small, "guide").roots[0].report
    assert report.failed and all("more than 100 bytes" in reason for _, reason in report.failed)


@pytest.mark.parametrize(
    "url",
    ["https://me:hunter2@host/a.md", "s3://k:hunter2@bucket", "https://host/a.md?sig=hunter2"],
)
def test_an_address_with_a_key_is_neither_kept_nor_shown(space, url):
    with pytest.raises(UsageError) as raised:
        add(space, "guide", AddRequest([url]))
    assert "hunter2" not in str(raised.value)
    assert not (space.data_dir / "projects" / "guide").exists()


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"label": "a", "url": "ftp://host/a"}, "not encrypted"),
        ({"label": "a", "url": "https://me:hunter2@host/a.md"}, "password"),
        ({"label": "a", "url": "s3://bucket/a", "path": "/srv"}, "either a path or a url"),
        ({"label": "a"}, "no path"),
        ({"label": "../a", "url": "s3://bucket/a"}, "label"),
    ],
)
def test_a_project_file_with_an_unusable_address_is_one_error(space, entry, reason):
    file = space.data_dir / "projects" / "guide" / "project.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(yaml.safe_dump({"roots": [entry]}))
    with pytest.raises(UsageError, match=reason) as raised:
        sync_project(space, "guide")
    assert "hunter2" not in str(raised.value)


def test_a_project_without_an_address_contacts_nobody(space, monkeypatch):
    write_docs(space.data_dir)

    def refuse(*words):
        raise AssertionError("nobody was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert roots(space, "demo") == ()
    with pytest.raises(UsageError, match="no address"):
        sync_project(space, "demo")


def test_where_no_address_is_configured_nothing_of_it_is_loaded(tmp_path):
    write_docs(tmp_path / "data")
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.md").write_text("# A page\n\nWith a sentence.\n")
    add(hashed_workspace(tmp_path / "data"), "own", AddRequest([str(own)]))
    code = (
        "import ragstream_assets.definitions, sys\n"
        "from ragstream_core import RAGstream\n"
        f"rag = RAGstream({str(tmp_path / 'data')!r}, {{'embeddings.backend': 'hashed'}})\n"
        "rag.ingest('demo'), rag.ingest('own'), rag.search('page', ['demo', 'own'])\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {name for name in loaded if name.startswith("ragstream_core.remote")}
    assert not {"fsspec", "s3fs", "paramiko", "httpx2"} & loaded


def test_removing_the_project_and_backing_it_up_leave_the_place_alone(space, web, tmp_path):
    added(space, web)
    sync_project(space, "guide")
    ingest_project(space, "guide")
    done = backup(space, tmp_path / "backup", documents=True)
    assert done.in_place == (web.address,)
    assert not (tmp_path / "backup" / "mirrors").exists()
    gone = remove(space, "guide")
    assert gone.folders == (web.address,) and not (space.data_dir / "mirrors" / "guide").exists()
