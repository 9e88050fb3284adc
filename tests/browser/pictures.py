"""Makes the pictures of the handbook: `make pictures`.

A real `ragstream up` over the handbook, with the embeddings that `make demo` has, driven in
Chromium; a small model server of ours stands where a person's language model would.
"""

import contextlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import NAMES, QUIET, SIZE
from tests.browser.dagster_api import new_run, runs
from tests.browser.sites import ROOT, Site, running
from tests.browser.walk import SLOW_MS, Walk
from tests.model_server import COUNTED, DONE, STOP, event, serving
from tests.unit.conversations.importers.exports import two_turns, write_json

IMAGES = ROOT / "docs" / "images"
QUESTION = (
    "## Task\nHow does the Exact File Lock restrict a prompt, and what happens to retrieval?\n\n"
    "## Audience\na new colleague\n"
)
CHAT_QUESTION = "How does the Exact File Lock restrict a prompt, and what happens to retrieval?"
REPLY = "Keep the lock off while you explore, and switch it on once you know the two files."
NOTE = "# Kitchen\n\nThe coffee machine is descaled on Mondays.\n"
CITED = re.compile(r'<<DOC \d+ \w+ id="(\w+)" source="([^"]+)"')
MODEL = "llama3.1:8b"
MOST_BYTES = 200_000
STATES_MS = 8_000
"""After which the graph has the states of its assets; only its colours say so."""


def main() -> None:
    """Make all pictures anew."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, handbook(Path(folder)) as site, chromium() as b:
        page_pictures(b, site)
        dagster_pictures(b, site)


@contextlib.contextmanager
def handbook(folder: Path) -> Iterator[Site]:
    """Start everything over a copy of the handbook."""
    data = folder / "data"
    shutil.copytree(ROOT / "data" / "doc_raw" / "handbook", data / "doc_raw" / "handbook")
    for kept in ("models", "projects"):
        if (ROOT / "data" / kept).is_dir():
            shutil.copytree(ROOT / "data" / kept, data / kept, symlinks=True)
    with serving(explain) as server:
        environment = {
            "RAGSTREAM_PROVIDER__BASE_URL": server.url,
            "RAGSTREAM_PROVIDER__MODEL": MODEL,
            "RAGSTREAM_EMBEDDINGS__BACKEND": "onnx",
            "RAGSTREAM_RERANK__BACKEND": "auto",
            "RAGSTREAM_VECTOR_STORE__COLLECTION": "true",
        }
        with running(data, environment=environment, ingest=["handbook"]) as site:
            yield site


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium without a window."""
    path = next(filter(None, map(shutil.which, NAMES)))
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()


def explain(handler) -> None:
    """Answer as a model would, citing what the prompt shows."""
    text = handler.server.seen[-1][2]["messages"][-1]["content"]
    marks = [f"[source: {name}, chunk: {short}]" for short, name in CITED.findall(text)]
    lines = [
        f"With the **Exact File Lock** on, only the files you inject may be used {marks[0]}. ",
        f"Retrieval is skipped: nothing is searched, ranked or gated {marks[1]}.\n\n",
        "| | lock off | lock on |\n|---|---|---|\n",
        "| retrieval | runs | skipped |\n| injected files | first | alone |\n\n",
        f"Use it when the answer must rest on named files and on nothing else {marks[2]}.",
    ]
    handler.head(content_type="text/event-stream", connection="close")
    for block in (*map(event, lines), STOP, COUNTED, DONE):
        handler.wfile.write(block.replace(b"toy-1", MODEL.encode()))


def page_pictures(browser: Browser, site: Site) -> None:
    """Go through the page and take its pictures."""
    with tab(browser) as page:
        walk = Walk(page, site).open()
        keep(page, "page-first")
        walk.ask(QUESTION)
        walk.show("Tokens")
        walk.cells()
        keep(page, "page-super-prompt")
        page.get_by_role("radio", name="Rendered").click()
        page.locator(".st-key-rendered_prompt").get_by_role("button").first.click()
        page.locator(".st-key-passage_side mark").first.wait_for()
        keep(page, "page-rendered")
        page.get_by_role("radio", name="Raw").click()
        walk.idle()
        walk.show("Transparency")
        walk.cells()
        scrolled(page, "Decisions")
        keep(page, "page-transparency")
        walk.show("Prompt Shaper")
        scrolled(page, "Transparency")
        keep(page, "page-shaper")
        walk.show("Answer")
        walk.button("Send").click()
        walk.sees(f"complete, {MODEL}")
        walk.idle()
        page.get_by_role("button", name="✓").first.click()
        walk.sees("file unchanged since")
        scrolled(page, "Transparency")
        keep(page, "page-answer")
        walk.show("Conversation")
        walk.write("External Reply", REPLY)
        walk.button("Send to History").click()
        walk.sees(" is kept, id ")
        walk.idle()
        scrolled(page, "Transparency")
        keep(page, "page-conversation")
        import_picture(walk)
    chat_picture(browser, site)
    with tab(browser, dark=True) as page:
        walk = Walk(page, site).open()
        walk.ask(QUESTION)
        walk.show("Tokens")
        walk.cells()
        keep(page, "page-dark")


