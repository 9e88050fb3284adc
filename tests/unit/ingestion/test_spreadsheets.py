"""Sheets of a workbook: each cell as the sheet shows it, in its place."""

import datetime
import io
import re

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont

from ragstream_core.ingestion.parsers.cell_values import digits_of, formatted, shown
from ragstream_core.ingestion.parsers.engines import Limits, Refusal
from ragstream_core.ingestion.parsers.office import read_office
from tests.unit.ingestion.office_files import parsed, repacked, rows_of, text_of, xlsx

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**15), 10**15),
    st.decimals(-(10**6), 10**6, places=4).map(float),
    st.text("0123456789", min_size=1, max_size=15),
    st.dates(datetime.date(1950, 1, 1), datetime.date(2100, 1, 1)),
)


def cells(*rows, change=None):
    return rows_of(text_of(xlsx(*rows, change=change), "xlsx"))


def said(value):
    """Return what a sheet shows of a value, by other means."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return re.sub(r"\.?0+$", "", f"{value:.4f}").replace("-0", "-0") if value else "0"
    return str(value)


class TestValues:
    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=5))
    def test_a_cell_is_read_as_shown_whatever_stands_beside_it(self, rows):
        table = [["a", "b", "c"], *rows]
        found = cells(*table)
        wanted = [list(map(said, row)) for row in table]
        assert found == [row for row in wanted if any(row)]

    def test_a_blank_changes_no_other_cell_of_its_column(self):
        day = datetime.datetime(2026, 1, 5)
        whole = ["Kim", 4000123000000005, True, 12, day]
        assert cells(["a", "b", "c", "d", "e"], whole, ["Poe", None, None, None, None])[1:] == [
            ["Kim", "4000123000000005", "TRUE", "12", "2026-01-05"],
            ["Poe", "", "", "", ""],
        ]

    def test_text_of_digits_keeps_its_zeros(self):
        assert cells(["id", "phone"], ["00123", "0049301234567"])[1] == ["00123", "0049301234567"]

    @pytest.mark.parametrize(
        ("number", "text"),
        [(123456789.123, "123456789.123"), (3.14159265, "3.14159265"), (0.00000123, "0.00000123"),
         (0.1 + 0.2, "0.3"), (1e15, "1000000000000000"), (-4.35, "-4.35"), (1e300, "1E+300"),
         (10**17 + 1, "100000000000000001"), (0.0, "0")],
    )  # fmt: skip
    def test_numbers_keep_the_digits_that_people_see(self, number, text):
        assert digits_of(number) == text

    @given(st.integers(-(10**14), 10**14), st.integers(0, 9))
    def test_a_number_of_fifteen_digits_is_the_same_number(self, digits, places):
        text = digits_of(float(f"{digits}e-{places}"))
        assert float(text) == float(f"{digits}e-{places}")
        assert "E" not in text and not text.endswith(".")

    @pytest.mark.parametrize(
        ("value", "number_format", "text"),
        [(0.15, "0%", "15%"), (0.1534, "0.0%", "15.3%"), (1234.5, '"$"#,##0.00', "$1,234.50"),
         (1234.5, "#,##0.00\\ [$€-407]", "1,234.50 €"), (1.5, '0.0" kg"', "1.5 kg"),
         (-1234.5, "$#,##0.00_);[Red]($#,##0.00)", "-$1,234.50"), (123, "00000", "00123"),
         (0, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_)', "$0.00"),
         (5551234, "000-0000", "555-1234"), (7, '"Item "0', "Item 7"),
         (3.14159, "0.00", "3.14159"), (1234567.5, "#,##0", "1234567.5"), (5, '[<10]"few";0', "5"),
         (0.5, "# ?/?", "0.5"), (12345, "0.00E+00", "12345"), (1234567, '#,##0," k"', "1234567"),
         (-0.001, "0%", "0%"), (2.5, "General", "2.5")],
    )  # fmt: skip
    def test_simple_formats_are_shown_and_no_other_takes_digits_away(
        self, value, number_format, text
    ):
        assert shown(value, number_format) == text

    @given(
        st.floats(allow_nan=False, allow_infinity=False), st.text('#0,.?%$;"[]-_*\\ EG', max_size=9)
    )
    def test_no_format_breaks_the_reading(self, number, number_format):
        assert shown(number, number_format).strip()
        assert isinstance(formatted(number, number_format), str)

    @pytest.mark.parametrize(
        ("value", "number_format", "text"),
        [(datetime.datetime(2026, 1, 5), "d. mmmm yyyy", "2026-01-05"),
         (datetime.datetime(2026, 1, 5, 14, 30), "yyyy-mm-dd h:mm", "2026-01-05 14:30"),
         (datetime.datetime(2026, 1, 5, 14, 30, 9), "General", "2026-01-05 14:30:09"),
         (datetime.time(6, 5), "h:mm", "06:05"),
         (datetime.datetime(1900, 1, 1, 6), "h:mm", "06:00"),
         (datetime.timedelta(hours=26, minutes=5), "[h]:mm", "26:05")],
    )  # fmt: skip
    def test_dates_and_times(self, value, number_format, text):
        assert shown(value, number_format) == text

    def test_a_whole_number_of_any_length_keeps_its_digits(self):
        def longer(xml):
            return xml.replace(b"<v>17</v>", b"<v>12345678901234567890</v>")

        data = repacked(xlsx(["a"], [17]), sheet1=longer)
        assert rows_of(text_of(data, "xlsx"))[1] == ["12345678901234567890"]

    def test_errors_and_formulas_without_a_value_say_so(self):
        text = text_of(xlsx(["a", "b"], ["=SUM(B2:B9)", "#DIV/0!"]), "xlsx")
        assert rows_of(text)[1] == ["=SUM(B2:B9) (not computed)", "#DIV/0!"]
        note = read_office(xlsx(["a"], ["=1+1"]), "xlsx", Limits())[1]
        assert note == "converted to Markdown; formulas without a value: 1"

    def test_a_computed_formula_is_its_value_even_if_that_is_an_empty_text(self):
        def computed(xml):
            one = b'<c r="A2"><f>20+2</f><v>22</v></c><c r="B2" t="str"><f>T(A2)</f><v></v></c>'
            return re.sub(rb'<c r="A2".*?</c><c r="B2".*?</c>', one, xml)

        data = repacked(xlsx(["a", "b", "c"], ["=20+2", "=T(A2)", "x"]), sheet1=computed)
        assert rows_of(text_of(data, "xlsx")) == [["a", "b", "c"], ["22", "", "x"]]

    def test_a_raised_digit_joins_no_number(self):
        def part(text, how):
            return TextBlock(InlineFont(vertAlign=how), text)

        rich = CellRichText(
            "10", part("6", "superscript"), " cycles, H", part("2", "subscript"), "O"
        )
        assert cells(["a", "b"], [rich, 1])[1][0] == "10^6 cycles, H2O"


class TestPlaces:
    def test_a_merged_cell_keeps_its_place_and_is_repeated(self):
        def merge(sheet):
            sheet.merge_cells("A2:A3")
            sheet.merge_cells("B3:C3")

        rows = [["Machine", "Day", "Check"], ["M-1", "Mon", "oil"], [None, "Tue", None]]
        assert cells(*rows, change=merge)[1:] == [["M-1", "Mon", "oil"], ["M-1", "Tue", "Tue"]]

    def test_titles_stand_above_the_table_and_blanks_have_no_name(self):
        def merge(sheet):
            sheet.merge_cells("A1:C2")

        rows = [["Report of May"], [], ["As of 2026-05-31"], [], ["Name", None, "Sum"], ["a", 1, 2]]
        text = text_of(xlsx(*rows, change=merge), "xlsx")
        assert text == (
            "## Data\n\n**Report of May · As of 2026-05-31**\n\n"
            "| Name |  | Sum |\n| --- | --- | --- |\n| a | 1 | 2 |"
        )

    def test_each_sheet_has_its_heading_and_an_empty_one_is_left_out(self):
        book, out = openpyxl.Workbook(), io.BytesIO()
        for name in ("First", "Second"):
            book.create_sheet(name).append([f"in {name}"])
        book.save(out)
        text = text_of(out.getvalue(), "xlsx")
        assert [line for line in text.splitlines() if line.startswith("#")] == [
            "## First", "## Second",
        ]  # fmt: skip

    def test_bars_and_line_breaks_stay_inside_of_their_cell(self):
        assert cells(["a", "b"], ["x|y", "two\nlines"])[1] == ["x\\|y", "two lines"]

    def test_one_column_is_a_table_without_a_title(self):
        assert cells(["value"], [1], [2]) == [["value"], ["1"], ["2"]]


class TestHostile:
    def test_a_cell_far_away_and_a_merge_of_everything_cost_nothing(self):
        def far(sheet):
            sheet["XFD1048576"] = "far"
            sheet["B1"] = "near"

        def merged(xml):
            cells = b'<mergeCells count="1"><mergeCell ref="A1:XFD1048576"/></mergeCells>'
            return xml.replace(b"</sheetData>", b"</sheetData>" + cells)

        data = repacked(xlsx(["a"], change=far), sheet1=merged)
        text = parsed(data, "xlsx", cpu_s=5).pages[0][1]
        assert rows_of(text) == [["a", "near", "a"], ["a", "a", "far"]]

    def test_a_table_larger_than_the_limit_is_refused_before_it_is_written(self):
        def diagonal(sheet):
            for n in range(1, 400):
                sheet.cell(n, n, "x")
                sheet.cell(n, n + 1, "x")

        with pytest.raises(Refusal, match="more than 100000 bytes of text"):
            read_office(xlsx(change=diagonal), "xlsx", Limits(text_bytes=100_000))

    def test_attributes_that_openpyxl_does_not_know_stop_nothing(self):
        def odd(xml):
            return xml.replace(b"<sheetView ", b'<sheetView showZeroes="1" ')

        assert rows_of(text_of(repacked(xlsx(["a"], [1]), sheet1=odd), "xlsx")) == [["a"], ["1"]]
