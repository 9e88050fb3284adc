"""The page of a PDF behind a citation: shown as a picture of the bytes that were indexed."""

import io
import json
import re

import pytest
from PIL import Image

from ragstream_core.errors import InputUnavailable, UnknownProject
from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.page_image import page_png
from ragstream_core.records.identity import sha256_hex
from ragstream_core.services import trace
from ragstream_core.services.passages import has_pages, page_picture
from ragstream_core.wiring.workspace import open_workspace
from tests.app.page_driver import ask, choose_row, click, control, desk, open_page, run
from tests.model_server import streamed
from tests.unit.ingestion.test_documents import pdf_of

ONE = "The pressure vessel is tested at twelve bar."
TWO = "The heat pump of the north wing is serviced every April."
CITED = re.compile(r'<<DOC \d+ \w+ id="(\w+)" source="([^"]+)"')
QUESTION = "When is the heat pump of the north wing serviced?"


@pytest.fixture
def plant(data, run):
    """A project with a PDF of two pages, ingested."""
    folder = data / "doc_raw" / "plant"
    folder.mkdir()
    (folder / "plan.pdf").write_bytes(pdf_of(ONE, TWO))
    assert run("ingest", "plant")[0] == 0
    return folder / "plan.pdf"


def picture_of(data):
    with Image.open(io.BytesIO(data)) as found:
        return found.size, found.convert("RGB").tobytes()


def test_each_page_has_its_own_picture(plant):
    space, sha = open_workspace(), sha256_hex(plant.read_bytes())
    one, two = (
        picture_of(page_picture(space, "plant", "plan.pdf", sha256=sha, page=n)) for n in (1, 2)
    )
    assert one[0] == two[0] and one[1] != two[1]
    width, height = one[0]
    assert 1000 < width <= 1240 and 1000 < height <= 1754
    assert len(set(one[1])) > 2  # there is something on it


def test_a_document_in_place_shows_its_page_as_a_copy_does(plant, run, tmp_path):
    folder, sha = tmp_path / "plans", sha256_hex(plant.read_bytes())
    folder.mkdir()
    (folder / "plan.pdf").write_bytes(plant.read_bytes())
    assert run("project", "add", "plans", str(folder))[0] == 0
    assert run("ingest", "plans")[0] == 0
    row = json.loads(run("search", QUESTION, "-p", "plans", "--json")[1])[0]
    assert row["location"] == str(folder / "plan.pdf") and row["snippet"] == TWO
    one, other = (
        page_picture(open_workspace(), name, "plan.pdf", sha256=sha, page=2)
        for name in ("plant", "plans")
    )
    assert one == other


def test_a_page_that_is_not_there_is_said(plant):
    space, sha = open_workspace(), sha256_hex(plant.read_bytes())
    with pytest.raises(InputUnavailable, match="page 3 of plant/plan.pdf cannot be shown"):
        page_picture(space, "plant", "plan.pdf", sha256=sha, page=3)


def test_a_changed_file_shows_no_page(plant):
    space, sha = open_workspace(), sha256_hex(plant.read_bytes())
    plant.write_bytes(pdf_of(TWO, ONE))
    with pytest.raises(InputUnavailable, match="changed since it was indexed"):
        page_picture(space, "plant", "plan.pdf", sha256=sha, page=1)
    plant.unlink()
    with pytest.raises(InputUnavailable, match="cannot be read"):
        page_picture(space, "plant", "plan.pdf", sha256=sha, page=1)


@pytest.mark.parametrize("path", ["../plant/plan.pdf", "/etc/passwd", "link.pdf"])
def test_no_page_of_a_file_outside_is_shown(plant, path):
    (plant.parent / "link.pdf").symlink_to(plant)
    sha = sha256_hex(plant.read_bytes())
    with pytest.raises(InputUnavailable):
        page_picture(open_workspace(), "plant", path, sha256=sha, page=1)
    with pytest.raises(UnknownProject):
        page_picture(open_workspace(), "no-such", "plan.pdf", sha256=sha, page=1)


