"""The sidebar: projects, their ingest, uploads, and every control that changes the request."""

import shutil
import time

import pytest

from ragstream_app.page.jobs.ingests import IngestJobs
from ragstream_app.page.panels import files, projects, retrieval
from ragstream_core.index.schema import project_lock
from ragstream_core.prompts.inputs import inputs_of, pinned_settings
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.publish_index import publish
from ragstream_core.services.pull_index import pull
from ragstream_core.wiring import ingestion
from ragstream_core.wiring.workspace import open_workspace
from tests.app.page_driver import ask, button, click, control, desk, open_page, run, said
from tests.workspaces import write_docs


def waited(page, project="manual"):
    """Draw the page again once the ingest of a project is through."""
    job = projects.ingests().of(project)
    assert job is not None and job.wait(240)
    files.status.clear()
    return run(page)


def taken(page):
    """Press PreProcessing; return what it took in."""
    click(ask(page), "PreProcessing")
    assert not page.error, page.error[0].value
    return desk(page).request


def test_untouched_controls_change_nothing(page):
    request = taken(page)
    assert dict(request.settings) == {} and request.task == "chat" and request.as_of == 0


NUMBERS = [
    ("slider", "BM25", "retrieval.dense_weight", 0.9),
    ("number_input", "Top-K", "rerank.keep", 7),
    ("number_input", "Minimum similarity", "retrieval.min_score", 0.1),
    ("number_input", "Token budget", "prompt.budget_tokens", 3000),
    ("number_input", "Context tokens", "retrieval.max_context_tokens", 900),
    ("number_input", "Gate strictness", "gate.theta", 0.4),
    ("number_input", "Keep at least", "gate.keep_top", 1),
    ("selectbox", "Stop adding passages", "retrieval.evidence", "full"),
    ("toggle", "A1 Files", "agents.a1", False),
    ("toggle", "A2 Shaper", "agents.a2", False),
    ("toggle", "A3 Gate", "agents.a3", False),
    ("toggle", "A4 Condenser", "agents.a4", False),
]


@pytest.mark.parametrize(("kind", "label", "name", "value"), NUMBERS, ids=lambda v: str(v))
def test_each_control_changes_its_setting_and_no_other(page, kind, label, name, value):
    control(page, kind, label).set_value(value)
    run(page)
    assert dict(taken(page).settings) == {name: value}
    section, _, key = name.partition(".")
    settings = pinned_settings(inputs_of(desk(page).last.super_prompt))
    assert getattr(getattr(settings, section), key) == value
    click(page, "Reset")
    assert dict(taken(page).settings) == {}


def test_every_control_is_tried():
    shown = {c.name for c in retrieval.CONTROLS} | {row[1] for row in retrieval.AGENTS if row[1]}
    assert shown | {retrieval.EVIDENCE} == {name for _, _, name, _ in NUMBERS}


def test_a_switched_off_agent_lets_everything_through(page):
    click(ask(page), "Build prompt")
    strict = len(desk(page).last.super_prompt.views_by_stage["a3"])
    control(page, "number_input", "Gate strictness").set_value(1.0)
    control(page, "number_input", "Keep at least").set_value(0)
    click(run(page), "Build prompt")
    assert len(desk(page).last.super_prompt.views_by_stage["a3"]) <= strict
    control(page, "toggle", "A3 Gate").set_value(False)
    click(run(page), "Build prompt")
    views = desk(page).last.super_prompt.views_by_stage
    assert views["a3"] == views["reranked"]


@pytest.mark.parametrize("label", ["A2 Shaper", "A3 Gate", "A4 Condenser", "Audit"])
def test_a_form_is_chosen_only_where_a_model_is_configured(indexed, monkeypatch, label):
    assert control(open_page(), "selectbox", f"Form of {label}").disabled
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BACKEND", "scripted")
    page = open_page()
    form = control(page, "selectbox", f"Form of {label}")
    assert not form.disabled
    form.set_value("llm")
    name = next(row[2] for row in retrieval.AGENTS if row[0] == label)
    assert dict(taken(run(page)).settings) == {name: "llm"}


