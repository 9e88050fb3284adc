"""The rendering of answers: whatever a model writes, however the stream is cut, it stays text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ragstream_app.output.markup import literal
from ragstream_core.text.markup import TAGS, answer_html
from tests.app.hostile_answers import HOST, PAYLOADS, read

AROUND = [
    "{}", "Before it.\n\n{}\n\nAfter it.", "- item {}", "> {}", "| a |\n|---|\n| {} |",
    "3. {}", "**bold {} bold**", "```\n{}", "    {}", "Title {}\n===",
]  # fmt: skip


def test_there_are_enough_payloads():
    assert len(set(PAYLOADS)) >= 40


@pytest.mark.parametrize("payload", PAYLOADS)
def test_every_prefix_of_every_payload_is_plain_structure(payload):
    for around in AROUND:
        text = around.format(payload)
        for end in range(len(text) + 1):
            read(answer_html(text[:end]))


@pytest.mark.parametrize("payload", [p for p in PAYLOADS if not p.startswith('```"')])
def test_the_reader_sees_every_address_instead_of_its_being_fetched(payload):
    assert read(answer_html(payload)).count(HOST) == payload.count(HOST)


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*PAYLOADS, "\n", "\n\n", "`", "```", "  ", "- ", "> ", "1. ",
                                 "|", "<", ">", "&", '"', "*", "_", "~~", "\\", "[", "](", "!"]),
                max_size=12), st.integers(0, 10_000))  # fmt: skip
def test_any_mixture_cut_anywhere_is_plain_structure(parts, end):
    read(answer_html("".join(parts)[:end]))


@settings(max_examples=300)
@given(st.text())
def test_any_text_is_plain_structure_and_no_unseen_character_is_left(text):
    shown = read(answer_html(text))
    assert not any(c in shown for c in "\x00\x1b\x9b\u202e\u2066\u200f")


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Z"))))
def test_a_block_of_code_is_shown_as_it_is(text):
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("~"))
    assert read(answer_html(f"~~~~\n{code}\n~~~~")).rstrip("\n") == code.rstrip("\n")


def test_what_answers_are_made_of_is_drawn():
    drawn = answer_html(
        "# T\n\nA **b** *c* `d < e` ~~f~~  \ng\n\n- h\n\n> i\n\n```py\nj\n```\n\n"
        "3. k\n4. l\n\n---\n\n| m |\n|:-:|\n| n |"
    )
    for tag in TAGS - {"h2", "h3", "h4", "h5", "h6"}:
        assert f"<{tag}" in drawn, tag
    assert '<ol start="3">' in drawn and "<code>d &lt; e</code>" in drawn


def test_a_list_goes_on_where_a_block_of_code_interrupted_it():
    drawn = answer_html("1. a\n\n```\nx\n```\n\n2. b")
    assert "<ol><li>" in drawn and '<ol start="2">' in drawn


@given(st.text(min_size=1))
def test_a_label_is_one_piece_of_code(text):
    tokens = MarkdownIt().parseInline(literal(text))[0].children
    assert [token.type for token in tokens] == ["code_inline"]
