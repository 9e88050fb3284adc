"""The view Memory in a browser: a fact waits with its quote, one click makes it a line."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.sites import LOCKS, Site, running, shot

SAID = "I'm a project finance analyst at Contoso. Every Friday we review the open incidents."
EVIL = "I prefer <img src=x onerror=alert(1)> reports by [mail](http://evil.example/)."
WAIT_S = 90.0


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    data = tmp_path_factory.mktemp("memory") / "data"
    Site(data, "", "", {}).write("manual", "locks.md", LOCKS)
    with running(data, ingest=["manual"], page_alone=True) as started:
        for text in (SAID, EVIL):
            started.ragstream("history", "append", "--session", "s", "--user", text)
        yield started


def test_a_fact_is_found_and_accepted(site: Site, tab: Page):
    tab.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    tab.goto(site.page)
    tab.get_by_role("tab", name="Memory").click()
    tab.get_by_role("button", name="Look for facts").click(timeout=WAIT_S * 1000)
    tab.get_by_text("you said: I'm a project finance analyst at Contoso").wait_for()
    tab.get_by_text("<img src=x onerror=alert(1)> reports").first.wait_for()
    assert tab.locator("[data-testid='stMain'] img").count() == 0
    shot(tab, "memory-waiting")
    tab.get_by_role("button", name="Accept").first.click()
    tab.get_by_text("Remembered: these lines stand in every prompt.").wait_for()
    expect(tab.get_by_role("button", name="Forget")).to_have_count(1)
    shot(tab, "memory-remembered")
    assert "project finance analyst" in site.ragstream("memory", "show")
    tab.get_by_role("button", name="Forget").click()
    tab.get_by_text("Nothing is remembered.").wait_for()
    assert "user: nothing" in site.ragstream("memory", "show")