def test_other_settings_are_lines_and_a_wrong_one_is_named(page):
    others = control(page, "text_area", "Other settings")
    others.set_value("retrieval.tau = 6\n\nrerank.top_k=5")
    request = taken(run(page))
    assert request.settings == {"retrieval.tau": "6", "rerank.top_k": "5"}
    assert inputs_of(desk(page).last.super_prompt).settings["retrieval"]["tau"] == 6.0
    control(page, "text_area", "Other settings").set_value("retrieval.taw = 6")
    run(page)
    assert "retrieval.taw" in page.error[0].value
    click(page, "PreProcessing")
    assert any("retrieval.taw" in e.value for e in page.error)


def test_the_page_begins_with_ten_and_ten_reranked_to_five(page):
    assert control(page, "selectbox", "Task profile").value == "chat"
    assert control(page, "number_input", "Top-K").value == 5
    taken(page)
    settings = inputs_of(desk(page).last.super_prompt).settings
    assert (settings["retrieval"]["depth"], settings["rerank"]["keep"]) == (10, 5)
    control(page, "selectbox", "Task profile").set_value("").run()
    assert control(page, "number_input", "Top-K").value == 0, "all go on, as in `ragstream prompt`"


def test_a_task_profile_sets_the_controls(data, run, monkeypatch, tmp_path):
    (tmp_path / "ragstream.yaml").write_text("tasks:\n  short:\n    rerank:\n      keep: 9\n")
    assert run("ingest", "manual")[0] == 0
    page = open_page()
    control(page, "selectbox", "Task profile").set_value("short").run()
    assert control(page, "number_input", "Top-K").value == 9
    request = taken(page)
    assert request.task == "short" and dict(request.settings) == {}
    assert inputs_of(desk(page).last.super_prompt).settings["rerank"]["keep"] == 9


def test_an_older_generation_is_read(page, indexed):
    (indexed / "doc_raw" / "manual" / "new.md").write_text("# New\n\nThe exact file lock again.\n")
    waited(click(page, "Ingest Folder"))
    control(page, "number_input", "Index version").set_value(1)
    request = taken(run(page))
    assert request.as_of == 1
    assert inputs_of(desk(page).last.super_prompt).pins[0].generation == 1


def test_what_ranks_and_judges_is_said(page):
    assert "Reranker: none (model-free)" in said(page)
    assert "Gate: similarity (model-free)" in said(page) and "ragstream models pull" in said(page)


def test_what_ranks_and_judges_follows_the_other_settings(page):
    lines = "rerank.backend = maxsim\ngate.backend = nli\ngate.model = my-model"
    control(page, "text_area", "Other settings").set_value(lines)
    told = said(run(page))
    assert "Reranker: maxsim (model-free)" in told and "Gate: my-model\n" in told + "\n"
    control(page, "text_area", "Other settings").set_value("no line of a setting")
    assert "Reranker: none (model-free)" in said(run(page))


def test_ingest_folder_ingests_and_says_what_it_did(page, indexed):
    (indexed / "doc_raw" / "manual" / "new.md").write_text("# New\n\nA passage about kites.\n")
    (indexed / "doc_raw" / "manual" / "film.mp4").write_bytes(b"x")
    waited(click(page, "Ingest Folder"))
    told = said(page)
    assert "new 1 · updated 0 · unchanged 4 · deleted 0" in told
    assert "committed generation 2" in told and "files: 5 · index version 2" in told
    assert "skipped: film.mp4: type not supported" in told
    click(page, "Ingest Folder")
    assert "new 0 · updated 0 · unchanged 5 · deleted 0" in said(waited(page))


def test_a_project_that_was_never_ingested_is_said_and_guided(data):
    page = open_page()
    assert "Not ingested yet: `manual`. Press **Ingest Folder**" in said(page)
    assert "not ingested yet; documents: 4" in said(page)
    waited(click(page, "Ingest Folder"))
    assert "Not ingested yet" not in said(page)
    click(ask(page), "Build prompt")
    assert desk(page).last.key


