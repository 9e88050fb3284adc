"""Files of parted values: what parts them, what names the columns, and what is wrong with them."""

import base64
import csv
import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers.engines import Limits, Refusal
from ragstream_core.ingestion.parsers.office import read_office
from tests.unit.ingestion.office_files import parsed, rows_of, text_of
from tests.unit.ingestion.test_documents import chunks_of

CELLS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="|\\"),
    min_size=1,
    max_size=8,
)


def read(text, kind="csv"):
    return text_of(text.encode(), kind)


def note_of(text, kind="csv"):
    return read_office(text.encode(), kind, Limits())[1]


class TestDialects:
    @settings(deadline=None, max_examples=60)
    @given(
        st.sampled_from(",;\t|"),
        st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=2, max_size=6),
        st.sampled_from(["\n", "\r\n"]),
    )
    def test_what_a_program_writes_is_read_cell_by_cell(self, mark, rows, end):
        rows = [["name", "part", "note"], *rows]
        out = io.StringIO()
        csv.writer(out, delimiter=mark, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(rows)
        found = rows_of(read(out.getvalue()))
        assert [cell for row in found for cell in row] == [cell for row in rows for cell in row]

    @pytest.mark.parametrize(
        ("text", "rows"),
        [("Part;Name;Price\n00123;zebra valve;9,50\n",
          [["Part", "Name", "Price"], ["00123", "zebra valve", "9,50"]]),
         ("sep=;\na;b\n1;x,y\n", [["a", "b"], ["1", "x,y"]]),
         ('a, b\n1, "x, y"\n', [["a", "b"], ["1", "x, y"]]),
         ('a,b\n1,"two\nlines, ""said"""\n', [["a", "b"], ["1", 'two lines, "said"']]),
         ("id\n00123\n00124\n", [["id"], ["00123"], ["00124"]])],
    )  # fmt: skip
    def test_parted_quoted_and_single_columns(self, text, rows):
        assert rows_of(read(text)) == rows

    def test_other_encodings_and_the_one_that_is_declared(self, bench):
        bench.write("a.csv", "Ort;Preis\nKöln;9,50 €\n".encode("cp1252"))
        bench.write("b.tsv", "Ort\tPreis\nKøge\t1\n".encode("utf-16"))
        bench.run()
        said = " ".join(chunk.snippet for chunk in chunks_of(bench))
        assert "| Köln | 9,50 € |" in said and "| Køge | 1 |" in said


class TestHeads:
    @pytest.mark.parametrize(
        "text",
        ["00123;zebra;9,50\n00124;seal;8,10\n00125;ring;7\n",
         "2021-01-01,ok,12\n2021-01-02,ok,13\n2021-01-03,low,9\n",
         "VK-1,TRUE\nVK-2,FALSE\nVK-3,TRUE\nVK-4,TRUE\n"],
    )  # fmt: skip
    def test_a_file_without_names_keeps_its_first_row_and_says_so(self, text):
        mark = ";" if ";" in text else ","
        assert rows_of(read(text)) == [line.split(mark) for line in text.splitlines()]
        assert read(text).startswith("|  |")
        assert "no row names the columns" in note_of(text)

    @pytest.mark.parametrize(
        "text",
        ["Region,2019,2020,2021\nNorth,12,15,18\nSouth,9,8,11\nWest,1,2,3\n",
         "Team,1,2,3\nRed,12,15,18\nBlue,9,8,11\n", "Name,City\nKim,Bonn\nPoe,Kiel\n",
         "Name,Phone 1,Phone 2\nKim,555-1,555-2\nPoe,555-3,555-4\n"],
    )  # fmt: skip
    def test_years_numbers_and_words_name_columns(self, text):
        assert read(text).splitlines()[0] == f"| {' | '.join(text.splitlines()[0].split(','))} |"
        assert "no row names" not in note_of(text)

    def test_titles_stand_above_and_are_carried_by_each_passage(self, bench):
        rows = "".join(f"ST-{n:04};2021-04-{n % 28 + 1:02};{n * 7 % 900}\n" for n in range(200))
        bench.write(
            "s.csv", f"Stations of the north;;\n;;\nStation;Installed;Depth\n{rows}".encode()
        )
        bench.run()
        chunks = chunks_of(bench)
        assert len(chunks) > 3
        for chunk in chunks:
            whole = chunk.in_context
            assert "Stations of the north" in whole and "| Station | Installed | Depth |" in whole


class TestBad:
    def test_a_quote_that_never_closes_swallows_nothing(self):
        text = 'id,note\n1,ok\n2,"open\n3,x\n4,"closed, well"\n' + "5,y\n" * 700
        found = rows_of(read(text))
        assert found[:5] == [
            ["id", "note"], ["1", "ok"], ["2", '"open'], ["3", "x"], ["4", "closed, well"],
        ]  # fmt: skip
        assert len(found) == 705
        assert "quotes that never close, in lines: 3" in note_of(text)

    @settings(deadline=None, max_examples=60)
    @given(st.lists(st.text('ab1",;\n\t ', max_size=12), max_size=12).map("\n".join))
    def test_nothing_that_is_written_is_lost(self, text):
        if not any(map(str.isalnum, text)):
            return
        found = read(text)
        for sign in "ab1":
            assert found.count(sign) == text.count(sign)

    def test_ragged_and_blank_rows_keep_their_cells(self):
        text = "a,b,c\n1,2,3\n4,5\n\n6,70,8,9\n,,\n10,11,12\n"
        assert rows_of(read(text)) == [
            ["a", "b", "c", ""], ["1", "2", "3", ""], ["4", "5", "", ""], ["6", "70", "8", "9"],
            ["10", "11", "12", ""],
        ]  # fmt: skip
        assert "rows longer or shorter than most: 2" in note_of(text)

    def test_one_cell_of_bytes_is_left_out_and_one_of_words_is_not(self):
        packed = base64.b64encode(random.Random(1).randbytes(60_000)).decode()
        words = "The pump stopped at noon. " * 400
        found = read(f"id,blob\n1,{packed}\n2,{words}\n")
        assert len(found) < 12_000 and found.count("The pump stopped") == 400

    def test_more_text_than_the_limit_is_refused_at_once(self):
        with pytest.raises(Refusal, match="more than 1000 bytes of text"):
            read_office(b"a\n" + b"x" * 2_000, "csv", Limits(text_bytes=1_000))

    def test_what_is_no_text_is_refused(self):
        assert parsed(b"\0\1\2" * 9, "csv").note.startswith("binary")
