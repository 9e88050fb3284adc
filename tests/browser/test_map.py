"""The view Map in a browser: dots to point at and to click; foreign text stays text."""

import csv
import io
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.sites import LOCKS, Site, running, shot

EVIL = "<img src=x onerror=alert(1)>.md"
TEXT = "# Odd\n\n![p](http://evil.example/p.png) <script>alert(1)</script> <b>bold</b>\n"
WAIT_S = 90.0


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    data = tmp_path_factory.mktemp("map") / "data"
    raw = Site(data, "", "", {})
    raw.write("manual", "locks.md", LOCKS)
    raw.write("manual", EVIL, TEXT)
    with running(data, ingest=["manual"], page_alone=True) as started:
        yield started


def dots(tab: Page) -> list[dict[str, float]]:
    """Return the middle of each dot on the screen."""
    found = tab.locator("[data-testid='stVegaLiteChart'] .mark-symbol.role-mark path")
    boxes = [found.nth(n).bounding_box() for n in range(found.count())]
    return [{"x": b["x"] + b["width"] / 2, "y": b["y"] + b["height"] / 2} for b in boxes if b]


def test_a_map_is_drawn_pointed_at_and_read(site: Site, tab: Page):
    tab.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    tab.goto(site.page)
    tab.get_by_role("tab", name="Map").click()
    tab.get_by_text("each dot is a passage").wait_for(timeout=WAIT_S * 1000)
    tab.get_by_role("button", name="Draw").click()
    tab.get_by_text("Point at a dot").wait_for(timeout=WAIT_S * 1000)
    tab.locator("[data-testid='stVegaLiteChart'] .mark-symbol.role-mark path").first.wait_for()
    shown: dict[str, dict[str, float]] = {}
    tip = tab.locator("#vg-tooltip-element.visible")
    for dot in dots(tab):
        tab.mouse.move(0, 0)
        tip.wait_for(state="detached")  # else it may still say what the dot before is
        tab.mouse.move(dot["x"], dot["y"])
        tip.wait_for()
        shown[tip.inner_text()] = dot
    assert sum("locks.md" in text for text in shown) >= 1
    (evil,) = (text for text in shown if EVIL in text)
    assert "<script>alert(1)</script>" in evil
    assert tab.locator("#vg-tooltip-element img, #vg-tooltip-element b").count() == 0
    tab.mouse.click(shown[evil]["x"], shown[evil]["y"])
    tab.get_by_text(f"manual/{EVIL} · chunk 0").wait_for(timeout=WAIT_S * 1000)
    tab.locator("[data-testid='stCode']", has_text="evil.example").wait_for()
    shot(tab, "map-passage")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="CSV").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert {row["file"] for row in rows} == {"locks.md", EVIL} and len(rows) == len(shown)
    assert not tab.seen.foreign
