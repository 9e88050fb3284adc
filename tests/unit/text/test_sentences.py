import time

import pytest

from ragstream_core.text.sentences import sentence_spans


def sentences(text):
    return [text[a:b] for a, b in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It works! Does it? Yes.", ["It works!", "Does it?", "Yes."]),
        ("Use v1.2 of file.ext. Then stop.", ["Use v1.2 of file.ext.", "Then stop."]),
        (
            "Dr. Smith came, e.g. on Monday. He left.",
            ["Dr. Smith came, e.g. on Monday.", "He left."],
        ),
        ("See Fig. 3 and No. 4. Done.", ["See Fig. 3 and No. 4.", "Done."]),
        ("She said no. Then left.", ["She said no.", "Then left."]),
        ("J. R. Smith of the U.S. Army.", ["J. R. Smith of the U.S. Army."]),
        ("1. First item. Second.\n2. Other", ["1. First item.", "Second.", "2. Other"]),
        ("- a\n- b", ["- a", "- b"]),
        ("# Title\nText. More.", ["# Title", "Text.", "More."]),
        ('He said "stop." She did.', ['He said "stop."', "She did."]),
        ("これは文です。次の文。", ["これは文です。", "次の文。"]),
        ("```py\nx = 1. Y\n\ny = 2\n```\nEnd.", ["```py", "x = 1. Y", "y = 2", "```", "End."]),
        ("first thing\nsecond thing", ["first thing", "second thing"]),
        (" \n\t", []),
        ("...", ["..."]),
    ],
)
def test_boundaries(text, expected):
    assert sentences(text) == expected


def test_wrapped_prose_is_not_cut_at_the_margin():
    text = "This line is long enough to have been wrapped at the margin of a\nPage. Next one."
    assert sentences(text) == [text[: text.index("Page.") + 5], "Next one."]


@pytest.mark.parametrize("unit", [".", " ", '."', "a. ", "*", "A. ", "\"'", "`", "。", "(.", '. "'])
def test_a_hundred_kilobytes_take_no_time(unit):
    text = unit * (100_000 // len(unit))
    begin = time.process_time()
    sentence_spans(text)
    assert time.process_time() - begin < 30  # quadratic rules take minutes
