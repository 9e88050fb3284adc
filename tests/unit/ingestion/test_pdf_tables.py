"""Ruled tables of a PDF: each once, with its columns, over as many pages as it takes."""

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers import pdf
from ragstream_core.ingestion.parsers.engines import Limits
from tests.unit.ingestion.pdf_files import drawn, paragraph

HEAD = ("Station", "Installed", "Load")
STEP = 20


def read(*pages):
    return pdf.read_pdf(drawn(*pages), "pdf", Limits())


def texts(*pages):
    return [text for _, text in read(*pages)[0]]


def lines_of(made, xs, ys):
    for y in ys:
        made.line(xs[0], y, xs[-1], y)
    for x in xs:
        made.line(x, ys[0], x, ys[-1])


def rects_of(made, xs, ys):
    """Draw each cell as a box of its own."""
    for left, right in pairwise(xs):
        for top, bottom in pairwise(ys):
            made.rect(left, bottom, right - left, top - bottom)


def bars_of(made, xs, ys):
    """Draw each line as a thin filled box, as word processors do."""
    for y in ys:
        made.rect(xs[0], y - 0.4, xs[-1] - xs[0], 0.8, stroke=0, fill=1)
    for x in xs:
        made.rect(x - 0.4, ys[-1], 0.8, ys[0] - ys[-1], stroke=0, fill=1)


def one_path(made, xs, ys):
    path = made.beginPath()
    for y in ys:
        path.moveTo(xs[0], y)
        path.lineTo(xs[-1], y)
    for x in xs:
        path.moveTo(x, ys[0])
        path.lineTo(x, ys[-1])
    made.drawPath(path)


def inside_a_form(made, xs, ys):
    made.beginForm("grid")
    lines_of(made, [x - xs[0] for x in xs], [y - ys[-1] for y in ys])
    made.endForm()
    made.saveState()
    made.translate(xs[0], ys[-1])
    made.doForm("grid")
    made.restoreState()


def open_sides(made, xs, ys):
    for y in ys:
        made.line(xs[0], y, xs[-1], y)
    for x in xs[1:-1]:
        made.line(x, ys[0], x, ys[-1])


RULINGS = [lines_of, rects_of, bars_of, one_path, inside_a_form, open_sides]


def ruled(rows, top=700, xs=(60, 160, 260, 360), ruling=lines_of, bold_head=False, print_row=None):
    """Return what draws a table: its lines, and the texts of its cells."""

    def page(made):
        ys = [top - STEP * n for n in range(len(rows) + 1)]
        ruling(made, list(xs), ys)
        for n, row in enumerate(rows):
            made.setFont("Helvetica-Bold" if bold_head and n == 0 else "Helvetica", 10)
            y = top - STEP * n - 14
            for x, cell in zip(xs, row, strict=False):
                if cell:
                    made.drawString(x + 3, y, cell)

    return page


def with_text(page, *words):
    def whole(made):
        for x, y, text in words:
            made.drawString(x, y, text)
        page(made)

    return whole


def markdown(head, *rows):
    line = "| {} |".format
    return "\n".join(line(" | ".join(row)) for row in (head, ["---"] * len(head), *rows))


ROWS = [(f"ST-{n:04}", f"2021-04-{n:02}", f"{n}.5 kN") for n in range(1, 9)]


