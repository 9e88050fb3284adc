"""Projects that are fetched from addresses: noted, synced when a person asks, then ingested."""

import threading

import pytest

from ragstream_app.page.jobs import syncs
from ragstream_app.page.panels import projects
from ragstream_core.errors import Stopped
from tests.app.page_driver import ask, button, click, control, desk, open_page, run, said
from tests.remote_servers import WebServer
from tests.workspaces import DOCS

WAIT_S = 60.0
FILES = {path: text.encode() for path, text in DOCS.items()}


@pytest.fixture
def web():
    with WebServer() as server:
        server.address = server.put(FILES)
        yield server


def make(page, *, name="", folder="", address=""):
    """Fill in *New project* and press Create."""
    control(page, "text_input", "Name").set_value(name)
    control(page, "text_input", "Folder on this machine (opt").set_value(folder)
    control(page, "text_input", "Address to fetch from").set_value(address)
    return click(page, "Create")


def synced(page, project="guide"):
    """Press Sync; draw the page again once the sync, and the ingest behind it, are through."""
    click(page, "Sync")
    assert projects.syncs().of(project).wait(WAIT_S)  # by then the ingest has begun, if one comes
    ingest = projects.ingests().of(project)
    assert ingest is None or ingest.wait(WAIT_S)
    return run(run(page))


def outcomes(page):
    return [one.label for one in page.expander if one.label.startswith("Last ")]


def test_an_address_is_noted_then_fetched_and_ingested_by_one_button(environment, web):
    page = make(open_page(), name="guide", address=web.address)
    assert not page.error and page.session_state.projects == ["guide"]
    assert f"{web.address}: noted; Sync fetches it" in said(page)
    assert "Not fetched yet: `guide`. Press **Sync**" in said(page)
    assert f"absent: {web.address}: nothing of it was fetched yet" in said(page)
    assert web.seen == [], "nobody is contacted before a person asks"
    synced(page)
    assert not page.error and outcomes(page) == ["Last sync: 4 fetched", "Last ingest: 4 new"]
    assert "files: 4 · index version 1" in said(page)
    assert "fetched yet" not in said(page) and "Sync fetches it" not in said(page)
    asked = len(web.seen)
    click(ask(page, "What does the project lock do?"), "Build prompt")
    assert "catalog.md" in desk(page).last.super_prompt.extras.super_prompt
    click(page, "Ingest Folder")
    assert projects.ingests().of("guide").wait(WAIT_S) and len(web.seen) == asked


def test_a_second_sync_brings_what_is_new_and_drops_what_is_gone(environment, web):
    page = synced(make(open_page(), name="guide", address=web.address))
    web.put({"catalog.md": b"# The catalog\n\nIt holds xylophones.\n"})
    synced(page)
    assert outcomes(page) == [
        "Last sync: 1 fetched, 3 removed",
        "Last ingest: 1 updated, 3 deleted",
    ]
    assert outcomes(synced(page)) == ["Last sync: nothing new", "Last ingest: nothing new"]


def test_a_place_that_does_not_answer_is_said_with_the_next_step(environment, web):
    page = synced(make(open_page(), name="guide", address=web.address))
    web.shutdown()
    web.server_close()
    synced(page)
    (error,) = page.error
    assert "does not answer" in error.value and "Next:" in error.value
    assert "files: 4 · index version 1" in said(page) and button(page, "Sync")


def test_one_place_that_fails_stops_neither_the_other_nor_the_ingest(environment, web):
    page = make(open_page(), name="guide", address=web.address)
    make(page, name="guide", address=f"{web.url}/gone/notes.md")
    synced(page)
    (error,) = page.error
    assert "/gone/notes.md: " in error.value and "Next:" in error.value
    assert outcomes(page) == ["Last sync: 4 fetched", "Last ingest: 4 new"]


def test_a_file_that_could_not_be_had_is_named(environment, web):
    page = make(open_page(), name="guide", address=web.address)
    web.files["/docs/catalog.md"] = b"changed"
    synced(page)
    assert outcomes(page)[0] == "Last sync: 3 fetched, 1 failed"
    assert "failed: catalog.md: it does not have" in said(page)


def test_an_ingest_before_the_first_sync_says_which_button_comes_first(environment, web):
    page = make(open_page(), name="guide", address=web.address)
    click(page, "Ingest Folder")
    assert projects.ingests().of("guide").wait(WAIT_S)
    (error,) = run(page).error
    assert "press Sync of guide in the sidebar" in error.value and web.seen == []


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://me:hunter2@host/a.md", "holds a password"),
        ("https://host/a.md?key=hunter2", "holds a query"),
        ("ftp://host/docs", "not encrypted"),
        ("s3://", "no bucket"),
        ("/no/such/folder", "there is no folder"),
        ("~nobody-of-that-name/docs", "there is no such user"),
    ],
)
def test_an_address_that_cannot_be_one_makes_no_project(environment, address, words):
    page = make(open_page(), address=address)
    (error,) = page.error
    assert words in error.value and "Next:" in error.value
    assert "hunter2" not in said(page) and page.session_state.projects == []
    assert not (environment / "projects").exists()


