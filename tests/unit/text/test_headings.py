import pytest

from ragstream_core.text.headings import (
    MAX_TITLE,
    HeadingIndex,
    find_headings,
    front_matter_end,
    heading_path,
    titled,
)


def test_paths_in_markdown():
    text = "intro\n# A #\ntext\n## B\n```\n# not a heading\n```\nbody\n### C#\nx\n## D\nlast"
    index = HeadingIndex(text, file_type="md")
    assert index.path_at(0) == ""
    assert index.path_at(text.index("text")) == "A"
    assert index.path_at(text.index("body")) == "A > B"
    assert index.path_at(text.index("### C#")) == "A > B > C#"
    assert index.path_at(len(text)) == "A > D"
    assert heading_path(text, text.index("last")) == "A > D"


def test_underlined_headings_and_front_matter():
    text = "---\ntitle: x\n---\nTitle\n=====\n\nSub\n---\nbody\n\n| a |\n---\n"
    assert [(h.level, h.title) for h in find_headings(text, file_type=".MD")] == [
        (0, "x"),
        (1, "Title"),
        (2, "Sub"),
    ]


def test_restructured_text_levels_follow_their_first_use():
    text = (
        "=====\nGuide\n=====\n\nPart\n----\n\nbody\n\nDeep\n~~~~\n\nx\n\nPart 2\n------\n\nlast\n"
    )
    index = HeadingIndex(text, file_type="rst")
    assert index.path_at(text.index("body")) == "Guide > Part"
    assert index.path_at(text.index("\nx\n")) == "Guide > Part > Deep"
    assert index.path_at(text.index("last")) == "Guide > Part 2"
    assert index.headings[0].start == 0


def test_other_types_have_no_headings():
    assert HeadingIndex("# A\ntext", file_type="py").path_at(5) == ""


def test_a_whole_paragraph_above_dashes_is_a_heading_of_bounded_length():
    text = "word " * 4_000 + "\n---\n\n## Below\n\nSome words.\n"
    path = HeadingIndex(text, file_type="md").path_at(text.index("Below") - 5)
    assert path.startswith("word word") and path.endswith("word…")
    assert len(path) <= MAX_TITLE
    assert find_headings(text, file_type="md")[0].title == ("word " * 4_000).strip()


PLAIN = """PUMP HOUSE
==========

1. PUMPS

There are three.

2. FAN WARRANTY

2.1 Exceptions

None of them.

Steps:

1. Open the valve

2. Close the valve

3. Go home

SAFETY
Never open the door.

The end of the story

is a line.
"""


def test_titles_of_a_plain_text_are_headings_and_lists_are_none():
    titles = [(h.level, h.title) for h in find_headings(PLAIN, file_type="txt")]
    assert titles == [
        (1, "PUMP HOUSE"), (2, "1. PUMPS"), (2, "2. FAN WARRANTY"), (3, "2.1 Exceptions"),
        (2, "SAFETY"),
    ]  # fmt: skip
    path = heading_path(PLAIN, PLAIN.index("None of"), file_type="txt")
    assert path == "PUMP HOUSE > 2. FAN WARRANTY > 2.1 Exceptions"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_front_matter_is_left_out_whatever_ends_its_lines(end):
    text = end.join(["---", "title: A", "# a comment", "tags: [b]", "---", "# Title", "", "Words."])
    assert [h.title for h in find_headings(text, file_type="md")] == ["A", "Title"]
    assert front_matter_end(text) == text.index("# Title")


def test_a_rule_at_the_beginning_hides_no_headings():
    text = "---\n\nWords of a text.\n\n# One\n\n---\n\n# Two\n"
    assert [h.title for h in find_headings(text, file_type="md")] == ["One", "Two"]


@pytest.mark.parametrize(
    ("front", "path"),
    [
        ("title: Pump K-20", "Pump K-20"),
        ('title: "Pump: K-20"', "Pump: K-20"),
        ("aliases: [Big Bertha, 'the grey one']", "Big Bertha, the grey one"),
        ("title: Pump\naliases:\n  - Big Bertha\n- Grey\ntags: [x]", "Pump (Big Bertha, Grey)"),
        ("alias: Big Bertha", "Big Bertha"),
        ("aliases:\n  - /old/address\ntags: [x]", ""),
        ("subtitle: no title\nkeywords: x", ""),
        ("title: >-\n  folded", ""),
    ],
)
def test_what_front_matter_calls_a_text_stands_above_all_its_headings(front, path):
    text = f"---\n{front}\n---\n\nFirst.\n\n## Sub\n\nSecond.\n"
    assert heading_path(text, text.index("First")) == path
    assert heading_path(text, text.index("Second")) == f"{path} > Sub".removeprefix(" > ")


def test_a_title_that_the_text_begins_with_comes_once():
    text = "---\ntitle: Pump\naliases: [Bertha]\n---\n# Pump\n\nFirst.\n"
    assert heading_path(text, text.index("First")) == "Bertha > Pump"
    assert heading_path(text.replace("aliases: [Bertha]\n", ""), 30) == "Pump"


def test_a_title_above_a_path_comes_once():
    assert titled("Pump", "Service") == "Pump > Service"
    assert titled("Pump", "pump (Bertha) > Service") == "pump (Bertha) > Service"
    assert titled("Pump", "Pumps > Service") == "Pump > Pumps > Service"
    assert (titled("", "A"), titled("Pump", "")) == ("A", "Pump")
