"""The page in a real browser."""

from __future__ import annotations

from tests.browser.sites import shot


def test_the_page_opens_and_asks_nobody_else(tab, site):
    tab.goto(site.page)
    tab.get_by_text("RAGstream", exact=True).first.wait_for()
    tab.get_by_role("button", name="Run all").wait_for()
    shot(tab, "page-first")
    assert tab.seen.foreign == []
