"""The page in a real browser: the walkthrough of its buttons, by mouse and by keyboard."""

import re

import pytest
from playwright.sync_api import expect

from ragstream_app.page.prompt_session import BUILD, LABELS
from ragstream_core.prompts.chain import BUTTONS
from tests.browser.sites import shot
from tests.browser.walk import BUILT, STAGES, Walk

ALL_IN = re.compile(r"^(\d+) of \1 candidates are in")
"""How many they are depends on the turns that other tests have left in the history."""
CUT_OFF = """() => [...document.querySelectorAll("[data-testid=stMain] button")]
  .filter((button) => button.offsetParent)
  .filter((button) => button.getBoundingClientRect().right > window.innerWidth
    || [button, ...button.querySelectorAll("*")].some((part) =>
      part.scrollWidth > part.clientWidth + 1 && getComputedStyle(part).overflow !== "visible"))
  .map((button) => button.innerText)"""
"""The buttons that are seen of which a word is cut off, or that reach out of the window."""
NO_CLIPBOARD = {
    "absent": """() => {
      Object.defineProperty(navigator, "clipboard", { value: undefined });
      document.execCommand = () => false;
    }""",
    "refused": """() => {
      navigator.clipboard.writeText = () => Promise.reject(new Error("not allowed"));
    }""",
}
QUESTION = "How does the exact file lock restrict a prompt?"


@pytest.fixture
def walk(tab, site):
    return Walk(tab, site).open()


def test_the_page_opens_and_asks_nobody_else(walk):
    shot(walk.tab, "page-first")
    assert walk.super_prompt() == "" and walk.tab.seen.foreign == []


def test_eight_buttons_one_after_the_other_and_run_all(walk, site):
    walk.write("Prompt", QUESTION)
    walk.sees("not built yet")
    assert walk.super_prompt() == ""  # nothing runs without a click
    texts = []
    walk.step_by_step()
    for button in BUTTONS:
        expect(walk.button(button)).to_be_enabled()
        texts.append(walk.press(button))
        assert walk.tab.get_by_text(STAGES[button]).first.is_visible()
    assert len(set(texts)) >= 5 and all(QUESTION in text for text in texts)
    again = Walk(walk.tab.context.new_page(), site).open()
    assert again.ask(QUESTION) == texts[-1]
    assert walk.tab.seen.foreign == []


def test_another_setting_runs_again_from_there(walk, site):
    walk.ask(QUESTION)
    walk.show("Transparency", "Decisions")
    walk.sees(" candidates are in")
    walk.tab.get_by_text("Retrieval", exact=True).first.click()
    number = walk.tab.get_by_role("spinbutton", name="Top-K")
    number.fill("1")
    number.press("Enter")
    walk.sees("Retrieval (1 changed)")
    walk.press("Retrieval")  # the setting counts from the ReRanker on
    walk.sees(ALL_IN)
    for button in BUTTONS[3:]:
        walk.press(button)
    walk.sees(re.compile(r"^1 of \d+ candidates are in"))
    shot(walk.tab, "page-another-top-k")


def test_an_empty_prompt_is_a_message_and_runs_nothing(walk):
    walk.build().click()
    walk.sees("the prompt is empty")
    assert walk.idle().super_prompt() == "" and not walk.tab.get_by_text(BUILT).count()
    walk.show("Transparency")
    walk.sees("Nothing has run yet")


def test_with_the_keyboard_alone(walk):
    keys = walk.tab.keyboard
    walk.box("Prompt").focus()
    keys.insert_text(QUESTION)
    reached = []
    with walk.redrawn():
        keys.press("Tab")  # takes the text over
    walk.box("Prompt").focus()
    for _ in range(30):
        keys.press("Tab")
        reached.append(walk.tab.evaluate("document.activeElement.innerText").strip())
        if "Step by step" in reached[-1]:
            keys.press("Enter")
            expect(walk.button(BUTTONS[0])).to_be_visible()
        if reached[-1] == LABELS[BUTTONS[-1]]:
            break
    assert reached[0].startswith(BUILD)
    assert [name for name in reached if name in LABELS.values()] == list(LABELS.values())
    shot(walk.tab, "page-keyboard")
    walk.box("Prompt").focus()
    keys.press("Tab")
    keys.press("Enter")
    assert QUESTION in walk.reaches(BUILD)


def test_ctrl_enter_builds_what_was_typed(walk):
    walk.box("Prompt").focus()
    walk.tab.keyboard.insert_text(QUESTION)
    walk.tab.keyboard.press("Control+Enter")
    assert QUESTION in walk.reaches(BUILD)
    assert walk.box("Prompt").input_value() == QUESTION


def test_copy_is_one_click_and_says_so(walk):
    walk.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    text = walk.ask(QUESTION)
    walk.button("Copy").click()
    expect(walk.button("Copied")).to_be_visible()
    shot(walk.tab, "page-copied")
    assert walk.tab.evaluate("navigator.clipboard.readText()") == text
    expect(walk.button("Copy")).to_be_visible()  # and again ready


@pytest.mark.parametrize("broken", ["absent", "refused"])
def test_where_copying_is_not_allowed_the_text_is_offered(walk, broken):
    walk.ask(QUESTION)
    walk.tab.evaluate(NO_CLIPBOARD[broken])
    walk.button("Copy").click()
    expect(walk.tab.get_by_test_id("stPopoverButton").filter(has_text="Copy")).to_be_visible()
    walk.opens(
        walk.button("Copy"), walk.tab.get_by_text("Your browser does not let this page copy")
    )
    expect(walk.tab.get_by_test_id("stCode").filter(visible=True).first).to_contain_text(QUESTION)


def test_the_sidebar_closes_and_opens_with_the_keyboard(walk):
    sidebar = walk.tab.get_by_test_id("stSidebar")
    close = sidebar.get_by_test_id("stSidebarCollapseButton").get_by_role("button")
    close.focus()
    walk.tab.keyboard.press("Enter")
    expect(sidebar).to_have_attribute("data-collapsed", "true")
    shot(walk.tab, "page-no-sidebar")
    walk.tab.get_by_test_id("stExpandSidebarButton").focus()
    walk.tab.keyboard.press("Enter")
    expect(sidebar).to_have_attribute("data-collapsed", "false")
    expect(walk.tab.get_by_text("Ingest Folder").first).to_be_visible()


def test_in_a_narrow_window_no_button_is_cut_off(walk):
    walk.tab.set_viewport_size({"width": 800, "height": 900})
    walk.ask(QUESTION)
    for view in ("Chat", "Map", "Prompt", "Conversation"):
        with walk.redrawn():
            walk.tab.get_by_role("tab", name=view, exact=True).click()
        shot(walk.tab, f"page-narrow-{view.lower()}")
        assert walk.tab.evaluate(CUT_OFF) == []
