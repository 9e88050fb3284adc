from ragstream_core.text.headings import MAX_TITLE, HeadingIndex, find_headings, heading_path


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
