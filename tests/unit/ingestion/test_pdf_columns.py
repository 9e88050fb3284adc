"""Tables of a PDF without ruling lines keep their columns; what only looks like one stays text."""

import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reportlab.pdfbase.pdfmetrics import stringWidth

from ragstream_core.ingestion.parsers import pdf
from tests.unit.ingestion.pdf_files import drawn
from tests.unit.ingestion.test_pdf_tables import HEAD, ROWS, markdown, read, texts, with_text

XS = (60, 190, 300, 410)


def aligned(rows, xs=XS, top=700, step=16, *, right=(), bold=False):
    """Return what draws rows of cells without lines; ``right``: columns that end at one x."""

    def page(made):
        for n, row in enumerate(rows):
            font = "Helvetica-Bold" if bold and n == 0 else "Helvetica"
            made.setFont(font, 10)
            for column, (x, cell) in enumerate(zip(xs, row, strict=False)):
                draw = made.drawRightString if column in right else made.drawString
                draw(x + 60 if column in right else x, top - step * n, cell)

    return page


def as_text(monkeypatch, *pages):
    with monkeypatch.context() as patch:
        patch.setattr(pdf, "tables_in_columns", lambda pieces, heavier: [])
        return texts(*pages)


WORD = st.sampled_from(["pump", "cap", "valve", "of", "oil", "North", "seal", "gauge", "Ghent"])
NAME = st.lists(WORD, min_size=1, max_size=3).map(lambda words: " ".join(words).capitalize())
VALUES = [
    st.integers(0, 99_999).map("{:,}".format),
    st.decimals(0, 999, places=2).map("{} kN".format),
    st.dates().map(str),
    st.integers(0, 9_999).map("ST-{:04}".format),
    st.integers(0, 100).map("{} %".format),
]


@st.composite
def tables(draw):
    """Return rows under a head: names first, then columns of values with blanks, or of names."""
    count = draw(st.integers(3, 12))
    kinds = [draw(st.sampled_from(VALUES))]
    kinds += [draw(st.sampled_from([NAME, *VALUES])) for _ in range(draw(st.integers(0, 2)))]
    rows = [[draw(NAME), *(draw(kind) for kind in kinds)] for _ in range(count)]
    if len(kinds) > 2 and count > 3:
        rows[draw(st.integers(1, count - 1))][2] = ""
    return [["Part", "Weight", "Built", "Place"][: len(kinds) + 1], *rows]


class TestTables:
    @settings(max_examples=60, deadline=None)
    @given(tables(), st.booleans(), st.booleans(), st.integers(11, 24))
    def test_columns_are_kept_and_what_is_around_stays(self, rows, on_the_right, bold, step):
        page = with_text(
            aligned(rows, step=step, right={1} if on_the_right else (), bold=bold),
            (60, 740, "Before it there is a line of text."),
            (60, 120, "Behind it."),
        )
        wanted = f"Before it there is a line of text.\n\n{markdown(*rows)}\n\nBehind it."
        if len(rows[0]) == 2 and any("-" in row[1] and row[1][0] == "S" for row in rows[1:]):
            assume(False)  # two columns are one with numbers or dates only
        assert texts(page) == [wanted]

    def test_names_alone_need_a_heavier_head(self):
        rows = [("Name", "Office", "Town"), *((f"{n}da", "Sales", "Ghent") for n in "AIEO")]
        assert texts(aligned(rows, bold=True)) == [markdown(*rows)]
        assert texts(aligned(rows)) == ["\n".join(map(" ".join, rows))]

    def test_a_corner_without_a_name_and_years_as_names(self):
        rows = [("", "2019", "2020"), ("Income", "12", "13"), ("Cost", "3", "4"), ("Net", "9", "9")]
        assert texts(aligned(rows)) == [markdown(*rows)]
        numbers = [("", "2019", "312"), *rows[1:]]
        assert "---" not in texts(aligned(numbers, bold=True))[0]

    def test_a_sum_in_heavy_print_is_no_head(self):
        rows = [("A", "7", "8"), ("B", "3", "4"), ("C", "9", "9"), ("D", "1", "1"), ("E", "2", "2")]

        def page(made):
            aligned(rows, top=716)(made)
            aligned([("Sum", "17", "8"), *rows], top=636, bold=True)(made)

        assert "---" not in texts(page)[0]

    def test_a_cell_of_several_lines_is_whole(self):
        lines = [
            ("Station", "Load", "What it does"), ("A 1", "12 kN", "Keeps the tempe-"),
            ("", "", "rature low"), ("B 2", "3 kN", "Cleans"), ("C 3", "4 kN", "Lifts"),
        ]  # fmt: skip
        rows = [
            lines[0], ("A 1", "12 kN", "Keeps the temperature low"), *lines[3:],
        ]  # fmt: skip
        assert texts(aligned(lines)) == [markdown(*rows)]

    def test_a_line_that_may_belong_to_the_row_below_it_ends_the_table(self):
        rows = [HEAD, *ROWS[:4]]

        def page(made):
            aligned(rows)(made)
            for y, line in [(612, "Keeps the"), (588, "oil cool")]:
                made.drawString(300, y, line)
            aligned([("ST-0009", "2021-05-01", "")], top=600)(made)

        assert texts(page) == [f"{markdown(*rows)}\n\nKeeps the\nST-0009 2021-05-01\noil cool"]

    def test_over_two_pages_with_its_head_on_each_it_is_one(self):
        page = aligned([HEAD, *ROWS], top=780)
        found, note = read(page, page)
        assert [text for _, text in found] == [markdown(HEAD, *ROWS)] * 2
        assert note.startswith("2 pages, 1 tables")

    def test_another_head_on_the_next_page_stays(self):
        years = [("Kind", "2019", "2020"), ("Oil", "7", "8"), ("Gas", "3", "4"), ("Air", "9", "9")]
        pages = aligned([HEAD, *ROWS], top=780), aligned(years, top=780)
        assert texts(*pages) == [markdown(HEAD, *ROWS), markdown(*years)]

    def test_two_under_each_other_are_two(self):
        rows = [("Pump", "Price"), ("Cap", "3.00"), ("Bolt", "0.20"), ("Nut", "0.10")]
        pages = with_text(aligned([HEAD, *ROWS]), (60, 500, "Prices of all parts:"))

        def both(made):
            pages(made)
            aligned(rows, top=480)(made)

        wanted = f"{markdown(HEAD, *ROWS)}\n\nPrices of all parts:\n\n{markdown(*rows)}"
        assert texts(both) == [wanted]


