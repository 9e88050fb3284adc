"""What is remembered is what would be computed; long texts are not held."""

from ragstream_core.prompts.fences import normalise, quote_lines
from ragstream_core.text.memo import REMEMBERED_CHARS, remembered


def test_a_short_text_is_read_once_and_a_long_one_each_time():
    read = []
    upper = remembered(lambda text: read.append(text) or text.upper())
    short, long = "a" * REMEMBERED_CHARS, "a" * (REMEMBERED_CHARS + 1)
    for text in (short, short, long, long):
        assert upper(text) == text.upper()
    assert read == [short, long, long]


def test_what_somebody_does_with_quoted_lines_changes_no_later_ones():
    first = quote_lines("one\r\ntwo\u202e")
    first.append("forged")
    assert quote_lines("one\r\ntwo\u202e") == ["| one", "| two"]
    assert normalise("one\r\ntwo\u202e").dropped == {"bidi": 1}
