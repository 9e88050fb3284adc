"""Sheets as people fill them: several tables, titles, notes, hidden parts, wide and long ones."""

import io
import re
import subprocess
import sys

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.comments import Comment

from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.islands import sheet_tables
from ragstream_core.ingestion.parsers.office import read_office
from ragstream_core.ingestion.parsers.tables import Grid, Merged
from tests.unit.ingestion.office_files import parsed, repacked, rows_of, text_of, xlsx
from tests.unit.ingestion.test_open_document import cell, open_document, row

PRICES = [["Part", "Price"], ["VK-1", 12], ["VK-2", 9]]
CITIES = [["City", "People"], ["Kiel", 247_000], ["Bonn", 331_000]]


def tables(text):
    """Return the rows of each table of a text, headers that name nothing left out."""
    return [rows_of(part) for part in text.split("\n\n") if part.startswith("|")]


def grid(*rows, merged=()):
    return Grid([{n: str(c) for n, c in enumerate(r) if c is not None} for r in rows], [*merged])


def made(*rows, merged=()):
    return sheet_tables(grid(*rows, merged=merged), 1_000_000).text


def texts(rows):
    return [[str(cell) for cell in one] for one in rows]


class TestSeveral:
    @pytest.mark.parametrize("blank", [1, 2, 5])
    def test_below_each_other(self, blank):
        text = text_of(xlsx(*PRICES, *[[]] * blank, *CITIES), "xlsx")
        assert tables(text) == [texts(PRICES), texts(CITIES)]

    @pytest.mark.parametrize("more", [0, 3])
    def test_beside_each_other(self, more):
        cities = CITIES + [[f"Town {n}", n] for n in range(more)]
        prices = PRICES + [[None, None]] * more
        rows = [[*a, None, *b] for a, b in zip(prices, cities, strict=True)]
        assert tables(text_of(xlsx(*rows), "xlsx")) == [texts(PRICES), texts(cities)]

    def test_each_under_its_title(self):
        text = made(["Prices"], *PRICES, [], ["Cities"], [], *CITIES)
        assert re.findall(r"\*\*(.*)\*\*\n\n\| (\w+)", text) == [
            ("Prices", "Part"), ("Cities", "City"),
        ]  # fmt: skip

    @settings(deadline=None)
    @given(st.lists(st.integers(0, 2), min_size=4, max_size=4))
    def test_blank_rows_in_a_table_part_nothing(self, blanks):
        rows = [["Part", "Price"]]
        for n, blank in enumerate(blanks):
            rows += [[f"VK-{n}", n * 7 + 1], *[[]] * blank]
        (found,) = tables(made(*rows))
        assert found == [["Part", "Price"], *([f"VK-{n}", str(n * 7 + 1)] for n in range(4))]

    def test_groups_and_totals_stay_in_their_table(self):
        rows = [*PRICES, [], ["South"], [], ["VK-3", 5], [], ["Total", 26]]
        (found,) = tables(made(*rows))
        assert found == [*texts(PRICES), ["South", ""], ["VK-3", "5"], ["Total", "26"]]

    def test_words_that_may_be_names_or_a_row_are_named_by_nothing(self):
        words = [["Name", "Team"], ["Kim", "Sales"], [], ["City", "Land"], ["Kiel", "Holstein"]]
        above, below = tables(made(*words))
        assert above == words[:2] and below == words[3:]
        assert made(*words).endswith("|  |  |\n| --- | --- |\n| City | Land |\n| Kiel | Holstein |")

    def test_words_that_look_like_the_column_above_go_on_with_it(self):
        people = [["Name", "Team"], ["Kim Meier", "Sales"], ["Poe Lang", "Law"]]
        assert tables(made(*people, [], ["Ann Roth", "Press"], ["Bo Wu", "Labs"])) == [
            [*people, ["Ann Roth", "Press"], ["Bo Wu", "Labs"]]
        ]

    def test_sentences_below_each_other_are_no_table(self):
        assert not tables(made(["Read me"], ["All prices are net."], ["Ask Kim."], ["Version 3"]))

    def test_names_that_are_printed_again_begin_a_table(self):
        assert tables(made(*PRICES, [], *PRICES)) == [texts(PRICES)] * 2

    def test_a_form_has_no_names(self):
        text = made(["Customer:", "ACME"], ["Date:", "2026-01-05"])
        assert text.startswith("|  |  |") and "| Customer: | ACME |" in text

    def test_text_below_a_table_is_text(self):
        assert made(*PRICES, [], ["Source: the city"]).endswith("|\n\n**Source: the city**")

    @settings(deadline=None, max_examples=80)
    @given(
        st.lists(
            st.lists(
                st.one_of(st.none(), st.integers(0, 99), st.text("abc", min_size=1)), max_size=6
            ),
            max_size=9,
        )
    )
    def test_no_cell_is_lost_or_comes_twice(self, rows):
        given_ = [str(c) for r in rows for c in r if c is not None]
        found = re.findall(r"[a-c]+|\d+", made(*rows).replace("\\", ""))
        assert sorted(found) == sorted(given_)


