"""What a page of a PDF says, in the order in which people read it, however the file prints it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.index.rows import pages_without_text
from ragstream_core.ingestion.parsers import pdf
from ragstream_core.ingestion.parsers.engines import Limits, pages_phrase
from tests.unit.ingestion.pdf_files import drawn, paragraph

LEFT = paragraph(
    60, 700,
    "The warranty of the cooling", "unit ends after five years,", "when the filter is cleaned",
    "every month by the owner.",
)  # fmt: skip
RIGHT = paragraph(
    330, 700,
    "Refunds are paid within ten", "days if the goods come back", "in the box in which they",
    "were sent by our depot.",
)  # fmt: skip
TITLE = [(60, 760, "Terms of the sale of cooling units to all of our customers abroad")]
FOOTER = [(60, 60, "Printed by the office of the company in the town of its seat abroad")]


def texts(data):
    return [text for _, text in pdf.read_pdf(data, "pdf", Limits())[0]]


def said(*pieces):
    return "\n".join(text for piece in pieces for _, _, text in piece)


class TestOrder:
    @settings(max_examples=25, deadline=None)
    @given(st.permutations([*TITLE, *LEFT, *RIGHT, *FOOTER]))
    def test_columns_below_a_title_are_read_whole_in_whatever_order_they_are_printed(self, lines):
        assert texts(drawn(lines)) == [said(TITLE, LEFT, RIGHT, FOOTER)]

    def test_three_columns_that_are_printed_row_by_row(self):
        left = [(x - 30, y, text) for x, y, text in LEFT]
        middle = [(x - 110, y, text) for x, y, text in RIGHT]
        right = [(x + 90, y, text) for x, y, text in RIGHT]
        rows = [line for row in zip(left, middle, right, strict=True) for line in row]
        assert texts(drawn(rows)) == [said(left, middle, right)]

    @settings(max_examples=25, deadline=None)
    @given(st.permutations([*TITLE, *LEFT, *FOOTER]))
    def test_lines_of_one_column_come_from_the_top_down(self, lines):
        assert texts(drawn(lines)) == [said(TITLE, LEFT, FOOTER)]

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.integers(1, 99_999), min_size=2, max_size=9), st.booleans())
    def test_rows_of_a_table_without_a_head_stay_rows(self, numbers, from_below):
        rows = [(f"Pump {n}", f"{n} kg", f"{n * 7} EUR") for n in numbers]
        lines = [
            (x, 700 - 20 * at, cell)
            for at, row in enumerate(rows)
            for x, cell in zip((60, 250, 420), row, strict=True)
        ]
        got = texts(drawn(lines[::-1] if from_below else lines))
        assert got == ["\n".join(" ".join(row) for row in rows)]

    def test_a_table_below_columns_is_not_torn(self):
        cells = [
            (x, 600 - 14 * n, f"{c} {n}")
            for n in range(4)
            for x, c in ((60, "Pump"), (330, "Load"))
        ]
        woven = [line for row in zip(LEFT, RIGHT, strict=True) for line in row]
        table = "\n".join(f"Pump {n} Load {n}" for n in range(4))
        assert texts(drawn(woven + cells)) == [f"{said(LEFT, RIGHT)}\n{table}"]

    def test_what_is_printed_column_by_column_is_read_so(self):
        words = paragraph(60, 700, "Bolt 12", "Cap 14", "Dial 3") + paragraph(
            330, 700, "Nut 4", "Oil 9"
        )
        assert texts(drawn(words)) == [said(words)]

    def test_a_turned_page_is_read_as_it_is_shown(self):
        def turned(made):
            made.setPageRotation(90)
            made.translate(595, 0)
            made.rotate(90)
            for x, y, text in [(60, 300, "second line"), (60, 400, "first line")]:
                made.drawString(x, y, text)

        assert texts(drawn(turned)) == ["first line\nsecond line"]


def with_rise(*parts):
    """Return a page with one line of (text, rise) parts."""

    def page(made):
        text = made.beginText(60, 700)
        for part, rise in parts:
            text.setFont("Helvetica", 11 if not rise else 7)
            text.setRise(rise)
            text.textOut(part)
        made.drawText(text)

    return page


class TestPowers:
    @pytest.mark.parametrize(
        ("parts", "wanted"),
        [
            ([("a leak of 10", 0), ("-6", 4), (" mbar", 0)], "a leak of 10^-6 mbar"),
            ([("weighs 45", 0), ("2", 4), (" kg.", 0)], "weighs 45^2 kg."),
            ([("10", 0), ("6", 4)], "10^6"),
            ([("an area of 5 m", 0), ("2", 4), (" of it", 0)], "an area of 5 m^2 of it"),
            ([("the number 101", 0), ("2", -2), (" is five", 0)], "the number 101_2 is five"),
            ([("H", 0), ("2", -2), ("O", 0)], "H2O"),
            ([("the 1", 0), ("st", 4), (" of May", 0)], "the 1st of May"),
        ],
    )  # fmt: skip
    def test_digits_above_or_below_the_line_are_no_part_of_the_number(self, parts, wanted):
        assert texts(drawn(with_rise(*parts))) == [wanted]


class TestForms:
    def test_values_and_ticks_stand_beside_their_labels(self):
        def page(made):
            form = made.acroForm
            for y, label in ((700, "Name:"), (670, "Town"), (640, "Kind of pump")):
                made.drawString(60, y, label)
            form.textfield(name="who", x=150, y=696, width=150, height=16, value="Ada Lovelace")
            form.textfield(name="town", x=150, y=666, width=150, height=16, value="Ghent")
            form.choice(
                name="kind", x=150, y=636, width=150, height=16, value="Piston",
                options=["Piston", "Gear"],
            )  # fmt: skip
            for x, label, on in ((60, "new", True), (160, "used", False)):
                form.checkbox(name=label, x=x, y=598, size=12, checked=on)
                made.drawString(x + 20, 600, label)
            made.drawString(60, 560, "Code")
            form.textfield(
                name="code",
                x=150,
                y=556,
                width=99,
                height=16,
                value="s3cret",
                fieldFlags="password",
            )

        (text,) = texts(drawn(page))
        assert text.split("\n") == [
            "Name: Ada Lovelace", "Town Ghent", "Kind of pump Piston", "[x] new [ ] used", "Code",
        ]  # fmt: skip

    def test_a_page_that_holds_nothing_but_values_has_text(self):
        def page(made):
            made.acroForm.textfield(name="who", x=150, y=696, width=150, height=16, value="Ada")

        assert texts(drawn(page)) == ["Ada"]


class TestPagesWithoutText:
    def test_the_note_names_pages_that_hold_a_picture_only(self):
        def picture(made):
            made.rect(50, 400, 500, 250, fill=1)

        words = [(60, 700, "Some words.")]
        pages = drawn(words, picture, picture, words, lambda made: None, picture)
        found, note = pdf.read_pdf(pages, "pdf", Limits())
        assert note == "6 pages; pages 2-3, 6 of 6 have no text"
        assert [number for number, _ in found] == [1, 4]

    def test_a_page_number_is_no_text_of_a_scan(self):
        def scan(number):
            def page(made):
                made.rect(50, 100, 500, 650, fill=1)
                made.drawString(300, 30, f"Page {number}")

            return page

        pages = drawn([(60, 700, "Cover.")], *(scan(n) for n in range(2, 6)))
        assert "pages 2-5 of 5 have no text" in pdf.read_pdf(pages, "pdf", Limits())[1]

    @given(st.sets(st.integers(1, 300), min_size=1).map(sorted))
    def test_the_phrase_is_found_again_in_a_note(self, pages):
        told = pages_phrase(pages, 300)
        assert pages_without_text(f"300 pages; {told}; running lines left out: 1") == told
        assert len(told) < 120
        assert pages_without_text("300 pages, 2 tables") == ""
