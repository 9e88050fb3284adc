"""The conversation in a real browser: a reply from outside, what the next prompt sees, clearing."""

import contextlib

import pytest
from playwright.sync_api import expect

from tests.browser.sites import shot
from tests.browser.walk import Walk

CANARY = "Zebulon Quatermain"
REPLY = f"{CANARY} said: the lock counts injected files only."


@pytest.fixture
def walk(tab, site):
    return Walk(tab, site).open()


def holding(root, words: str) -> list[str]:
    """Return the files below a folder whose bytes hold some words."""
    found = []
    for path in root.rglob("*"):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # others write and delete
            if words.encode() in path.read_bytes():
                found.append(str(path.relative_to(root)))
    return found


def test_a_reply_from_outside_is_seen_by_the_next_prompt_and_cleared_for_good(walk, site):
    walk.ask("How does the exact file lock restrict a prompt?")
    walk.show("Conversation")
    walk.write("External Reply", REPLY)
    tags = walk.tab.get_by_role("combobox", name="Tags", exact=True).filter(visible=True)
    walk.opens(tags, walk.tab.get_by_role("option", name="GOLD")).click()
    walk.tab.keyboard.press("Escape")
    walk.button("Send to History").click()
    walk.sees(" is kept, id ")
    walk.idle()
    expect(walk.box("External Reply")).to_have_value("")
    row = walk.cells()
    assert any(CANARY in cell for cell in row) and "GOLD" in row
    shot(walk.tab, "conversation-kept")

    assert CANARY not in walk.super_prompt()
    text = walk.ask("What did I learn about the lock just now?")
    assert "RECENT HISTORY" in text and CANARY in text
    walk.show("Conversation")
    walk.tab.get_by_text("RECENT HISTORY", exact=True).filter(visible=True).click()
    expect(walk.tab.get_by_test_id("stCode").filter(visible=True).first).to_contain_text(CANARY)
    shot(walk.tab, "conversation-recent")
    walk.tab.get_by_text("RECENT HISTORY", exact=True).filter(visible=True).click()

    assert holding(site.data, CANARY)
    walk.opens(walk.button("Clear history"), walk.button("What would go?")).click()
    walk.sees("1 turn ")
    expect(walk.button("Clear for good")).to_be_disabled()
    walk.box("Type CLEAR to confirm").fill("CLEAR")
    walk.box("Type CLEAR to confirm").press("Enter")
    expect(walk.button("Clear for good")).to_be_enabled()
    shot(walk.tab, "conversation-clearing")
    walk.button("Clear for good").click()
    walk.sees(" cleared for good")
    shot(walk.tab, "conversation-cleared")
    walk.idle()
    assert holding(site.data, CANARY) == []
    assert CANARY not in walk.super_prompt() and walk.tab.seen.foreign == []


def test_with_persist_off_nothing_is_written(walk, site):
    words = "Barnaby Featherstone"
    with walk.redrawn():
        walk.tab.get_by_text("Persist history", exact=True).click()
    assert words in walk.ask(f"What does {words} know about the lock?")
    walk.sees("key none")
    shot(walk.tab, "persist-off")
    assert holding(site.data, words) == []
