"""Hostile answers and documents in a real browser: nothing is fetched, drawn or launched."""

import re
import threading
import time
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from ragstream_core.text.markup import TAGS, answer_html
from tests.app.hostile_answers import EVIL, HOST, PAYLOADS
from tests.browser.sites import LOCKS, Seen, Site, running, shot
from tests.browser.walk import Walk
from tests.model_server import COUNTED, DONE, STOP, event, serving

QUESTION = "How does the exact file lock restrict a prompt?"
PIECE = 40
WAIT_S = 60.0
DRAWN = "div[data-testid='stHtml'] > div"


@pytest.fixture(scope="module")
def server():
    """A language model that says what a hostile document would like it to say."""
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def hostile(server, tmp_path_factory):
    """The page over documents whose texts and names are hostile as well."""
    data = tmp_path_factory.mktemp("hostile") / "data"
    raw = Site(data, "", "", {})
    raw.write("manual", "locks.md", LOCKS)
    raw.write("manual", "<img src=x>.md", "# Exact file lock\n\n" + "\n\n".join(PAYLOADS[:25]))
    raw.write(
        "manual", "![x](y).md", "# File lock\n\n" + "\n\n".join(PAYLOADS[25:]).replace("\0", "")
    )
    environment = {
        "RAGSTREAM_PROVIDER__BASE_URL": server.url,
        "RAGSTREAM_PROVIDER__MODEL": "toy-1",
    }
    with running(data, environment=environment, ingest=["manual"], page_alone=True) as site:
        yield site


@pytest.fixture
def reader(browser, hostile):
    """A tab that counts every request which leaves the page's own server."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(WAIT_S * 1000)
    page = context.new_page()
    page.seen = Seen({urlsplit(hostile.page).netloc})
    context.on("request", lambda sent: page.seen.note(sent.url))
    yield page
    context.close()


def hostile_answer(handler, seen):
    """Say all payloads and cite all that the prompt shows, in pieces; half of it waits for a look.

    Args:
        handler: Of the request.
        seen: Set once the first half was looked at.
    """
    user = handler.server.seen[-1][2]["messages"][-1]["content"]
    shown = re.findall(r'<<DOC \d+ \w+ id="(\w+)" source="([^"]+)"', user)
    markers = "".join(f" [source: {source}, chunk: {identifier}]" for identifier, source in shown)
    text = "\n\n".join([*PAYLOADS, f"Cited{markers} [source: x, chunk: 00000000]. The end."])
    pieces = [event(text[at : at + PIECE]) for at in range(0, len(text), PIECE)]
    handler.head(content_type="text/event-stream", connection="close")
    for number, piece in enumerate([*pieces, STOP, COUNTED, DONE]):
        if number == len(pieces) // 2:
            seen.wait(WAIT_S)
        handler.wfile.write(piece)
        handler.wfile.flush()
        time.sleep(0.03)


def test_hostile_documents_and_answers_are_text_at_every_look(reader, hostile, server):
    seen = threading.Event()
    server.answers = [lambda handler: hostile_answer(handler, seen)]
    walk = Walk(reader, hostile).open()
    walk.ask(QUESTION)
    walk.show("Answer")
    expect(walk.button("Send")).to_be_enabled()
    walk.button("Send").click()
    reader.get_by_text("is answering").wait_for()
    reader.get_by_text("tracker.invalid/inline.png").last.wait_for()
    shot(reader, "answer-hostile-streaming")
    seen.set()
    reader.get_by_text("complete, toy-1").wait_for()
    shown = reader.locator(DRAWN).last
    assert "tracker.invalid" in shown.inner_text() and "The end." in shown.inner_text()
    tags = shown.evaluate("e => [...e.querySelectorAll('*')].map(n => n.localName)")
    assert set(tags) <= TAGS
    passages = reader.get_by_role("button", name="✓")
    assert passages.count() >= 2
    opened = reader.get_by_text("file unchanged since")
    for number in range(passages.count()):
        walk.opens(passages.nth(number), opened)
        shot(reader, "answer-hostile")
        walk.closes(passages.nth(number), opened)
    for name in ("Transparency", "Tokens", "Conversation"):
        walk.show(name)
        reader.wait_for_timeout(1000)
        shot(reader, f"hostile-{name.lower()}")
    hosts = reader.evaluate(
        "[...document.querySelectorAll('[src],[href]')].map(e => e.src || e.href)"
    )
    assert not [address for address in hosts if HOST in str(address)]
    assert reader.seen.foreign == []


def test_every_prefix_of_every_payload_fetches_nothing(reader, hostile):
    """Put into the page as it is, without the cleaning that Streamlit does besides."""
    reader.route("**/blank", lambda route: route.fulfill(body="<div id=here></div>",
                                                         content_type="text/html"))  # fmt: skip
    reader.goto(f"{hostile.page}/blank")
    put = "all => { for (const one of all) { here.innerHTML = one } return all.length }"
    htmls = [answer_html(text[:end]) for text in PAYLOADS for end in range(len(text) + 1)]
    assert reader.evaluate(put, htmls) == len(htmls) > 2000
    reader.wait_for_timeout(500)
    assert reader.seen.foreign == []
    reader.evaluate(put, [f"<img src={EVIL}/control.png>"])
    reader.wait_for_timeout(500)
    assert reader.seen.foreign == [f"{EVIL}/control.png"]  # the log does see what is fetched
