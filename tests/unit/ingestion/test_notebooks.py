"""Notebooks: texts, code and what it printed, of any version of the format."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers.engines import Limits, Refusal
from ragstream_core.ingestion.parsers.office import read_office
from ragstream_core.text.headings import HeadingIndex
from tests.unit.ingestion.office_files import parsed, rows_of, text_of

PYTHON = {"kernelspec": {"language": "python"}}


def notebook(*cells, metadata=PYTHON):
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4}).encode()


def words(text):
    return {"cell_type": "markdown", "source": text}


def code(source, *outputs):
    return {"cell_type": "code", "source": source, "outputs": outputs}


def shown(**forms):
    data = {name.replace("_", "/", 1): text for name, text in forms.items()}
    return {"output_type": "display_data", "data": data}


class TestCells:
    def test_texts_code_and_printed_lines_in_order(self):
        stream = {"output_type": "stream", "text": ["\x1b[31m9\x1b[0m bar\n", "1%\r50%\r100%\n"]}
        data = notebook(words(["# Pumps\n", "words"]), code("# no heading\nrun()", stream))
        assert text_of(data, "ipynb") == (
            "# Pumps\nwords\n\n```python\n# no heading\nrun()\n```\n\nOutput:\n\n"
            "```\n9 bar\n100%\n```"
        )

    def test_tables_errors_and_pictures(self):
        table = "<table><tr><th>part<th>bar<tr><td>VK-1<td>9</table>"
        drawn = shown(image_png="iVBOR", text_plain="<Figure size 640x480>")
        error = {"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": ["t"]}
        data = notebook(
            code("a", shown(text_html=table, text_plain="part bar")), code("b", drawn, error)
        )
        pages, note = read_office(data, "ipynb", Limits())
        assert rows_of(pages[0][1]) == [["part", "bar"], ["VK-1", "9"]]
        assert "Error: KeyError: 'x'" in pages[0][1] and note.endswith("pictures left out: 1")
        assert not [word for word in ("iVBOR", "Figure", "part bar") if word in pages[0][1]]

    def test_the_oldest_versions(self):
        old = {"worksheets": [{"cells": [
            {"cell_type": "heading", "level": 2, "source": "Limits"},
            {"cell_type": "code", "input": "x", "outputs": [{"text": ["9 bar"], "png": "iVBOR"}]},
        ]}], "metadata": {"language_info": None}}  # fmt: skip
        assert text_of(json.dumps(old).encode(), "ipynb") == (
            "## Limits\n\n```\nx\n```\n\nOutput:\n\n```\n9 bar\n```"
        )

    @given(st.lists(st.sampled_from(["```", "~~~~", "````py", "words", "# no"]), max_size=6))
    def test_no_cell_swallows_the_next(self, lines):
        source = "\n".join(lines)
        text = text_of(notebook(words(source), code(source), words("# After")), "ipynb")
        assert HeadingIndex(text, file_type="md").path_at(len(text) - 1) == "After"


class TestBroken:
    @pytest.mark.parametrize(
        "data", [b"", b"[" * 100_000, b"[]", b'{"cells": 3}', b'{"cells": [1, null]}', b"\xff"]
    )
    def test_what_is_no_notebook_is_refused(self, data):
        with pytest.raises(Refusal, match="not a readable notebook|holds no cells"):
            text_of(data, "ipynb")

    def test_fields_of_other_types_are_passed_over(self):
        cells = [
            {"cell_type": 1},
            code(["a", 3, None], {"data": 4}, {"text": 5}, {"ename": 1}),
            words({}),
        ]
        assert "```\na\n```" in text_of(notebook(*cells, metadata=[]), "ipynb")

    def test_a_huge_one_is_refused_with_its_reason(self):
        data = notebook(code("x", {"text": "9" * 3_000_000}))
        assert "holds more than" in parsed(data, "ipynb", text_bytes=1_000_000).note
