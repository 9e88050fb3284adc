"""Documents come in by the page, are asked, and an answer's citation leads back to them."""

import json
import re
import threading

import pytest
from playwright.sync_api import expect

from tests.browser.sites import shot
from tests.browser.walk import Walk
from tests.model_server import COUNTED, DONE, STOP, event, streamed
from tests.unit.ingestion.test_documents import pdf_of

NOTE = "# Heat pump\n\nThe heat pump of the north wing is serviced every April by two persons.\n"
COVER = "The papers of the heat pump."
PAGE = "The pressure vessel of the heat pump is tested at twelve bar before winter."
QUESTION = "When is the heat pump serviced, and at how many bar is its pressure vessel tested?"
CITED = re.compile(r'<<DOC \d+ \w+ id="(\w+)" source="([^"]+)"')
EDIT = "\n\nAnswer in one line: naïve, “quoted”, <b>& plain</b> 東京 🚀"


@pytest.fixture
def walk(tab, site):
    return Walk(tab, site).open()


def prompt_of(request) -> str:
    """Return what a request to the model asks, as one text."""
    return request[2]["messages"][-1]["content"]


def citing(llm, gate):
    """Answer with a citation of each passage that the prompt shows; the end waits for a look."""

    def answer(handler):
        shown = CITED.findall(prompt_of(llm.seen[-1]))
        handler.head(content_type="text/event-stream", connection="close")
        first = event("It is serviced **every April**, " + "and again, " * 20)
        handler.wfile.write(first)
        handler.wfile.flush()
        gate.wait(240)
        marks = " ".join(f"[source: {source}, chunk: {short}]" for short, source in shown)
        for block in (event(f"at twelve bar {marks}."), STOP, COUNTED, DONE):
            handler.wfile.write(block)

    return answer


def test_upload_ingest_ask_and_open_a_citation(walk, site, llm):
    gate = threading.Event()
    llm.answers = [citing(llm, gate)]
    walk.button("New project").click()
    walk.box("Name").fill("plant")
    walk.box("Name").press("Enter")
    walk.button("Create").click()
    walk.tab.get_by_role("button", name="Remove plant").wait_for()
    walk.tab.keyboard.press("Escape")
    walk.tab.get_by_role("button", name="Remove manual").click()
    walk.sees("is empty. Press")
    drop = walk.tab.get_by_test_id("stFileUploaderDropzoneInput")
    walk.opens(walk.button("Upload"), drop).set_input_files([
        {"name": "service plan.md", "mimeType": "text/markdown", "buffer": NOTE.encode()},
        {"name": "../../tests.pdf", "mimeType": "application/pdf", "buffer": pdf_of(COVER, PAGE)},
    ])  # fmt: skip
    walk.sees("service plan.md: saved as uploads/")
    walk.tab.keyboard.press("Escape")
    walk.ingested(2)
    shot(walk.tab, "ingest-uploaded")
    kept = sorted(path.name for path in (site.data / "doc_raw" / "plant").rglob("*.*"))
    assert [name.rpartition(".")[2] for name in kept] == ["md", "pdf"]
    assert not (site.data / "tests.pdf").exists()

    text = walk.ask(QUESTION)
    shown = CITED.findall(text)
    assert {source.rpartition(".")[2] for _, source in shown} == {"md", "pdf"}

    walk.show("Answer")
    expect(walk.button("Send")).to_be_enabled()
    walk.button("Send").click()
    walk.sees("every April")
    walk.sees("toy-1 is answering")
    shot(walk.tab, "answer-streaming")
    gate.set()
    walk.sees("complete, toy-1")
    walk.sees(f"{len(shown)} of {len(shown)} citations verified")
    walk.tab.get_by_role("button", name="✓").filter(has_text=".pdf p. 2").click()
    expect(walk.tab.locator("tr.cited").filter(has_text="twelve bar").first).to_be_visible()
    shot(walk.tab, "answer-citation")
    walk.button("Open page 2").click()
    picture = walk.tab.get_by_role("dialog").get_by_role("img")
    picture.wait_for()
    expect(picture).to_have_js_property("complete", True)
    assert picture.evaluate("e => e.naturalWidth") > 1000
    shot(walk.tab, "answer-citation-page")
    walk.tab.keyboard.press("Escape")
    picture.wait_for(state="detached")
    assert walk.tab.seen.foreign == []


def test_what_was_edited_is_what_is_sent(walk, llm):
    llm.answers = [streamed("Noted.")]
    built = walk.ask("How does the exact file lock restrict a prompt?")
    walk.view("Raw")
    walk.write("Super-Prompt", built + EDIT)
    walk.button("Edited").wait_for()
    walk.show("Answer")
    expect(walk.button("Send")).to_be_enabled()
    assert walk.super_prompt() == built + EDIT
    shot(walk.tab, "edit-before-send")
    sent = len(llm.seen)
    walk.button("Send").click()
    walk.sees("complete, toy-1")
    messages = llm.seen[-1][2]["messages"]
    assert len(llm.seen) == sent + 1 and "".join(m["content"] for m in messages) == built + EDIT, (
        json.dumps(messages)[:2000]
    )