class TestOnePage:
    @pytest.mark.parametrize("ruling", RULINGS)
    def test_a_table_is_there_once_and_where_it_stands(self, ruling):
        page = with_text(
            ruled([HEAD, *ROWS], ruling=ruling), (60, 740, "Before it."), (60, 300, "Behind it.")
        )
        found, note = read(page)
        assert found == [(1, f"Before it.\n\n{markdown(HEAD, *ROWS)}\n\nBehind it.")]
        assert note == "1 pages, 1 tables"

    def test_a_turned_page_has_it_as_it_is_shown(self):
        def turned(made):
            made.setPageRotation(90)
            made.translate(595, 0)
            made.rotate(90)
            ruled([HEAD, *ROWS[:4]], top=400)(made)

        assert texts(turned) == [markdown(HEAD, *ROWS[:4])]

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(
            st.tuples(*[st.sampled_from(["", "7", "13.0", "1,204", "-5"])] * 3),
            min_size=2, max_size=6,
        ),
        st.randoms(use_true_random=False),
    )  # fmt: skip
    def test_numbers_stay_in_their_columns_in_whatever_order_they_are_printed(self, rows, random):
        head = ("A", "B", "C", "D", "E")
        rows = [(f"P{n}", f"{n}.5", *row) for n, row in enumerate(rows)]
        xs = [60, 90, 120, 150, 180, 210]
        cells = [
            (xs[column] + 2, 700 - STEP * at - 14, cell)
            for at, row in enumerate([head, *rows])
            for column, cell in enumerate(row)
            if cell
        ]
        random.shuffle(cells)

        def page(made):
            made.setFont("Helvetica", 10)
            lines_of(made, xs, [700 - STEP * n for n in range(len(rows) + 2)])
            for x, y, cell in cells:
                made.drawString(x, y, cell)

        assert texts(page) == [markdown(head, *rows)]

    def test_a_row_that_is_printed_as_one_string_is_cut_at_the_lines(self):
        rows = [("ab", "cd", "ef"), *(("12", "34", "56") for _ in range(3))]

        def page(made):
            made.setFont("Courier", 10)  # 6 points a sign
            lines_of(made, [58, 75, 93, 111], [700 - STEP * n for n in range(5)])
            for n, row in enumerate(rows):
                made.drawString(60, 686 - STEP * n, " ".join(row))

        assert texts(page) == [markdown(*rows)]

    def test_cells_of_several_lines_are_read_whole_with_broken_words_joined(self):
        def page(made):
            made.setFont("Helvetica", 10)
            lines_of(made, [60, 160, 300, 400], [700, 680, 640, 600, 580])
            for x, y, text in [
                (63, 686, "Part"), (163, 686, "What it does"), (303, 686, "Load"),
                (63, 666, "Cooling"), (163, 666, "Keeps the tempe-"), (303, 666, "12 kN"),
                (63, 652, "pump"), (163, 652, "rature of the oil low"),
                (63, 626, "Filter"), (163, 626, "Cleans the"), (303, 626, "3 kN"),
                (163, 612, "oil of the pump"), (63, 586, "Cap"), (303, 586, "1 kN"),
            ]:  # fmt: skip
                made.drawString(x, y, text)

        assert texts(page) == [
            markdown(
                ("Part", "What it does", "Load"),
                ("Cooling pump", "Keeps the temperature of the oil low", "12 kN"),
                ("Filter", "Cleans the oil of the pump", "3 kN"),
                ("Cap", "", "1 kN"),
            )
        ]

    def test_a_title_is_no_head_and_merged_cells_are_said_in_each_row(self):
        def page(made):
            made.setFont("Helvetica", 10)
            xs, ys = [60, 160, 260, 360], [700, 680, 660, 640, 620, 600]
            for y in ys:
                made.line(160 if y in (640, 600 + 20) and y == 640 else 60, y, 360, y)
            for x in xs:
                made.line(x, 680 if x in (160, 260) else 700, x, 600)
            for x, y, text in [
                (63, 686, "Loads of the line"), (63, 666, "Day"), (163, 666, "Machine"),
                (263, 666, "Load"), (63, 636, "Monday"), (163, 646, "press"), (263, 646, "12"),
                (163, 626, "belt"), (263, 626, "7"), (63, 606, "Tuesday"), (163, 606, "saw"),
                (263, 606, "3"),
            ]:  # fmt: skip
                made.drawString(x, y, text)

        assert texts(page) == [
            "**Loads of the line**\n\n"
            + markdown(
                ("Day", "Machine", "Load"),
                ("Monday", "press", "12"), ("Monday", "belt", "7"), ("Tuesday", "saw", "3"),
            )
        ]  # fmt: skip

    def test_lines_of_print_are_rows_where_only_the_head_is_ruled_off(self):
        def page(made):
            made.setFont("Helvetica", 10)
            lines_of(made, [60, 160, 260, 360], [700, 680, 540])
            for n, row in enumerate([HEAD, *ROWS]):
                for x, cell in zip((63, 163, 263), row, strict=True):
                    made.drawString(x, 686 - 16 * n, cell)

        assert texts(page) == [markdown(HEAD, *ROWS)]

    def test_powers_in_cells_are_no_part_of_the_number(self):
        def page(made):
            ruled([("Pump", "Leak"), ("A", ""), ("B", "5")], xs=(60, 160, 260))(made)
            text = made.beginText(163, 666)
            for part, rise in (("10", 0), ("-6", 4)):
                text.setFont("Helvetica", 7 if rise else 10)
                text.setRise(rise)
                text.textOut(part)
            made.drawText(text)

        assert texts(page) == [markdown(("Pump", "Leak"), ("A", "10^-6"), ("B", "5"))]


class TestSeveralPages:
    @pytest.mark.parametrize("again", [True, False])
    @pytest.mark.parametrize("bold_head", [True, False])
    def test_each_part_has_the_head_once_and_it_is_one_table(self, again, bold_head):
        def part(number):
            rows = [HEAD, *ROWS] if again or number == 0 else ROWS
            page = ruled(rows, top=780, bold_head=bold_head and rows[0] is HEAD)
            return with_text(page, (280, 30, f"Page {number + 1}"))

        found, note = read(part(0), part(1), part(2))
        assert [text for _, text in found] == [markdown(HEAD, *ROWS)] * 3
        assert note.startswith("3 pages, 1 tables")

    def test_the_title_goes_with_it(self):
        title = ("Loads of all stations", "", "")

        def first(made):
            made.setFont("Helvetica", 10)
            xs = [60, 160, 260, 360]
            for y in (720, 700, 680, 660):
                made.line(60, y, 360, y)
            for x in xs:
                made.line(x, 720 if x in (60, 360) else 700, x, 660)
            for n, row in enumerate([title, HEAD, ROWS[0]]):
                for x, cell in zip(xs, row, strict=False):
                    made.drawString(x + 3, 706 - STEP * n, cell)

        assert texts(first, ruled(ROWS[1:])) == [
            f"**{title[0]}**\n\n{markdown(HEAD, ROWS[0])}",
            f"**{title[0]}**\n\n{markdown(HEAD, *ROWS[1:])}",
        ]

    @pytest.mark.parametrize(
        "other",
        [
            ruled([("Pump", "Built", "Weight"), *ROWS], bold_head=True),
            ruled([("Pump", "Built", "Weight"), *ROWS]),
            with_text(ruled(ROWS), (60, 740, "Pumps of the second line follow.")),
            ruled(ROWS, xs=(60, 140, 220, 360)),
        ],
    )
    def test_another_table_keeps_its_own_head(self, other):
        alone = texts(other)
        assert texts(ruled([HEAD, *ROWS]), other)[1:] == alone
        assert read(ruled([HEAD, *ROWS]), other)[1] == "2 pages, 2 tables"

    def test_text_below_it_ends_it(self):
        page = with_text(ruled([HEAD, *ROWS]), (60, 300, "All loads are those of the first day."))
        assert texts(page, ruled(ROWS)) == [*texts(page), *texts(ruled(ROWS))]


