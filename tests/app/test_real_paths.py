"""Where a document that is read in place lies, wherever a citation of it is shown."""

import json
from pathlib import Path

import pytest

from ragstream_app.page.panels.passage import facts_of
from ragstream_core.records.prompt_inputs import Pin
from ragstream_core.services.explain import explanation
from ragstream_core.services.projects import AddRequest, add
from ragstream_core.services.trace import trace
from ragstream_core.wiring.file_states import chunk_locations, file_locations
from ragstream_core.wiring.workspace import open_workspace

QUESTION = "How does the exact file lock restrict a prompt?"
LOCK = "# Locks\n\nThe exact file lock restricts a prompt to the files that you inject."


@pytest.fixture
def notes(data, run, tmp_path):
    """A project `notes` of one folder in place, beside a copied one, `manual`."""
    folder = tmp_path / "my notes"
    folder.mkdir()
    (folder / "lock.md").write_text(LOCK)
    add(open_workspace(), "notes", AddRequest([folder]))
    run("ingest")
    return folder / "lock.md"


def test_every_command_that_names_a_passage_says_where_it_lies(notes, run):
    key = json.loads(run("prompt", QUESTION, "-p", "notes", "--json")[1])["prompt_key"]
    (row,) = json.loads(run("search", QUESTION, "-p", "notes", "--json")[1])
    (way,) = json.loads(run("explain", key, "--json")[1])["candidates"]
    found = trace(open_workspace(), row["chunk_id"], key)
    assert row["location"] == way["location"] == found.location == str(notes)
    assert f"in place: {notes}" in facts_of(found)
    asked = (
        ("search", QUESTION, "-p", "notes"),
        ("explain", key),
        ("explain", key, "--chunk", row["chunk_id"]),
        ("index", "inspect", "notes"),
        ("trace", row["chunk_id"], key),
    )
    for words in asked:
        assert str(notes) in run(*words)[1], words


def test_of_several_projects_each_document_has_its_own_place(notes, run):
    words = ("prompt", QUESTION, "-p", "manual", "-p", "notes", "--json")
    key = json.loads(run(*words)[1])["prompt_key"]
    found = explanation(open_workspace(), key)
    assert {i.partition("::")[0] for i in found.locations} == {"lock.md"}
    assert set(found.locations.values()) == {str(notes)}
    others = [way.to_json() for way in found.candidates if way.chunk_id not in found.locations]
    assert others and all("location" not in row for row in others)


def test_a_project_or_a_label_that_is_gone_has_no_place(notes):
    space = open_workspace()
    homes = [("notes", "lock.md"), ("manual", "guide/locks.md"), ("gone", "a.md")]
    assert file_locations(space, homes) == {homes[0]: str(notes)}
    (space.data_dir / "projects" / "notes" / "project.yaml").write_text("roots: 7\n")
    pins = [Pin("notes", 1, "", "")]
    assert file_locations(space, homes) == chunk_locations(space, pins, ["lock.md::0::0"]) == {}


def test_a_prompt_says_nothing_of_where_a_document_lies(notes, run):
    text = run("prompt", QUESTION, "-p", "notes")[1]
    assert "lock.md" in text and str(Path(notes).parent) not in text
