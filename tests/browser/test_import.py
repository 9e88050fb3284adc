"""An empty data root in a real browser: conversations, the handbook, and a folder come in."""

import zipfile
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import SIZE
from tests.browser.sites import Seen, running, shot
from tests.browser.walk import SLOW_MS, Walk
from tests.unit.conversations.importers.exports import two_turns, write_json

LOOK = "See what would come"


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """The page over a data root that holds nothing."""
    data = tmp_path_factory.mktemp("empty") / "data"
    with running(data, page_alone=True) as site:
        yield site


@pytest.fixture
def walk(browser, empty):
    context = browser.new_context(viewport=SIZE)
    context.set_default_timeout(SLOW_MS)
    page = context.new_page()
    page.seen = Seen({urlsplit(empty.page).netloc})
    context.on("request", lambda sent: page.seen.note(sent.url))
    yield Walk(page, empty).open()
    assert page.seen.foreign == []
    context.close()


def test_conversations_come_in_by_an_upload_and_are_found(walk, empty, tmp_path):
    walk.sees("Add something to ask about")
    shot(walk.tab, "first-steps")
    dialog = walk.tab.get_by_role("dialog")
    walk.opens(walk.button("Import conversations"), dialog)
    exported = write_json(tmp_path / "conversations.json", [two_turns(), two_turns("c-2", "Ports")])
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.write(exported, "conversations.json")
    drop = dialog.get_by_test_id("stFileUploaderDropzoneInput")
    with walk.redrawn():
        drop.set_input_files(tmp_path / "export.zip")
    dialog.get_by_text("export.zip").first.wait_for()
    add = walk.opens(walk.button(LOOK), walk.button("Add 4 turns"))
    shot(walk.tab, "import-looked-at")
    walk.tells(add, "4 turns of 2 conversations added")
    walk.tells(walk.button("Make them searchable"), "prompts find them now")
    shot(walk.tab, "import-added")
    walk.tab.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    walk.show("Conversation")
    assert any("How is the file locked?" in cell for cell in walk.cells())
    assert "By flock." in empty.ragstream("history", "show")


def test_a_wrong_file_is_a_message_with_the_keyboard_alone(walk, tmp_path):
    keys, dialog = walk.tab.keyboard, walk.tab.get_by_role("dialog")
    walk.opens_by_key(walk.button("Import conversations"), dialog)
    wrong = tmp_path / "conversations.json"
    wrong.write_text("<html>no export</html>")
    walk.box("Or a path on this machine").focus()
    keys.insert_text(str(wrong))
    with walk.redrawn():
        keys.press("Tab")
    for _ in range(36):  # a redraw may send the focus back to the start
        if walk.tab.evaluate("document.activeElement.innerText").strip() == LOOK:
            break
        keys.press("Tab")
    else:
        raise AssertionError("Tab never comes to the button")
    walk.opens_by_key(walk.button(LOOK), walk.tab.get_by_text("is no list of conversations").first)
    shot(walk.tab, "import-wrong-file")
    keys.press("Escape")
    dialog.wait_for(state="detached")


def test_the_handbook_is_tried_and_a_folder_added(walk, empty, tmp_path):
    walk.tells(walk.button("Try the handbook"), "index version 1")
    walk.idle()
    shot(walk.tab, "first-handbook")
    assert "long-questions.md" in walk.press("Build prompt")  # the question is there already
    (tmp_path / "kites").mkdir()
    (tmp_path / "kites" / "kites.md").write_text("# Kites\n\nA kite needs a tail in wind.\n")
    folder = walk.box("Folder on this machine (optional)")
    walk.opens(walk.button("New project"), folder).fill(str(tmp_path / "kites"))
    folder.press("Tab")
    walk.tells(walk.button("Create"), "1 document, read in place")
    walk.sees("kites · files: 1")
    shot(walk.tab, "first-folder")
    assert not (empty.data / "doc_raw" / "kites").exists()
