"""PowerPoint slides: raised digits and merged cells."""

import io

from pptx import Presentation
from pptx.util import Inches

from ragstream_core.ingestion.parsers.slides import mended_slides
from tests.unit.ingestion.office_files import rows_of, text_of


def deck(fill):
    made, out = Presentation(), io.BytesIO()
    fill(made.slides.add_slide(made.slide_layouts[5]))
    made.save(out)
    return out.getvalue()


def write(text_frame, *parts):
    """Write runs: (text, how far it is raised, in per mille of its size)."""
    for text, baseline in parts:
        run = text_frame.paragraphs[0].add_run()
        run.text = text
        if baseline:
            run.font._element.set("baseline", str(baseline))


def test_no_raised_digit_joins_a_number():
    def fill(slide):
        box = slide.shapes.add_textbox(0, Inches(2), Inches(4), Inches(1)).text_frame
        write(
            box, ("10", 0), ("-6", 30000), (" of H", 0), ("2", -25000), ("O at 45", 0), ("2", 30000)
        )
        write(slide.notes_slide.notes_text_frame, ("since 1990", 0), ("3", 30000))

    text = text_of(deck(fill), "pptx")
    assert "10^-6 of H2O at 45^2" in text
    assert "since 1990^3" in text


def test_merged_cells_keep_their_place_and_are_repeated():
    def fill(slide):
        table = slide.shapes.add_table(3, 3, 0, Inches(2), Inches(4), Inches(2)).table
        rows = [["Machine", "Day", "a|b"], ["M-1", "Mon", "oil"], ["", "Tue", ""]]
        for r, row in enumerate(rows):
            for c, text in enumerate(row):
                table.cell(r, c).text = text
        table.cell(1, 0).merge(table.cell(2, 0))
        table.cell(2, 1).merge(table.cell(2, 2))

    assert rows_of(text_of(deck(fill), "pptx")) == [
        ["Machine", "Day", "a\\|b"], ["M-1", "Mon", "oil"], ["M-1", "Tue", "Tue"],
    ]  # fmt: skip


def test_a_deck_that_needs_no_mending_is_left_as_it_is():
    data = deck(lambda slide: setattr(slide.shapes.title, "text", "Opening"))
    assert mended_slides(data) is data