def test_a_project_that_is_pulled_is_asked_and_neither_ingested_nor_filled(indexed, tmp_path):
    space = open_workspace()
    publish(space, "manual", str(tmp_path / "place"))
    pull(space, str(tmp_path / "place"), name="theirs")
    shutil.rmtree(indexed / "doc_raw")
    page = open_page()
    assert control(page, "multiselect", "Projects").value == ["theirs"]
    assert "ragstream index pull theirs" in said(page)
    labels = [one.label for one in page.sidebar.button]
    assert "Ingest Folder" not in labels
    assert page.sidebar.get("file_uploader") == []
    assert taken(page).projects == ("theirs",)
    click(ask(page), "Build prompt")
    assert desk(page).last.key


def test_a_locked_project_says_who_holds_it(page, indexed):
    import os

    (indexed / "doc_raw" / "manual" / "new.md").write_text("new")
    with project_lock(indexed / "index" / "manual"):
        waited(click(page, "Ingest Folder"))
    assert f"being written by process {os.getpid()}" in page.error[0].value


def test_a_new_project_is_made_chosen_and_filled(environment):
    page = open_page()
    assert "Add something to ask about" in said(page)
    control(page, "text_input", "Name").set_value("../evil")
    click(page, "Create")
    assert "cannot be a project name" in page.error[0].value
    control(page, "text_input", "Name").set_value("notes")
    click(page, "Create")
    assert not page.error and page.session_state.projects == ["notes"]
    assert (environment / "doc_raw" / "notes").is_dir()
    text = b"# Kites\n\nA kite needs a tail in strong wind.\n"
    page.file_uploader[0].set_value([("Kite notes.md", text, "text/markdown")])
    waited(run(page), "notes")
    assert "saved as uploads/Kite-notes.md" in said(page)
    assert (environment / "doc_raw" / "notes" / "uploads" / "Kite-notes.md").read_bytes() == text
    click(ask(page, "When does a kite need a tail?"), "Build prompt")
    assert "A kite needs a tail in strong wind." in desk(page).last.super_prompt.extras.super_prompt


def test_an_empty_project_says_what_fills_it_and_a_refused_upload_says_why(environment):
    page = open_page()
    control(page, "text_input", "Name").set_value("notes")
    click(page, "Create")
    assert any("is empty. Press **Upload**" in i.value for i in page.info)
    assert "no documents" in said(page) and "Ingest Folder" not in said(page)
    assert not page.file_uploader[0].proto.type  # the reason is ours to say, not the browser's
    page.file_uploader[0].set_value([("table.7z", b"1;2", "application/x-7z-compressed")])
    run(page)
    (error,) = [e.value for e in page.error]
    assert "table.7z" in error and "type not supported" in error and "Next: `PDF" in error
    page.file_uploader[0].set_value([("kites.md", b"# Kites\n", "text/markdown")])
    waited(run(page), "notes")
    assert not page.error


def test_uploads_go_to_a_project_that_takes_them(environment, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "kites.md").write_text("# Kites\n")
    page = open_page()
    folders = [t for t in page.text_input if t.label == "Folder on this machine"]
    folders[0].set_value(str(folder))
    click(page, "Add folder")
    waited(page, "mine")
    assert not page.file_uploader
    assert any("reads your own folder. Copy the files there" in i.value for i in page.info)
    control(page, "text_input", "Name").set_value("notes")
    click(page, "Create")
    assert page.session_state.projects == ["mine", "notes"]
    assert not [s for s in page.selectbox if s.label == "Into project"]
    page.file_uploader[0].set_value([("roses.md", b"# Roses\n", "text/markdown")])
    waited(run(page), "notes")
    assert list((environment / "doc_raw" / "notes" / "uploads").iterdir())
    assert button(page, "Try the handbook").key == "handbook later"


