"""A real browser on a real `ragstream up`: Chromium without a window, everything on loopback.

Screenshots go to ``build/screenshots/``; a failed test leaves one of what it saw. Where Chromium is
missing the tests are skipped, and say so; with ``BROWSER=required`` they fail instead.
"""

import os
import shutil
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.sites import CITATIONS, LOCKS, Seen, Site, running, shot
from tests.browser.walk import SLOW_MS
from tests.model_server import Server, serving

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
SIZE = {"width": 1280, "height": 800}
expect.set_options(timeout=SLOW_MS)


@pytest.fixture(scope="session")
def llm() -> Iterator[Server]:
    """A language model's server on loopback that says what a test tells it to."""
    with serving() as made:
        yield made


@pytest.fixture(scope="session")
def site(llm: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`ragstream up` over one ingested project, `manual`; shared by the tests of a worker."""
    data = tmp_path_factory.mktemp("site") / "data"
    raw = Site(data, "", "", {})
    raw.write("manual", "guide/locks.md", LOCKS)
    raw.write("manual", "guide/citations.md", CITATIONS)
    raw.write("manual", "settings.yaml", "retrieval:\n  top_k: 50\n")
    model = {"RAGSTREAM_PROVIDER__BASE_URL": llm.url, "RAGSTREAM_PROVIDER__MODEL": "toy-1"}
    with running(data, environment=model, ingest=["manual"]) as site:
        yield site


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window; its event loop must not outlive the file, others need theirs."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        missing = "Chromium is not installed: apt-get install chromium"
        assert os.environ.get("BROWSER") != "required", missing
        pytest.skip(missing)
    with sync_playwright() as player:
        chromium = player.chromium.launch(executable_path=path, args=list(QUIET))
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Browser, site: Site, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A fresh tab of 1280 × 800; `tab.seen` holds the requests that went to other hosts."""
    context = browser.new_context(viewport=SIZE, accept_downloads=True)
    context.set_default_timeout(SLOW_MS)
    page = context.new_page()
    page.seen = Seen({urlsplit(url).netloc for url in (site.page, site.dagster)})
    context.on("request", lambda sent: page.seen.note(sent.url))
    yield page
    if getattr(request.node, "failed", False):
        shot(page, f"failed-{request.node.name}")
    context.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Tell the fixtures whether the test failed."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call":
        item.failed = report.failed
