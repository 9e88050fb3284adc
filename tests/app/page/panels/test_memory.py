"""The view Memory: facts wait with their quotes, and every click is one step."""

import pytest

from ragstream_core.conversations.journal.records import Turn
from ragstream_core.wiring.journal import append_turn
from ragstream_core.wiring.remembered_facts import FactMemory
from ragstream_core.wiring.workspace import open_workspace
from tests.app.page_driver import click, control, open_page, run

SAID = "I'm a project finance analyst at Contoso. Every Friday we review the open incidents."
HOSTILE = "I work as a diver in [a](http://127.0.0.1/x) <b>Bergen</b>."


@pytest.fixture
def space(indexed):
    space = open_workspace()
    append_turn(space, Turn("", "s", "", SAID, "Noted."))
    append_turn(space, Turn("", "s", "", HOSTILE, "Noted."))
    return space


def texts(page):
    return [one.value for one in page.text]


def press(page, label, nth=0):
    [button for button in page.button if button.label == label][nth].click()
    return run(page)


def test_facts_are_found_accepted_edited_and_undone(space):
    page = open_page()
    assert any(text.startswith("No facts are waiting.") for text in texts(page))
    click(page, "Look for facts")
    assert any("3 new facts" in one.value for one in page.success)
    role = "The user is a project finance analyst at Contoso."
    assert role in texts(page)
    assert any(f"you said: {SAID.partition('.')[0]}" in text for text in texts(page))
    press(page, "Accept")
    assert [row.text for row in FactMemory(space).remembered()] == [role]
    press(page, "Reject")
    control(page, "toggle", "Decided (2)").set_value(True)
    run(page)
    area = next(a for a in page.text_area if a.value == role)
    area.set_value("The user is an analyst.")
    run(page)
    next(b for b in page.button if b.label == "Keep these words" and not b.disabled).click()
    run(page)
    assert [row.text for row in FactMemory(space).remembered()] == ["The user is an analyst."]
    for _ in range(2):
        fact = next(f for f in FactMemory(space).facts() if f.text.startswith("The user is a"))
        page.button(key=f"Undo {fact.id}").click()
        run(page)
    assert FactMemory(space).remembered() == []
    assert len(FactMemory(space).candidates()) == 2


def test_foreign_words_are_shown_as_text_and_nothing_else(space):
    page = click(open_page(), "Look for facts")
    shown = "The user works as a diver in [a](http://127.0.0.1/x) <b>Bergen</b>."
    assert shown in texts(page)
    assert not any("127.0.0.1/x" in one.value for one in page.markdown)


def test_a_changed_fact_that_is_passed_over_is_told(space):
    page = click(open_page(), "Look for facts")
    append_turn(space, Turn("", "s", "", "Every Monday we review the open incidents.", "Noted."))
    page = click(run(page), "Look for facts")
    (told,) = [one.value for one in page.warning if "If that changed" in one.value]
    assert "every Monday" in told and "every Friday" in told


def test_a_line_is_added_and_forgotten(space):
    page = open_page()
    next(i for i in page.text_input if i.label == "The fact").set_value("The user sings.")
    run(page)
    click(page, "Remember it")
    assert [row.text for row in FactMemory(space).remembered()] == ["The user sings."]
    next(i for i in page.text_input if i.label == "The fact").set_value("My PIN is 4411.")
    run(page)
    click(page, "Remember it")
    assert any("secret" in one.value for one in page.error)
    assert len(FactMemory(space).remembered()) == 1
    press(page, "Forget")
    assert FactMemory(space).remembered() == []


@pytest.mark.parametrize(("user", "company", "told"), [(25, 25, False), (41, 1, True)])
def test_lines_that_are_not_shown_are_told_and_no_others(space, user, company, told):
    memory = FactMemory(space)
    for target, count in (("user", user), ("company", company)):
        for number in range(count):
            memory.add(f"Line {number} about the {target}.", target)
    shown = texts(open_page())
    assert any("Older lines are not shown" in text for text in shown) is told
    assert "Line 0 about the company." in shown
    assert ("Line 0 about the user." in shown) is not told


def test_with_persist_off_nothing_can_be_decided(space):
    page = click(open_page(), "Look for facts")
    next(c for c in page.checkbox if c.label == "Persist history").set_value(False)
    run(page)
    names = ("Look for facts", "Accept", "Reject")
    assert all(b.disabled for b in page.button if b.label in names)


def test_where_memory_is_on_the_digest_is_shown(space, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_MEMORY__ENABLED", "true")
    page = open_page()
    assert any(one.label == "Digest of the newest turns" for one in page.expander)
    assert any("Contoso" in one.value for one in page.code)