def test_an_empty_data_root_offers_the_handbook(environment, run):
    page = open_page()
    click(page, "Try the handbook")
    waited(page, "handbook")
    assert not page.error and "Add something to ask about" not in said(page)
    assert page.session_state.projects == ["handbook"]
    assert (environment / "doc_raw" / "handbook" / "the-page.md").is_file()
    click(page, "Build prompt")  # the question is there already
    assert "long question" in desk(page).last.super_prompt.extras.super_prompt
    assert run("demo", "--dry-run", "--json")[0] == 0


@pytest.mark.parametrize("place", ["first", "sidebar"])
def test_a_folder_is_added_and_read_in_place(environment, tmp_path, place):
    folder = tmp_path / "my kites"
    folder.mkdir()
    (folder / "kites.md").write_text("# Kites\n\nA kite needs a tail in strong wind.\n")
    before = sorted(folder.iterdir())
    page = open_page()
    if place == "first":
        control(page, "text_input", "Folder on this machine").set_value("")
        click(page, "Add folder")
        assert "no folder given" in page.error[0].value
        folders = [t for t in page.text_input if t.label == "Folder on this machine"]
        folders[0].set_value(str(folder))
        click(page, "Add folder")
        name = "my-kites"
    else:
        name = "kites"
        control(page, "text_input", "Name").set_value(name)
        control(page, "text_input", "Folder on this machine (opt").set_value(str(folder))
        click(page, "Create")
    waited(page, name)
    assert not page.error and page.session_state.projects == [name]
    assert f"{folder}: 1 document, read in place" in said(page)
    assert sorted(folder.iterdir()) == before and not (environment / "doc_raw" / name).exists()
    click(ask(page, "When does a kite need a tail?"), "Build prompt")
    assert "A kite needs a tail in strong wind." in desk(page).last.super_prompt.extras.super_prompt


@pytest.mark.parametrize("given", ["/no/such/folder", "{data}", "{file}"])
def test_a_folder_that_cannot_be_a_project_is_said(environment, tmp_path, given):
    environment.mkdir(exist_ok=True)
    (tmp_path / "a.md").write_text("A.")
    page = open_page()
    folders = [t for t in page.text_input if t.label == "Folder on this machine"]
    folders[0].set_value(given.format(data=environment, file=tmp_path / "a.md"))
    click(page, "Add folder")
    assert len(page.error) == 1 and "Next:" in page.error[0].value
    assert not page.session_state.projects and button(page, "Add folder")


def test_uploads_replace_nothing_and_a_refused_one_stops_none(page, indexed):
    files = [("a.md", b"one", ""), ("id_rsa.md", b"key", ""), ("a.md", b"two", "")]
    page.file_uploader[0].set_value(files)
    waited(run(page))
    folder = indexed / "doc_raw" / "manual" / "uploads"
    assert sorted(p.read_bytes() for p in folder.iterdir()) == [b"one", b"two"]
    assert "deny list" in said(page)
    page.file_uploader[0].set_value([("a.md", b"one", "")])
    waited(run(page))
    assert "same bytes, kept as uploads/a.md" in said(page)
    assert len(list(folder.iterdir())) == 2


def test_no_project_chosen_is_guided(page):
    control(page, "multiselect", "Projects").set_value([])
    assert "Choose a project in the sidebar" in said(run(page))


def test_an_ingest_asked_for_meanwhile_runs_once_more(indexed, monkeypatch):
    import threading

    jobs, go, calls = IngestJobs(), threading.Event(), []
    real = ingestion.unchanged

    def slow(workspace, project):
        calls.append(project)
        go.wait(240)
        return real(workspace, project)

    monkeypatch.setattr(ingestion, "unchanged", slow)
    workspace = open_workspace()
    first = jobs.start(workspace, "manual")
    while not calls:
        time.sleep(0.01)
    assert jobs.start(workspace, "manual") is first
    assert jobs.start(workspace, "manual") is first
    (indexed / "doc_raw" / "manual" / "late.md").write_text("# Late\n\nCame meanwhile.\n")
    go.set()
    assert first.wait(240) and len(calls) == 2
    assert ingestion.status(workspace, "manual").files == 5