LEFT = paragraph(
    65, 680, "The warranty of the cooling", "unit ends after five years,",
    "when the filter is cleaned", "every month by the owner.",
)  # fmt: skip
RIGHT = paragraph(
    305, 680, "Refunds are paid within ten", "days if the goods come back",
    "in the box in which they", "were sent by our depot.",
)  # fmt: skip


def framed(*words, xs=(60, 300, 540), ys=(700, 500)):
    def page(made):
        lines_of(made, xs, ys)
        for x, y, text in words:
            made.drawString(x, y, text)

    return page


class TestWhatIsNoTable:
    @pytest.mark.parametrize("ys", [(700, 500), (700, 500, 300)])
    def test_columns_in_a_frame_stay_columns(self, ys):
        assert texts(framed(*LEFT, *RIGHT, ys=ys)) == texts([*LEFT, *RIGHT])

    def test_a_form_stays_as_it_is(self):
        cells = [
            (65, 686, "Name: Ada Lovelace"), (305, 686, "Town: Ghent"),
            (65, 666, "Born: 1815"), (305, 666, "Died: 1852"),
        ]  # fmt: skip
        assert texts(framed(*cells, ys=(700, 680, 660))) == texts(cells)

    def test_fields_to_fill_in_are_no_cells(self):
        def form(made):
            for n, label in enumerate(("Name", "Town", "Pump")):
                made.drawString(65, 686 - STEP * n, label)
                made.acroForm.textfield(
                    name=label, x=151, y=682 - STEP * n, width=150, height=16, value=f"v{n}"
                )

        def ruled_form(made):
            lines_of(made, (60, 150, 540), (700, 680, 660, 640))
            form(made)

        assert texts(ruled_form) == texts(form) == ["Name v0\nTown v1\nPump v2"]

    def test_a_frame_with_one_text_is_none(self):
        words = [(65, 686, "Danger: high voltage.")]
        assert texts(framed(*words, xs=(60, 540))) == texts(words)

    def test_boxes_that_are_joined_by_lines_are_none(self):
        words = [(105, 655, "Start"), (305, 555, "Check"), (105, 455, "End")]

        def chart(made):
            for x, y, text in words:
                made.rect(x - 5, y - 15, 90, 30)
                made.drawString(x, y, text)
            made.line(190, 655, 300, 655)
            made.line(345, 570, 345, 655)
            made.line(190, 455, 345, 455)
            made.line(345, 455, 345, 540)

        assert texts(chart) == texts(words)

    def test_running_text_in_a_frame_with_a_table_stays_whole(self):
        words = paragraph(65, 780, *(f"Line {n} of the text." for n in range(45)), step=12)
        cells = [(65, 226, "Pump"), (305, 226, "12 kN"), (65, 206, "Cap"), (305, 206, "3 kN")]

        def page(made):
            made.rect(60, 200, 480, 600)
            lines_of(made, (60, 300, 540), (240, 220, 200))
            for x, y, text in [*words, *cells]:
                made.drawString(x, y, text)

        table = markdown(("Pump", "12 kN"), ("Cap", "3 kN"))
        assert texts(page) == [f"{texts(words)[0]}\n\n{table}"]

    @pytest.mark.parametrize("boxes", [False, True])
    def test_a_drawing_of_many_lines_takes_no_time(self, boxes):
        places = random.Random(1)

        def drawing(made):
            for n in range(700):
                x, y = 10 + 20 * (n % 28), 10 + 26 * (n // 28)
                if boxes:
                    lines_of(made, (x, x + 7, x + 14), (y + 18, y + 9, y))
                    made.drawString(x, y, "a")
                else:
                    x, y = places.uniform(10, 500), places.uniform(10, 700)
                    made.line(x, y, x + 80, y)
                    made.line(x, y, x, y + 80)
            made.drawString(60, 750, "Plan of the line")

        data, start = drawn(drawing), time.process_time()
        assert "Plan of the line" in pdf.read_pdf(data, "pdf", Limits())[0][0][1]
        assert time.process_time() - start < 3
