"""The Super-Prompt rendered, in a real browser: by mouse and by keyboard, in light and dark."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SIZE
from tests.browser.sites import shot
from tests.browser.walk import DRAWN, SLOW_MS, Walk

QUESTION = "How does the exact file lock restrict a prompt?"
RESTRICTS = "The Exact File Lock restricts a prompt to the files you inject"


@pytest.fixture
def walk(tab, site):
    return Walk(tab, site).open()


def test_blocks_fold_and_a_source_opens_its_passage_beside_them(walk):
    text = walk.ask(QUESTION)
    rendered = walk.tab.locator(".st-key-rendered_prompt")
    expect(walk.box("Super-Prompt")).to_be_hidden()
    walk.sees(" left")
    shot(walk.tab, "rendered")
    evidence = rendered.locator("summary").filter(has_text="Evidence")
    evidence.click()
    source = rendered.get_by_role("button", name="guide/locks.md").first
    source.wait_for()
    shot(walk.tab, "rendered-evidence")
    rendered.get_by_role("button", name="locks.md").first.click()
    passage = walk.tab.locator(".st-key-passage_side")
    expect(passage.locator("mark").first).to_contain_text(RESTRICTS)
    expect(walk.box("Prompt")).to_be_hidden()
    shot(walk.tab, "rendered-passage")
    walk.button("Close").click()
    expect(walk.box("Prompt")).to_have_value(QUESTION)
    walk.view("Raw")
    expect(walk.box("Super-Prompt")).to_be_visible()
    assert walk.super_prompt() == text
    assert walk.tab.seen.foreign == []


def test_a_passage_opens_and_closes_with_the_keyboard_alone(walk):
    walk.ask(QUESTION)
    keys = walk.tab.keyboard
    walk.view("Raw")
    walk.tab.get_by_role("radio", name="Raw").focus()
    keys.press("ArrowLeft")
    keys.press("Enter")
    walk.tab.locator(".st-key-rendered_prompt").wait_for(timeout=SLOW_MS)
    walk.idle()
    for _ in range(20):
        keys.press("Tab")
        if walk.tab.evaluate("document.activeElement.innerText").strip() == "locks.md":
            break
    keys.press("Enter")
    marked = walk.tab.locator(".st-key-passage_side mark").first
    expect(marked).to_contain_text(RESTRICTS, timeout=SLOW_MS)
    walk.tab.locator(DRAWN).wait_for()
    shot(walk.tab, "rendered-keyboard")
    assert walk.tab.evaluate("document.activeElement.innerText").strip() == "◂ locks.md"
    keys.press("Enter")  # the focus has stayed where it was
    marked.wait_for(state="detached", timeout=SLOW_MS)


def test_in_the_dark(browser, site):
    context = browser.new_context(viewport=SIZE, color_scheme="dark")
    context.set_default_timeout(SLOW_MS)
    walk = Walk(context.new_page(), site).open()
    walk.ask(QUESTION)
    walk.tab.locator(".st-key-rendered_prompt").get_by_role("button").first.click()
    marked = walk.tab.locator(".st-key-passage_side mark").first
    marked.wait_for()
    shown = marked.evaluate(
        "e => [getComputedStyle(e).color, getComputedStyle(e.closest('td')).color]"
    )
    assert shown[0] == shown[1]  # as bright as the text around it
    shot(walk.tab, "rendered-dark")
    context.close()