def test_every_control_of_ours_has_a_label_and_help(page):
    named = [*page.sidebar.toggle, *page.sidebar.number_input, *page.sidebar.multiselect]
    named += [*page.sidebar.slider, *page.sidebar.button, *page.sidebar.file_uploader]
    assert len(named) > 12
    assert all(one.label.strip() for one in named)
    assert [one.label for one in named if not one.help] == []


def test_of_many_files_some_are_listed_and_each_can_be_found(data):
    for number in range(600):
        (data / "doc_raw" / "manual" / f"page-{number:03}.md").write_text(f"# Page {number}\n")
    page = open_page()
    assert "Files: 604 of 604 ON" in [e.label for e in page.expander]
    control(page, "multiselect", "Inject").set_value(["manual/guide/locks.md"])
    assert len(control(page, "multiselect", "Inject").options) == 500
    control(page, "text_input", "Find files").set_value("page-599")
    inject = control(run(page), "multiselect", "Inject")
    assert inject.options == ["manual/guide/locks.md", "manual/page-599.md"]
    assert inject.value == ["manual/guide/locks.md"]
    click(page, "All OFF")
    assert page.session_state.files_off == {"manual/page-599.md"}


def test_an_ingest_that_ends_before_the_page_is_drawn_is_seen(data, monkeypatch):
    real = IngestJobs.start

    def at_once(self, workspace, project):
        job = real(self, workspace, project)
        assert job.wait(240)
        return job

    monkeypatch.setattr(IngestJobs, "start", at_once)
    page = open_page()
    assert "not ingested yet" in said(page)
    click(page, "Ingest Folder")
    assert "index version 1" in said(page) and "ot ingested yet" not in said(page)


def test_a_setting_beyond_the_usual_range_is_shown_as_it_is(indexed, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_GATE__KEEP_TOP", "150")
    page = open_page()
    assert control(page, "number_input", "Keep at least").value == 150
    assert taken(page).settings == {}


def test_trouble_of_the_sidebar_goes_when_it_is_over(page, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(projects, "show", lambda: 1 / 0)
        assert len(run(page).error) == 1
    assert not run(page).error


def test_a_file_stays_off_while_its_project_is_not_chosen(indexed):
    (indexed / "doc_raw" / "other").mkdir()
    (indexed / "doc_raw" / "other" / "a.md").write_text("# Other\n")
    ingest_project(open_workspace(), "other")
    page = open_page()
    chosen = control(page, "multiselect", "Projects")
    next(box for box in page.checkbox if "guide/locks.md" in box.label).uncheck().run()
    chosen.set_value(["other"]).run()
    assert "Files: 1 of 1 ON" in [e.label for e in page.expander]
    assert taken(page).off == ()
    control(page, "multiselect", "Projects").set_value(["manual", "other"]).run()
    assert "Files: 4 of 5 ON" in [e.label for e in page.expander]
    assert taken(page).off == ("manual/guide/locks.md",)
    (indexed / "doc_raw" / "manual" / "guide" / "locks.md").unlink()
    files.project_files.clear()
    assert not page.run().exception
    assert page.session_state.files_off == set()


def test_a_folder_that_is_no_project_is_named_with_its_reason(page, indexed):
    (indexed / "doc_raw" / "two words").mkdir()
    assert "No project: 'two words': not a project name; rename it" in said(run(page))


def test_only_files_that_can_be_read_count_and_are_named_plainly(environment):
    write_docs(environment, "notes", {"a.md": "# A\n", "b.md": "# B\n", "c.bin": "x"})
    ingest_project(open_workspace(), "notes")
    page = open_page()
    assert [e.label for e in page.expander if e.label.startswith("Files")] == ["Files: 2 of 2 ON"]
    assert [c.label for c in page.checkbox if c.label.endswith(".md")] == ["a.md", "b.md"]
    assert not [c for c in page.checkbox if "c.bin" in c.label]
    inject = next(m for m in page.multiselect if m.label.startswith("Inject"))
    assert "notes/c.bin" in inject.options
    assert "Weather" not in [e.label for e in page.expander]