def test_a_folder_and_an_address_are_one_project(environment, web, tmp_path):
    folder = tmp_path / "kites"
    folder.mkdir()
    (folder / "kites.md").write_text("# Kites\n\nA kite needs a tail in strong wind.\n")
    page = make(open_page(), folder=str(folder), address=web.address)
    assert projects.ingests().of("kites").wait(WAIT_S) and web.seen == []
    assert f"{folder}: 1 document, read in place" in said(page)
    synced(run(page), "kites")
    assert "files: 5 · index version 2" in said(page)


def test_a_sync_is_stopped_and_goes_on_next_time(environment, web, monkeypatch):
    page = make(open_page(), name="guide", address=web.address)
    reached, go, real = threading.Event(), threading.Event(), syncs.sync_project

    def held(*given, **more):
        reached.set()
        assert go.wait(WAIT_S)
        return real(*given, **more)

    monkeypatch.setattr(syncs, "sync_project", held)
    click(page, "Sync")
    assert reached.wait(WAIT_S)
    job = projects.syncs().of("guide")
    assert any("asking what there is" in bar.text for bar in run(page).get("progress"))
    assert projects.syncs().start(projects.workspace(), "guide", list) is job, "one at a time"
    click(page, "Stop the sync")
    go.set()
    assert job.wait(WAIT_S) and "you stopped the sync" in said(run(page))
    assert projects.ingests().of("guide") is None
    assert outcomes(synced(page))[1] == "Last ingest: 4 new"


@pytest.fixture
def two(environment, web):
    """A page with a project of two addresses, and the second of them."""
    with WebServer() as second:
        page = make(open_page(), name="guide", address=web.address)
        late = second.put({"late.md": b"# Late\n\nIt came late.\n"}, folder="/late")
        yield make(page, name="guide", address=late), second


@pytest.mark.parametrize("stopped_at", ["listing", "fetching"])
def test_a_stop_is_for_every_address_and_for_the_ingest(two, web, monkeypatch, stopped_at):
    (page, second), real = two, syncs.SyncJob.report
    reached, go = threading.Event(), threading.Event()

    def report(self, phase, done, total):
        if phase == stopped_at and not go.is_set():
            reached.set()
            assert go.wait(WAIT_S)
        real(self, phase, done, total)

    monkeypatch.setattr(syncs.SyncJob, "report", report)
    click(page, "Sync")
    assert reached.wait(WAIT_S)
    job = projects.syncs().of("guide")
    click(run(page), "Stop the sync")
    go.set()
    assert job.wait(WAIT_S) and isinstance(job.error, Stopped) and job.result is None
    assert second.seen == [] and bool(web.seen) == (stopped_at == "fetching")
    (error,) = run(page).error
    assert "you stopped the sync; what was fetched is kept" in error.value
    assert "press Sync" in error.value and projects.ingests().of("guide") is None
    assert outcomes(synced(page))[1] == "Last ingest: 5 new"


def test_a_stop_after_the_last_file_starts_no_ingest(two, monkeypatch):
    (page, _), real = two, syncs.sync_project

    def ends(*given, **more):
        done = real(*given, **more)
        projects.syncs().of("guide").stop()
        return done

    with monkeypatch.context() as patch:
        patch.setattr(syncs, "sync_project", ends)
        click(page, "Sync")
        assert projects.syncs().of("guide").wait(WAIT_S)
    assert "you stopped the sync" in run(page).error[0].value
    assert projects.ingests().of("guide") is None
    assert outcomes(synced(page)) == ["Last sync: nothing new", "Last ingest: 5 new"]


def test_what_is_counted_without_an_end_fills_no_bar(environment):
    job = syncs.SyncJob(projects.workspace(), "guide", list)
    job.report("listing", 500, 0)
    assert (job.line, job.fraction) == ("listing: 500 files", 0.0)
    job.report("fetching", 1, 4)
    assert job.fraction == 0.25


def test_a_place_that_lists_nothing_names_the_command(environment, web):
    page = synced(make(open_page(), name="guide", address=web.address))
    web.put({})
    synced(page)
    (error,) = page.error
    assert "lists nothing" in error.value and "ragstream project sync guide --yes" in error.value


def test_a_long_result_says_that_the_command_asks_again(environment, web):
    files = {f"n{number:02}.md": b"# A note\n" for number in range(40)}
    page = make(open_page(), name="guide", address=web.put(files))
    for path in files:
        web.files[f"/docs/{path}"] = b"changed"
    synced(page)
    assert "11 more lines; ragstream project sync guide fetches anew and prints all" in said(page)


def test_a_listing_without_a_name_is_called_after_its_folder(environment, web):
    page = make(open_page(), address=web.address)
    assert not page.error and page.session_state.projects == ["docs"]
    (about_keys,) = [text.value for text in page.text if "Never type" in text.value]
    assert "~/.netrc" in about_keys and "`" not in about_keys