PROSE = st.lists(
    st.sampled_from(
        ["the", "pump,", "of", "12", "oil", "is", "kept.", "When", "a", "3.5", "kN", "closes", "in"]
    ),
    min_size=60,
    max_size=90,
)


def filled(words, width):
    """Return words as lines of at most a width in points."""
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        if stringWidth(longer, "Helvetica", 10) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


OTHERS = {
    "a list": [("Rule", "Meaning"), ("1.", "Close it"), ("2.", "Open it"), ("3.", "Leave it")],
    "bullets": [("Kind", "Count"), ("\u2022", "12"), ("\u2022", "7"), ("\u2022", "9")],
    "contents": [
        ("Chapter", "Page"), ("Pumps ........", "3"), ("Caps . . . . .", "7"), ("Oil ....", "9"),
    ],
    "labels": [("Bill to", "Order"), ("Name:", "12"), ("Town:", "7"), ("Date:", "9")],
    "addresses": [
        ("Seller", "Buyer", "Depot"), ("Acme Ltd", "Bolt AG", "Cap SA"),
        ("1 High Street", "Am Markt 2", "Rue Verte 3"), ("Leeds", "Bonn", "Lyon"),
        ("LS1 4AP", "53111", "69001"),
    ],
    "code": [
        ("int", "size;", "/* all */"), ("char", "a[3];", "/* 3 */"), ("char", "b[4];", "/* 4 */"),
        ("long", "c[5];", "/* 5 */"),
    ],
    "formulas": [("x", "= a", "one"), ("y", "= 2a", "2"), ("z", "= 3a", "3"), ("u", "= b", "4")],
    "rows without a head": [("Cap", "7", "A1"), ("Nut", "8", "A2"), ("Pin", "9", "A3")] * 2,
    "two columns of names": [("Name", "Town"), ("Ada", "Leeds"), ("Ida", "Bonn"), ("Eda", "Lyon")],
    "too few rows": [HEAD, *ROWS[:2]],
    "contents after a running head": [
        ("Contents", "iii"), ("", ""), ("", ""), ("Pumps", "3"), ("Caps", "7"), ("Oil", "9"),
    ],
}  # fmt: skip


class TestWhatIsNoTable:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(PROSE, min_size=2, max_size=3), st.booleans(), st.booleans())
    def test_text_in_columns_stays_as_it_was(self, columns, bold, across):
        width = 470 // len(columns) - 20
        xs = [60 + 470 // len(columns) * n for n in range(len(columns))]
        parts = [["Heading", *filled(words, width)] for words in columns]
        high = min(map(len, parts))
        rows = list(zip(*(part[:high] for part in parts), strict=True))
        pages = [aligned(rows, xs, step=12, bold=bold)]
        if not across:
            pages = [[(x, 700 - 12 * n, t) for x, p in zip(xs, parts, strict=True)
                      for n, t in enumerate(p)]]  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            assert texts(*pages) == as_text(patch, *pages)

    @pytest.mark.parametrize("bold", [True, False])
    @pytest.mark.parametrize("kind", OTHERS)
    def test_it_stays_as_it_was(self, kind, bold, monkeypatch):
        page = aligned(OTHERS[kind], bold=bold)
        found = texts(page)
        assert found == as_text(monkeypatch, page)
        assert "---" not in found[0]

    def test_a_page_full_of_numbers_takes_no_time(self):
        rows = [["one", "two", "three", "four"], *([str(n)] * 4 for n in range(900))]
        data, start = drawn(aligned(rows[::-1], step=0.8)), time.process_time()
        pdf.read_pdf(data, "pdf", pdf.Limits())
        assert time.process_time() - start < 3
