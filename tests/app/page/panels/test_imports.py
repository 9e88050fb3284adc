"""Importing conversations on the page: looked at first, added on a click, told what came of it."""

import json
import os
import zipfile

import pytest

from ragstream_app.page.panels.history import imports
from ragstream_core.wiring import journal
from ragstream_core.wiring.workspace import open_workspace
from tests.app.page_driver import button, click, control, open_page, run, said, until
from tests.unit.conversations.importers.exports import two_turns, write_json

LOOK = "See what would come"


@pytest.fixture
def export(tmp_path):
    """An export of ChatGPT with two conversations."""
    path = tmp_path / "conversations.json"
    return write_json(path, [two_turns(), two_turns("c-2", "Ports")])


@pytest.fixture
def dialog(indexed):
    """The page with the dialog open."""
    return click(open_page(), "Import")


def turns():
    return journal.show(open_workspace())


def uploader(page):
    return next(u for u in page.file_uploader if u.label == "Upload an export")


def looked(page, path="", upload=None):
    """Choose an export and look at it."""
    if path:
        control(page, "text_input", "Or a path").set_value(str(path))
    if upload:
        uploader(page).set_value(upload)
    click(page, LOOK)
    return until(page, lambda: not page.session_state[imports.JOB_KEY].running)


def added(page):
    """Add what was found."""
    click(page, next(b.label for b in page.button if b.label.startswith("Add ")))
    return run(until(page, lambda: not page.session_state[imports.JOB_KEY].running))


def test_an_upload_is_shown_first_and_added_on_a_click(dialog, export):
    page = run(looked(dialog, upload=("conversations.json", export.read_bytes(), "")))
    assert "4 turns of 2 conversations would be added, 0 existed already" in said(page)
    table = page.dataframe[-1].value
    assert list(table["title"]) == ["Locks", "Ports"] and list(table["turns"]) == ["2 new"] * 2
    assert not turns()
    added(page)
    assert "4 turns of 2 conversations added" in said(page) and len(turns()) == 4
    click(page, "Make them searchable")
    until(page, lambda: not page.session_state[imports.EMBED_KEY].running)
    assert "prompts find them now" in said(run(page))
    click(page, "Import something else")
    page = run(looked(page, upload=("conversations.json", export.read_bytes(), "")))
    assert "0 turns of 0 conversations would be added, 4 existed already" in said(page)
    assert button(page, "Add 0 turns").disabled


def test_a_path_on_this_machine_and_a_label(dialog, export):
    control(dialog, "selectbox", "Use them in").set_value("manual")
    page = added(run(looked(dialog, path=export.parent)))
    assert len(turns()) == 4 and {tuple(row.turn.projects) for row in turns()} == {("manual",)}
    assert "4 turns of 2 conversations added" in said(page)


def test_an_own_export_comes_back(dialog, indexed, run, tmp_path):
    run("history", "append", "--user", "Which port?", "--assistant", "8503.")
    run("history", "export", "--out", str(tmp_path / "mine.jsonl"))
    data = (tmp_path / "mine.jsonl").read_bytes()
    page = looked(dialog, upload=("mine.jsonl", data, ""))
    page.run()
    assert "those that exist already are skipped" in said(page)
    assert "0 records added" in said(added(page)) and len(turns()) == 1


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("conversations.json", b"[" + b" " * 30_000_000 + b"]")
    return path.read_bytes()


BAD = {
    "photo.json": (lambda path: b"\xff\xd8" + os.urandom(2000), "it is no text"),
    "My Activity.html": (lambda path: b"<html><body>x</body></html>", "is HTML"),
    "torn.zip": (lambda path: bomb(path)[:40], "is a ZIP that is not whole"),
    "bomb.zip": (bomb, "bytes would become 30,000,002"),
    "other.json": (lambda path: b'{"name": "package.json"}', "is no conversation of a format"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_export_is_a_message_and_nothing_is_lost(dialog, tmp_path, name):
    make, message = BAD[name]
    journal.append_turn(open_workspace(), turn())
    page = run(looked(dialog, upload=(name, make(tmp_path / name), "")))
    assert message in said(page) and not page.exception
    assert page.error or page.warning
    assert len(turns()) == 1
    assert not any(b.label.startswith("Add ") and not b.disabled for b in page.button)
    assert any(b.label in (LOOK, "Choose something else") for b in page.button)


def turn():
    from ragstream_core.conversations.journal.records import Turn

    return Turn("", "s", "", "Which port?", "8503.")


@pytest.mark.parametrize(
    ("path", "message"),
    [("", "nothing is chosen"), ("/no/such.zip", "cannot be read"), ("~nobody-here/x", "cannot")],
)
def test_a_path_that_cannot_be_read_is_said(dialog, path, message):
    page = run(looked(dialog, path=path))
    assert message in page.error[0].value
    assert button(page, LOOK)


def test_a_huge_file_is_read_from_its_path_and_uploads_are_limited(dialog, tmp_path):
    sparse = tmp_path / "conversations.json"
    with sparse.open("wb") as file:
        file.truncate(2 << 30)
    assert uploader(dialog).proto.max_upload_size_mb == imports.MOST_MB
    page = run(looked(dialog, path=sparse))
    assert "is no list of conversations: it is no text" in said(page) and not turns()


def test_with_persist_off_nothing_is_added(indexed, export):
    page = open_page()
    control(page, "checkbox", "Persist history").uncheck()
    page = run(looked(click(run(page), "Import"), path=export))
    assert "would be added" in said(page)
    added(page)
    assert "history.persist is off" in page.error[0].value and not turns()


def test_hostile_titles_and_secrets_stay_text(dialog, tmp_path):
    one = two_turns(title="![x](http://tracker.invalid/a.png) <b>")
    one["title"] += " AKIAIOSFODNN7EXAMPLE"
    path = write_json(tmp_path / "conversations.json", [one, {"what": "<img src=x>"}])
    page = run(looked(dialog, path=path))
    assert "AKIAIOSFODNN7EXAMPLE" not in said(page) + json.dumps(page.dataframe[-1].value.to_dict())
    (warned,) = [w.value for w in page.warning if "record 2" in w.value]
    assert warned.startswith("`") and "![x]" in page.dataframe[-1].value["title"][0]
