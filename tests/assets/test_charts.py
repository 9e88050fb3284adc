"""Foreign text in Dagster's Markdown stays text, and its small charts add up."""

import hypothesis.strategies as st
from hypothesis import given
from markdown_it import MarkdownIt

from ragstream_assets.metadata import WIDTH, bar, bars, bullets, inline

HOSTILE = st.text(alphabet="`~![]()<>\n #*_-|ax:/\u202e", max_size=60)
ACTIVE = {"image", "link_open", "html_inline", "html_block", "heading_open", "table_open"}


def kinds(markdown: str) -> set[str]:
    """Return the kinds of all nodes, as GitHub's dialect with tables and bare links reads them."""
    tokens = MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(markdown)
    return {t.type for token in tokens for t in (token, *(token.children or ()))}


@given(HOSTILE, HOSTILE)
def test_nothing_foreign_becomes_active(title, text):
    for made in (inline(title), bullets([title, text])):
        assert not kinds(made) & ACTIVE


def test_an_image_would_be_active_without_it():
    assert "image" in kinds("![](http://elsewhere.example/x.png)")


@given(st.floats(0, 1e9), st.floats(1e-3, 1e9))
def test_a_bar_never_outgrows_its_column(value, largest):
    assert len(bar(min(value, largest), largest)) <= WIDTH
    assert bar(0, largest) == "" and len(bar(largest, largest)) == WIDTH


def test_rows_become_a_table():
    made = bars([("retrieval", 12.5), ("gate", 0.0)], name="stage", unit="ms")
    assert "table_open" in kinds(made)
    assert made.splitlines()[2].startswith("| retrieval | 12.5 | ████")
    assert made.splitlines()[3] == "| gate | 0 |  |"
