"""The chat in a real browser: asked, streamed, cited, opened in the Prompt view."""

import re

import pytest
from playwright.sync_api import expect

from tests.app.hostile_answers import PAYLOADS
from tests.browser.sites import shot
from tests.browser.walk import SLOW_MS, Walk
from tests.model_server import streamed

QUESTION = "How does the exact file lock restrict a prompt?"
ISSUED = re.compile(r'<<DOC \d+ \w+ id="(\w+)" source="guide/locks.md"')


def cites(handler):
    shown = handler.server.seen[-1][2]["messages"][-1]["content"]
    marker = f"[source: locks.md, chunk: {ISSUED.search(shown)[1]}]"
    texts = ["Only **injected** files count ", marker[:9], marker[9:], ".\n\n", *PAYLOADS]
    streamed(*texts)(handler)


@pytest.fixture
def tab_of_chat(tab, site, llm):
    llm.answers = [cites]
    Walk(tab, site).open()
    tab.get_by_role("tab", name="Chat", exact=True).click()
    return tab


def test_a_question_is_answered_cited_and_taken_to_the_prompt(tab_of_chat, llm):
    tab = tab_of_chat
    box = tab.get_by_test_id("stChatInputTextArea")
    box.fill(QUESTION)
    box.press("Enter")
    opens = tab.get_by_role("button", name="Open in Prompt")
    opens.wait_for(timeout=SLOW_MS)
    answer = tab.get_by_test_id("stHtml").filter(has_text="Only injected files count")
    expect(answer).not_to_contain_text("[source")
    expect(answer).to_contain_text("tracker.invalid/inline.png")
    assert answer.locator("img, a, iframe, script").count() == 0
    assert llm.seen[-1][2]["messages"][-1]["content"].count(QUESTION)

    tab.get_by_role("button", name="✓").click()
    close = tab.get_by_role("button", name="Close", exact=True)
    close.wait_for(timeout=SLOW_MS)
    lines = tab.get_by_role("table").filter(visible=True)
    expect(lines).to_contain_text("The Exact File Lock restricts a prompt")
    shot(tab, "chat-passage")
    close.click()
    expect(close).to_be_hidden()

    tab.get_by_role("button", name="Memory off").click()
    expect(tab.get_by_role("spinbutton", name="Most tokens of memory")).to_have_value("512")
    tab.keyboard.press("Escape")

    opens.click()
    expect(tab.get_by_role("textbox", name="Prompt", exact=True)).to_have_value(QUESTION)
    assert tab.seen.foreign == []