def import_picture(walk: Walk) -> None:
    """Look at an export without adding it, and take a picture of that."""
    write_json(
        walk.site.data.parent / "conversations.json",
        [two_turns(title="Locking an index"), two_turns("c-2", "Ports of the web servers")],
    )
    dialog = walk.tab.get_by_role("dialog")
    walk.opens(walk.button("Import"), dialog)
    walk.box("Or a path on this machine").fill(str(walk.site.data.parent / "conversations.json"))
    walk.box("Or a path on this machine").blur()
    walk.button("See what would come").click()
    walk.button("Add 4 turns").wait_for()
    keep(walk.tab, "page-import")
    walk.tab.keyboard.press("Escape")
    dialog.wait_for(state="detached")


def chat_picture(browser: Browser, site: Site) -> None:
    """Ask one question in the chat and take its picture."""
    with tab(browser) as page:
        Walk(page, site).open()
        page.get_by_role("tab", name="Chat", exact=True).click()
        box = page.get_by_test_id("stChatInputTextArea")
        box.fill(CHAT_QUESTION)
        box.press("Enter")
        page.get_by_role("button", name="Open in Prompt").wait_for()
        keep(page, "page-chat")


def dagster_pictures(browser: Browser, site: Site) -> None:
    """Go through Dagster's pages and take their pictures."""
    with tab(browser) as page:
        words = (f"{QUESTION} Which page says so?", "-p", "handbook", "--dagster", "--json")
        run = json.loads(site.ragstream("prompt", *words))["run_id"]
        page.goto(f"{site.dagster}/locations/ragstream/asset-groups/documents/lineage")
        page.get_by_text("chroma_collection").first.wait_for()
        page.wait_for_timeout(STATES_MS)
        keep(page, "dagster-assets")
        page.goto(f"{site.dagster}/assets/documents/index")
        page.get_by_text("committed").first.wait_for()
        keep(page, "dagster-index")
        page.goto(f"{site.dagster}/runs/{run}")
        page.get_by_text("RUN_SUCCESS").wait_for()
        keep(page, "dagster-prompt-run")
        page.goto(f"{site.dagster}/locations/ragstream/jobs/build_prompt/playground")
        page.get_by_text("No errors").wait_for()
        keep(page, "dagster-launchpad")
        page.goto(f"{site.dagster}/assets/history/embeddings")
        page.get_by_role("button", name="Materialize").first.click()
        page.get_by_role("dialog").get_by_text("Latest", exact=True).click()
        keep(page, "dagster-backfill")
        before = runs(site)
        site.write("handbook", "kitchen.md", NOTE)
        new_run(site, before, "ingest_documents")
        page.goto(f"{site.dagster}/locations/ragstream/sensors/folder_sensor")
        page.get_by_text("folder_sensor").first.wait_for()
        page.wait_for_timeout(STATES_MS)
        keep(page, "dagster-sensor")


@contextlib.contextmanager
def tab(browser: Browser, *, dark: bool = False) -> Iterator[Page]:
    """Open a tab of 1280 × 800."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport=SIZE, color_scheme=scheme)
    context.set_default_timeout(SLOW_MS)
    yield context.new_page()
    context.close()


def scrolled(page: Page, name: str) -> None:
    """Bring a row of tabs to the upper edge."""
    row = page.get_by_role("tab", name=name, exact=True)
    row.evaluate("tab => tab.scrollIntoView({block: 'start'})")


def keep(page: Page, name: str) -> None:
    """Take a picture once nothing moves; its colours are counted down to 256.

    Raises:
        AssertionError: It is too large for a handbook.
    """
    page.mouse.move(2, 2)
    path, last = IMAGES / f"{name}.png", b""
    for _ in range(20):
        now = page.screenshot(animations="disabled", caret="hide")
        if now == last:
            break
        last = now
        page.wait_for_timeout(500)
    path.write_bytes(last)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    assert path.stat().st_size < MOST_BYTES, name


if __name__ == "__main__":
    main()
