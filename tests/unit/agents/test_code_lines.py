"""What is quoted of programs: values, errors, fields, and the sentences that people wrote."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.agents.context.code_lines import read_program
from ragstream_core.agents.context.passage_selection import stemmed_terms
from ragstream_core.agents.context.quotable import quotes_of
from ragstream_core.agents.context.shown import readable
from ragstream_core.records import Chunk

PYTHON = '''"""Keeps files whole: a reader sees the old bytes or the new ones."""

import os

RETRIES = 3
"""How often a write is tried again."""


class Store:
    """Holds the files of one project."""

    limit: int = 40

    def replace(self, path, data):
        """Put the bytes under a path.

        Args:
            path: Where the file is, or where it will be.

        Raises:
            OSError: Disk full, permission denied; the old file is untouched.
        """
        local = 3
        # A second writer would see half of the bytes otherwise.
        raise StoreError("the disk is full")
'''


def quotes(text, name="a.py"):
    return quotes_of(Chunk("c", name, text, (0, len(text)), {}), 0, stemmed_terms)


def test_values_errors_fields_and_sentences_are_quoted_under_what_they_belong_to():
    found = {q.text: q.heading for q in quotes(PYTHON)}
    assert found == {
        "Keeps files whole: a reader sees the old bytes or the new ones.": "",
        "RETRIES = 3": "",
        "How often a write is tried again.": "",
        "class Store:": "",
        "Holds the files of one project.": "Store",
        "limit: int = 40": "Store",
        "def replace(self, path, data):": "Store",
        "Put the bytes under a path.": "replace",
        "path: Where the file is, or where it will be.": "replace",
        "OSError: Disk full, permission denied; the old file is untouched.": "replace",
        "A second writer would see half of the bytes otherwise.": "replace",
        'raise StoreError("the disk is full")': "Store replace",
    }


def test_what_is_said_of_a_constant_helps_to_find_it():
    (value,) = [q for q in quotes(PYTHON) if q.text == "RETRIES = 3"]
    assert set(stemmed_terms("often write tried again")) <= value.context


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("a.ts", "export const MAX_ROWS = 40;\n", "export const MAX_ROWS = 40;"),
        ("a.go", "const MaxRows = 40\n", "const MaxRows = 40"),
        ("a.rs", "pub const MAX_ROWS: u32 = 40;\n", "pub const MAX_ROWS: u32 = 40;"),
        ("a.c", "#define MAX_ROWS 40\n", "#define MAX_ROWS 40"),
        ("a.java", "public class A {\n    static final int ROWS = 40;\n}\n", None),
    ],
)
def test_values_of_other_languages(name, text, value):
    assert value is None or value in [q.text for q in quotes(text, name)]


def test_a_part_of_a_program_may_begin_inside_a_docstring():
    text = 'Says how long a lock is held at most.\n    """\n    x = 1\n\nMAX = 2\n'
    assert [q.text for q in quotes(text)] == ["Says how long a lock is held at most.", "MAX = 2"]


@pytest.mark.parametrize(
    "comment",
    ["# kept small so that nothing overflows in winter", "# The limit was measured in winter."],
)
def test_a_comment_below_a_docstring_is_none_of_its_sentences(comment):
    doc = "Return how long the gate of the pump stays open."
    text = f'def gate():\n    """{doc}"""\n    {comment}\n    return 5\n'
    assert doc in [q.text for q in quotes(text)]
    assert (comment[2:] in [q.text for q in quotes(text)]) == comment.endswith(".")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PYTHON.split("\n")), max_size=30))
def test_every_quote_is_verbatim_and_no_offset_moves(lines):
    text = "\n".join(lines)
    program = read_program(text)
    assert [len(prose) for prose in program.prose] == [len(text)] * 2
    for quote in quotes(text):
        assert quote.text in readable(text)
        assert readable(text[slice(*quote.span)]) == quote.text or "#" in text