class TestHeads:
    def test_a_name_over_several_columns_stands_before_theirs(self):
        rows = [["Site", "Winter", None, "Summer", None], [None, "min", "max", "min", "max"],
                ["North", 1, 2, 3, 4], ["South", 5, 6, 7, 8]]  # fmt: skip
        merged = [Merged(0, 0, 2, 1), Merged(0, 1, 1, 2), Merged(0, 3, 1, 2)]
        (found,) = tables(made(*rows, merged=merged))
        assert found[0] == ["Site", "Winter min", "Winter max", "Summer min", "Summer max"]
        assert found[1:] == texts(rows[2:])

    def test_a_wide_table_names_every_value(self):
        names = ["Station", *(f"Mean of the day, sensor {n}" for n in range(20))]
        text = made(names, *([f"ST-{r}", *range(r, r + 20)] for r in range(5)))
        lines = text.split("\n\n")
        assert all(line.startswith("Station: ST-") and len(line) < 330 for line in lines)
        assert sum(line.count(" · ") for line in lines) == 5 * 20
        assert "Mean of the day, sensor 19: 23" in text


class TestNotesAndHidden:
    def test_a_note_stands_beside_its_cell(self):
        def note(sheet):
            sheet["B2"].comment = Comment("Kim:\nto be checked", "Kim")
            sheet["D9"].comment = Comment("on nothing", "Kim")

        text = text_of(xlsx(*PRICES, change=note), "xlsx")
        assert "| VK-1 | 12 [note: Kim: to be checked] |" in text
        assert "[note: on nothing]" in text

    def test_what_is_hidden_is_read_and_counted(self):
        book, out = openpyxl.Workbook(), io.BytesIO()
        book.active.title = "Shown"
        for values in PRICES:
            book.active.append(values)
        book.active.row_dimensions[3].hidden = True
        book.active.column_dimensions["B"].hidden = True
        book.create_sheet("Old").append(["Part", "Price"])
        book["Old"].sheet_state = "hidden"
        book.save(out)
        ((_, text),), note = read_office(out.getvalue(), "xlsx", Limits())
        assert "| VK-2 | 9 |" in text and "## Old (hidden)" in text
        assert note.endswith("hidden, and read all the same: columns: 1, rows: 1, sheets: 1")

    def test_in_sheets_of_libreoffice_as_well(self):
        looks = ('<style:style style:name="ta2"><style:table-properties table:display="false"/>'
                 "</style:style>")  # fmt: skip
        note = "<office:annotation><text:p>to be checked</text:p></office:annotation>"
        noted = f"<table:table-cell>{note}<text:p>12</text:p></table:table-cell>"
        filtered = row(cell("VK-2"), cell("9"), more=' table:visibility="filter"')
        rows = row(cell("Part"), cell("Price")) + row(cell("VK-1"), noted) + filtered
        old = f'table:name="Old" table:style-name="ta2">{row(cell("x"))}'
        body = f'<table:table table:name="Shown">{rows}</table:table>'
        body += f"<table:table {old}</table:table>"
        data = open_document(looks + body, "spreadsheet")
        ((_, text),), told = read_office(data, "ods", Limits())
        assert "| VK-1 | 12 [note: to be checked] |" in text and "| VK-2 | 9 |" in text
        assert "## Old (hidden)" in text
        assert told.endswith("hidden, and read all the same: rows: 1, sheets: 1")


LONG = """
import resource, sys
from ragstream_core.ingestion.parsers import child
from ragstream_core.ingestion.parsers.engines import Limits
child.leave_out()
child.load("office")
data = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = child.answer("office", data, file_type=sys.argv[1], limits=Limits())
assert found.pages, found.note
print(found.pages[0][1].count("\\n"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def long_sheet(count):
    """Return a workbook of many rows, written as text: it takes no time to make."""
    cells = (
        f'<row r="{n}"><c r="A{n}" t="inlineStr"><is><t>ST-{n:06}</t></is></c>'
        f'<c r="B{n}"><v>{n}</v></c><c r="C{n}"><v>{n / 8}</v></c>'
        f'<c r="D{n}" t="b"><v>{n % 2}</v></c></row>'
        for n in range(2, count + 2)
    )
    data = f"<sheetData>{''.join(cells)}</sheetData>".encode()

    def longer(xml):
        return re.sub(
            rb"<dimension[^>]*/>|<sheetData>.*</sheetData>", b"", xml, flags=re.S
        ).replace(b"<pageMargins", data + b"<pageMargins", 1)

    return repacked(xlsx(["a"]), sheet1=longer)


class TestSize:
    def test_memory_grows_by_little_more_than_the_text(self):
        if sys.platform != "linux":
            pytest.skip("resource counts in other units elsewhere")
        code = [sys.executable, "-c", LONG, "xlsx"]
        done = subprocess.run(code, input=long_sheet(40_000), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr[-800:]
        lines, kib = map(int, done.stdout.split())
        assert lines > 40_000 and kib < 1024 * 1024 * 40 / 350

    def test_many_sheets_are_read(self):
        book, out = openpyxl.Workbook(), io.BytesIO()
        for n in range(300):
            book.create_sheet(f"S{n}").append([f"only {n}"])
        book.save(out)
        assert text_of(out.getvalue(), "xlsx").count("## S") == 300

    def test_formulas_are_never_computed(self):
        bomb = '=REPT(REPT(REPT("x",32767),32767),32767)'
        found = parsed(xlsx(["a", "b"], [bomb, 1]), "xlsx", cpu_s=5)
        assert "(not computed)" in found.pages[0][1] and len(found.pages[0][1]) < 300
