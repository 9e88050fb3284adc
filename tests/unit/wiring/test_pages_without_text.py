"""Pages and parts without text are named by reports, status and prompts that show the file."""

from ragstream_core.services.ingest import ingest_project
from ragstream_core.wiring.ingestion import status
from tests.unit.ingestion.office_files import docx, paragraph, run
from tests.unit.ingestion.pdf_files import drawn
from tests.workspaces import ask, hashed_workspace, write_docs

PAGES = "page 2 of 3 has no text"


def picture(made):
    made.rect(50, 400, 500, 250, fill=1)


def test_status_and_prompts_name_them(tmp_path):
    write_docs(tmp_path)
    words = [(60, 700, "The torque of the wheel nut of the loader is 12 Nm.")]
    more = [(60, 700, "Grease the thread of the wheel nut before it is mounted.")]
    (tmp_path / "doc_raw/demo/manual.pdf").write_bytes(drawn(words, picture, more))
    space = hashed_workspace(tmp_path)
    ingest_project(space, "demo")
    assert status(space, "demo").to_json()["without_text"] == (("manual.pdf", PAGES),)
    shown = ask(space, "What is the torque of the wheel nut of the loader?")
    told = [warning.message for warning in shown.extras.warnings]
    assert f"manual.pdf: {PAGES}, so nothing on it is found" in told
    other = ask(space, "What does the catalog hold? file:catalog.md")
    assert not any(PAGES in warning.message for warning in other.extras.warnings)


def test_pictures_and_charts_of_a_word_file_are_named(tmp_path):
    write_docs(tmp_path)
    drawing = '<w:r><w:drawing><a:x xmlns:a="{}"><a:{}/></a:x></w:drawing></w:r>'
    names = "http://schemas.openxmlformats.org/drawingml/2006/"
    parts = drawing.format(f"{names}main", "blip") + drawing.format(f"{names}chart", "chart")
    text = paragraph(run("The torque of the wheel nut of the loader is 12 Nm.") + parts)
    changed = paragraph(f"<w:ins>{run('Grease the thread of the wheel nut.')}</w:ins>")
    (tmp_path / "doc_raw/demo/manual.docx").write_bytes(docx(text, changed))
    space = hashed_workspace(tmp_path)
    told = ingest_project(space, "demo").warnings
    unread = "manual.docx: 1 picture and 1 chart are not read, so nothing in them is found"
    assert unread in told
    assert "manual.docx: tracked changes read as accepted: 1" in told
    shown = ask(space, "What is the torque of the wheel nut of the loader?")
    assert unread in [warning.message for warning in shown.extras.warnings]
    again = status(space, "demo").to_json()
    assert again["without_text"] == (("manual.docx", "1 picture and 1 chart are not read"),)
