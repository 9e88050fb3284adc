"""Lines of JSON and Parquet: every value with the name of its column."""

import io
import json
from datetime import date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.office import read_office
from ragstream_core.text.headings import HeadingIndex
from tests.unit.ingestion.office_files import parsed, rows_of, text_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab#`~=-\n 1", max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner),
    max_leaves=8,
)


def jsonl(*lines):
    return text_of("\n".join(lines).encode(), "jsonl")


class TestLinesOfJson:
    def test_each_record_names_its_values_and_keeps_its_digits(self):
        lines = (
            '{"part":"VK-1","torque":45.10,"id":4000123000000005000001,"ok":true,"none":null}',
            '{"at":{"city":"Oslo"},"tags":["a",2],"rows":[{"n":1},{"n":2}]}',
            '"alone"',
        )
        assert jsonl(*lines) == (
            "part: VK-1 · torque: 45.10 · id: 4000123000000005000001 · ok: true\n\n"
            "at.city: Oslo · tags: a, 2 · rows[0].n: 1 · rows[1].n: 2\n\nalone"
        )

    def test_long_texts_stand_below_and_open_no_section(self):
        made = jsonl(json.dumps({"id": 7, "text": "one\n# two\n```\nthree\n==="}), '{"id":8}')
        assert made == "id: 7\n\ntext: one\n\\# two\n\\```\nthree\n\\===\n\nid: 8"

    @given(st.lists(VALUES, min_size=1, max_size=4))
    def test_no_record_changes_how_the_next_is_read(self, values):
        made = jsonl(*map(json.dumps, values), '{"last":"one"}')
        assert made.endswith("last: one")
        assert HeadingIndex(made, file_type="md").headings == []

    def test_lines_that_are_no_json_stay_and_are_named(self):
        data = b'{"a":1}\n{"a":\n\n# torn\n' + b"[" * 100_000
        pages, note = read_office(data, "jsonl", Limits())
        assert note.endswith("; lines that are no JSON: 2, 4, 5")
        assert "\\# torn" in pages[0][1] and '{"a":\n' in pages[0][1]

    def test_no_text_is_refused(self):
        assert "binary" in parsed(b"\0\1", "ndjson").note


class TestParquet:
    @staticmethod
    def made(table):
        out = io.BytesIO()
        parquet.write_table(table, out)
        return out.getvalue()

    def test_columns_and_first_rows(self):
        table = pa.table({
            "part": [f"VK-{n}" for n in range(500)], "bar": [9.0, None] * 250,
            "on": [date(2026, 1, 5)] * 500, "at": [datetime(2026, 1, 5, 10)] * 500,  # noqa: DTZ001
            "ok": [True] * 500, "raw": [b"xyz"] * 500,
        })  # fmt: skip
        pages, note = read_office(self.made(table), "parquet", Limits())
        rows = rows_of(pages[0][1])
        assert ["bar", "double"] in rows and note.endswith("; columns, and 100 of 500 rows")
        assert ["VK-0", "9", "2026-01-05", "2026-01-05 10:00:00", "TRUE", "3 bytes"] in rows
        assert ["VK-99", "", "2026-01-05", "2026-01-05 10:00:00", "TRUE", "3 bytes"] in rows
        assert "VK-100" not in pages[0][1]

    def test_without_rows_and_in_the_limited_child(self):
        data = self.made(pa.table({"part": pa.array([], pa.string())}))
        assert "| part | string |" in parsed(data, "parquet").pages[0][1]

    @pytest.mark.parametrize("cut", [0, 4, 100, -1, -20])
    def test_a_torn_file_is_refused(self, cut):
        data = self.made(pa.table({"part": ["a"] * 1000}))[:cut]
        assert parsed(data, "parquet").note.startswith("not a readable Parquet file")


def test_of_an_embedding_three_numbers_stand_there():
    line = b'{"text": "zebra", "vector": [0.10, ' + b"-0.5, " * 384 + b'1], "few": [1, 2.50]}'
    assert text_of(line, "jsonl") == (
        "text: zebra · vector: 0.10, -0.5, -0.5, … (386 numbers) · few: 1, 2.50"
    )
