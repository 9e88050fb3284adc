"""Dagster's pages work behind the guard: none of their own requests is refused."""

import threading

import pytest

from tests.browser.dagster_api import new_run, runs
from tests.browser.sites import shot

OF_ASSETS = "__ASSET_JOB"
"""What Dagster calls the job of a run that materialises assets."""


@pytest.fixture
def refused(tab):
    """The answers of 4xx and 5xx that a tab gets."""
    seen: list[str] = []
    tab.on(
        "response",
        lambda answer: (
            seen.append(f"{answer.status} {answer.request.method} {answer.url}")
            if answer.status >= 400
            else None
        ),
    )
    return seen


def test_materialize_and_repeat_from_the_pages(tab, site, refused):
    before = runs(site)
    sockets: list[str] = []
    tab.on("websocket", lambda socket: sockets.append(socket.url))
    tab.goto(f"{site.dagster}/assets/documents/index")
    tab.get_by_role("button", name="Materialize").first.click()
    tab.get_by_role("button", name="Confirm").click()  # four assets are one function
    dialog = tab.get_by_role("dialog")
    dialog.get_by_text("All", exact=True).click()  # nothing upstream is missing
    shot(tab, "dagster-materialize")
    dialog.get_by_role("button", name="Launch 1 run").click()
    run = new_run(site, before, OF_ASSETS)
    tab.goto(f"{site.dagster}/runs/{run}")
    tab.get_by_text("Success", exact=True).first.wait_for()
    shot(tab, "dagster-run")
    before = runs(site)
    tab.get_by_role("button", name="Re-execute all").first.click()
    assert new_run(site, before, OF_ASSETS) != run
    assert sockets and all(url.startswith(site.dagster.replace("http", "ws")) for url in sockets)
    assert refused == [] and tab.seen.foreign == []


@pytest.fixture
def other_page():
    """The address of an empty page of somebody else, on another port of this machine."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>elsewhere</title>")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


KNOCK = """async address => {
  const image = new Image(), frame = document.createElement('iframe');
  const mutation = encodeURIComponent('mutation { __typename }');
  const shown = new Promise(done => { image.onload = () => done(true);
                                      image.onerror = () => done(false); });
  image.src = address + '/graphql?query=' + mutation;
  frame.src = address + '/runs';
  const framed = new Promise(done => { frame.onload = done; });
  document.body.append(image, frame);
  const socket = new WebSocket(address.replace('http', 'ws') + '/graphql', 'graphql-ws');
  const opened = new Promise(done => { socket.onopen = () => done(true);
                                       socket.onerror = () => done(false); });
  const post = {method: 'POST', mode: 'no-cors', body: '{"query": "{ version }"}'};
  await fetch(address + '/graphql', post).catch(() => 0);
  await framed;
  return [await shown, await opened];
}"""


def test_other_pages_do_not_reach_it(browser, site, other_page):
    before = runs(site)
    context = browser.new_context()
    page = context.new_page()
    answers: list[tuple[str, int]] = []
    page.on(
        "response",
        lambda a: (
            answers.append((a.request.resource_type, a.status))
            if a.url.startswith(site.dagster)
            else None
        ),
    )
    page.goto(other_page)
    assert page.evaluate(KNOCK, site.dagster) == [False, False]
    assert {kind for kind, _ in answers} >= {"document", "fetch"}
    assert {status for _, status in answers} == {403}, answers
    context.close()
    assert set(runs(site)) == set(before)


def test_a_link_of_the_page_leads_into_dagster(tab, site, other_page):
    tab.goto(other_page)
    tab.evaluate("address => { location.href = address + '/runs' }", site.dagster)
    tab.get_by_text("Runs", exact=True).first.wait_for()
