"""What a person does on the page in a real browser: writes, presses, looks."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import Locator, Page, TimeoutError, expect

from ragstream_app.page.prompt_session import BUILD, LABELS
from ragstream_core.prompts.chain import BUTTONS
from tests.browser.sites import Site

BUILT = " tokens · key "
STAGES = {button: f"done up to {LABELS[button]} ·" for button in BUTTONS[:-1]}
STAGES[BUTTONS[-1]] = BUILT
"""What stands below the Super-Prompt once a button's stage is through."""
SLOW_MS = 180_000
DRAWN = "[data-testid='stApp'][data-test-script-state='notRunning']"
WATCH = """() => {
  const app = document.querySelector("[data-testid='stApp']");
  window.hasRun = false;
  new MutationObserver((changes, watch) => {  // a quick run has ended before it is told of
    if (!changes.some((change) => change.oldValue === "notRunning")) return;
    window.hasRun = true;
    watch.disconnect();
  }).observe(app, { attributeFilter: ["data-test-script-state"], attributeOldValue: true });
}"""
"""Notes that the page's script has started: until then a page looks as it did before a click."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A tab on the page of a site."""

    tab: Page
    site: Site

    def open(self) -> Walk:
        """Open the page; it is there once one can write and press."""
        self.tab.goto(self.site.page)
        self.box("Prompt").wait_for(timeout=SLOW_MS)
        self.text_of_prompt().wait_for(timeout=SLOW_MS)
        return self.idle()

    def idle(self) -> Walk:
        """Wait until no press is at work and everything is drawn."""
        expect(self.build()).to_be_enabled(timeout=SLOW_MS)
        self.tab.locator(DRAWN).wait_for(timeout=SLOW_MS)
        return self

    def button(self, name: str) -> Locator:
        """Return a button by what is written on it, or a stage's by its name in the chain."""
        if name == BUILD:
            return self.build()
        if name in LABELS:  # a table has a button "Search" as well
            stage = self.tab.locator(f".st-key-button-{name.replace(' ', '-')} button")
            return stage.filter(visible=True)
        return self.tab.get_by_role("button", name=name, exact=True)

    def build(self) -> Locator:
        """Return the button that builds the prompt; its shortcut stands beside its name."""
        return self.tab.locator(".st-key-build_prompt button").filter(visible=True)

    def step_by_step(self) -> None:
        """Open the stages."""
        first = self.button(BUTTONS[0])
        if not first.is_visible():
            self.opens(self.tab.locator("summary").filter(has_text="Step by step"), first)
            expect(first).to_be_visible()

    def text_of_prompt(self) -> Locator:
        """Return the box of the Super-Prompt; where the rendered one stands it is hidden."""
        return self.tab.locator("[class*='st-key-super_prompt'] textarea")

    def view(self, name: str) -> None:
        """Choose how the Super-Prompt is shown."""
        self.tab.get_by_role("radio", name=name).click()
        self.idle()

    def opens(self, opener: Locator, inside: Locator) -> Locator:
        """Click until something opens; return what is inside.

        A page that is drawn at the same moment closes it again: then a person clicks once more.
        """
        return self._clicks(opener, inside, "attached")

    def tells(self, button: Locator, text: str) -> Locator:
        """Click until the page shows a text; return where."""
        return self._clicks(button, self._told(text), "attached")

    def opens_by_key(self, opener: Locator, inside: Locator) -> Locator:
        """Press Enter on a button until something opens; return what is inside."""
        return self._clicks(opener, inside, "attached", "Enter")

    def closes(self, closer: Locator, inside: Locator) -> None:
        """Click until something is gone."""
        self._clicks(closer, inside, "hidden")

    def _clicks(
        self,
        button: Locator,
        seen: Locator,
        state: Literal["attached", "hidden"],
        key: str = "",
    ) -> Locator:
        for _ in range(6):
            self.tab.locator(DRAWN).wait_for(timeout=SLOW_MS)
            with contextlib.suppress(TimeoutError):  # what it opens may be there by now, it not
                if key:
                    button.focus(timeout=15_000)
                    self.tab.keyboard.press(key)
                else:
                    button.click(timeout=15_000)
            with contextlib.suppress(TimeoutError):
                seen.wait_for(state=state, timeout=15_000)
                self.tab.locator(DRAWN).wait_for(timeout=SLOW_MS)
                return seen
        raise AssertionError(f"{seen} was never {state} after a click on {button}")

    @contextlib.contextmanager
    def redrawn(self) -> Iterator[None]:
        """Wait until the page has drawn what is done inside."""
        self.tab.locator(DRAWN).wait_for(timeout=SLOW_MS)
        self.tab.evaluate(WATCH)
        yield
        with contextlib.suppress(TimeoutError):  # what is done joins a run that has just begun
            self.tab.wait_for_function("window.hasRun", timeout=SLOW_MS // 9)
        self.tab.locator(DRAWN).wait_for(timeout=SLOW_MS)

    def box(self, name: str) -> Locator:
        """Return a box to write into by its label."""
        return self.tab.get_by_role("textbox", name=name, exact=True)

    def write(self, name: str, text: str) -> None:
        """Write another text into a box and leave it, as Tab does."""
        with self.redrawn():
            self.box(name).fill(text)
            self.box(name).blur()
        self.idle()

    def press(self, name: str) -> str:
        """Press a button of the chain; wait for its stage and return the Super-Prompt."""
        if name in LABELS:
            self.step_by_step()
        self.tab.evaluate(WATCH)
        for patience in (SLOW_MS // 6, SLOW_MS):  # a redraw may take the button from under a click
            self.button(name).click()
            try:
                self.tab.wait_for_function("window.hasRun", timeout=patience)
                break
            except TimeoutError:
                if patience == SLOW_MS:
                    raise
        return self.reaches(name)

    def reaches(self, name: str) -> str:
        """Wait until the page shows the stage of a button; return the Super-Prompt."""
        self.sees(STAGES.get(name, BUILT))
        self.idle()
        return self.super_prompt()

    def sees(self, text: str | re.Pattern[str]) -> Locator:
        """Wait until the page shows a text; return where."""
        found = self._told(text)
        found.wait_for(timeout=SLOW_MS)
        return found

    def _told(self, text: str | re.Pattern[str]) -> Locator:
        return self.tab.get_by_text(text).filter(visible=True).first

    def ask(self, text: str) -> str:
        """Write a prompt and press Build prompt; return the Super-Prompt."""
        self.write("Prompt", text)
        return self.press(BUILD)

    def super_prompt(self) -> str:
        """Return the text that the page shows at the right."""
        return self.text_of_prompt().input_value()

    def ingested(self, files: int) -> None:
        """Wait until the sidebar says that a project's files are in.

        The folder sensor may be at it at this moment: then the page names who writes the project,
        and a person presses *Ingest Folder* again.
        """
        done, again = self.tab.get_by_text(f"files: {files} ·"), self.button("Ingest Folder")
        refused = self.tab.get_by_text("is being written")
        for _ in range(20):
            done.or_(refused).first.wait_for(timeout=SLOW_MS)
            if done.is_visible():
                return
            again.click()
            self.idle()
        raise AssertionError(f"{files} files were never in")

    def show(self, *names: str) -> None:
        """Open one of the tabs below, and one inside of it."""
        for name in names:
            self.tab.get_by_role("tab", name=name, exact=True).click()
        self.idle()

    def cells(self) -> list[str]:
        """Return what the table in sight tells screen readers, cell by cell."""
        table = self.tab.get_by_test_id("stDataFrame").filter(visible=True).first
        cells = table.locator("td[role='gridcell']")
        cells.first.wait_for(state="attached")
        return cells.all_inner_texts()