@pytest.mark.parametrize("data", [b"", b"%PDF-1.7 junk", b"<svg onload=alert(1)>", b"\x89PNG\r\n"])
def test_what_is_no_pdf_gives_a_reason(data):
    picture, problem = page_png(data, 1)
    assert picture == b"" and problem


def test_a_huge_page_is_drawn_small_and_within_the_limits():
    from reportlab.pdfgen import canvas

    made = io.BytesIO()
    paper = canvas.Canvas(made, pagesize=(14_000, 14_000))
    paper.drawString(100, 100, ONE)
    paper.save()
    picture, problem = page_png(made.getvalue(), 1)
    assert not problem and max(picture_of(picture)[0]) <= 1754
    none, reason = page_png(made.getvalue(), 1, Limits(memory_bytes=20_000_000))
    assert none == b"" and reason


def test_only_a_pdf_has_pages_to_show():
    assert has_pages("a/b.PDF") and not has_pages("a.pptx") and not has_pages("a.pdf.md")


def test_the_trace_of_a_citation_leads_to_the_page(plant, run):
    made = json.loads(run("prompt", QUESTION, "-p", "plant", "--json")[1])
    space = open_workspace()
    pages = {}
    for identifier in made["selection"]:
        found = trace.trace(space, identifier, made["prompt_key"])
        place = (found.project, found.path)
        pages[found.page] = page_picture(space, *place, sha256=found.sha256, page=found.page)
    assert set(pages) == {1, 2} and pages[1] != pages[2]


def test_a_chosen_candidate_opens_its_page(plant):
    page = open_page()
    control(page, "multiselect", "Projects").set_value(["plant"])
    click(ask(run(page), QUESTION), "Build prompt")
    ids = list(page.dataframe[0].value["chunk_id"])
    meta = {c.id: c.meta for c in desk(page).last.super_prompt.base_context_chunks}
    wanted = next(i for i in ids if meta[i]["page_number"] == 2)
    page.session_state["chosen decisions"] = wanted
    choose_row(page, "decisions ", ids.index(wanted))
    assert not page.get("image")
    click(page, "Open page 2")
    assert len(page.get("image")) == 1


def citing(handler):
    """Answer with a citation of every passage that the prompt shows."""
    shown = CITED.findall(handler.server.seen[-1][2]["messages"][-1]["content"])
    marks = " ".join(f"[source: {source}, chunk: {short}]" for short, source in shown)
    streamed(f"Every April {marks}.")(handler)


@pytest.mark.parametrize("persist", [True, False])
def test_a_citation_of_an_answer_opens_its_page(plant, server, persist):
    server.answers = [citing]
    page = open_page()
    if not persist:
        control(page, "checkbox", "Persist history").uncheck()
    control(page, "multiselect", "Projects").set_value(["plant"])
    click(ask(run(page), QUESTION), "Build prompt")
    click(page, "Send")
    assert page.session_state["answer_job"].wait(240)
    cited = next(b for b in run(page).button if "plan.pdf p. 2 [" in b.label)
    cited.click()
    run(page)
    click(page, "Open page 2")
    assert len(page.get("image")) == 1
    plant.write_bytes(pdf_of("Something else."))
    run(page)
    assert not page.get("image")  # it is closed with the next thing that is done
    if persist:
        click(page, "Open page 2")
        assert "changed since it was indexed" in page.error[0].value and not page.get("image")
    else:
        assert not any(b.label.startswith("Open page") for b in page.button)


def test_the_command_line_names_the_page_of_a_citation(plant, server, run):
    server.answers = [citing]
    code, out, err = run("ask", QUESTION, "-p", "plant")
    assert code == 0, err
    assert re.search(r"^  plan\.pdf p\. 2 \[[0-9a-f]{8}\]: ", out, re.MULTILINE), out
