"""Rich Text Format: what a word processor shows of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.ingestion.parsers.child import tidy
from ragstream_core.ingestion.parsers.engines import Limits
from ragstream_core.ingestion.parsers.office import read_office
from tests.unit.ingestion.office_files import parsed, rows_of, text_of

HEAD = (
    rb"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fswiss\fcharset0 Arial;}"
    rb"{\f1\fnil\fcharset204{\*\fname Arial;}Arial Cyr;}{\f2\fcharset128 MS Mincho;}}"
    rb"{\colortbl;\red0\green0\blue0;}{\stylesheet{\s1\outlinelevel0 Big;}{\s2 heading 2;}}"
    rb"{\info{\author Nobody}}{\*\generator Word;}"
)


def rtf(body):
    return text_of(HEAD + body + b"}", "rtf")


class TestText:
    def test_paragraphs_signs_and_headings(self):
        body = (
            rb"\pard\s1 Pumps\par\pard\s2 Limits\par\pard Opens at 9\~bar\emdash never"
            b"\r\n at\\tab 10.\\line New \\{line\\}.\\par\\par Done"
        )
        assert rtf(body) == (
            "# Pumps\n\n## Limits\n\nOpens at 9 bar—never at 10.\nNew {line}.\n\nDone"
        )

    def test_bytes_are_those_of_the_font(self):
        body = rb"caf\'e9 \'80 {\f1\'cf\'f0\'e8\'e2\'e5\'f2} {\f2\'83\'7c\'83\'93\'83\'76} \'fcber"
        assert rtf(body) == "café € Привет ポンプ über"

    @settings(deadline=None)
    @given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1))
    def test_unicode_characters_come_as_they_are_whatever_stands_for_them(self, text):
        units = text.encode("utf-16-le")
        words = (int.from_bytes(units[n : n + 2], "little", signed=True)
                 for n in range(0, len(units), 2))  # fmt: skip
        body = "".join(rf"\u{word}\'3f" if n % 2 else rf"\u{word}?" for n, word in enumerate(words))
        assert tidy(rtf(body.encode())) == text

    def test_hidden_deleted_and_program_text_is_left_out_results_stay(self):
        body = (
            rb"a{\v hidden}{\deleted gone} {\field{\*\fldinst HYPERLINK x}{\fldrslt link}}"
            rb"{\*\unknown secret}{\pict\wmetafile8 0102ff}{\*\shppict{\pict ffd8}}"
            b"{\\pict\\bin5 {}}\\\\ z}{\\*\\annotation why?}"
            rb"{\object{\*\objdata 00}{\result chart}}"
        )
        data = HEAD + body + b"}"
        assert text_of(data, "rtf") == "a linkchart"
        assert read_office(data, "rtf", Limits())[1].endswith("; comments left out: 1")

    def test_raised_digits_and_notes_and_margins_in_their_place(self):
        body = (
            rb"{\header Confidential\par}{\footer Form 12}10{\super 6} Pa, well"
            rb"{\super\chftn}{\footnote\pard {\super\chftn} Of 2024.\par Or so.}.\par End"
        )
        assert rtf(body) == ("Confidential\n\nForm 12\n\n10^6 Pa, well [ Of 2024.\nOr so.].\n\nEnd")

    def test_tables_keep_their_rows(self):
        row = rb"\trowd\cellx100\cellx200\pard\intbl %b\cell %b\cell\row"
        made = rtf(rb"Above\par" + row % (b"Part", b"Bar") + row % (b"VK-1", rb"9\par 10")
                   + rb"\pard Below")  # fmt: skip
        assert rows_of(made) == [["Part", "Bar"], ["VK-1", "9 10"]]
        assert made.startswith("Above\n\n|") and made.endswith("|\n\nBelow")


WORDS = [
    b"{", b"}", rb"\par ", rb"\cell ", rb"\row ", rb"\trowd ", rb"\cellx1 ", rb"\intbl ",
    rb"\pard ", rb"\footnote ", rb"\header ", rb"\f1 ", rb"\u-9 ", rb"\*", b"word ", rb"\'e9",
    rb"\super ",
    rb"\stylesheet ", rb"\fonttbl ", rb"\outlinelevel0 ", rb"\v ",
]  # fmt: skip


class TestBroken:
    def test_what_is_no_rtf_is_refused(self):
        assert parsed(b"Just words", "rtf").note == "not a readable RTF file"
        assert parsed(b"{\\rtf1}", "rtf").note == "holds no text"

    @pytest.mark.parametrize("body", [b"{" * 200_000, b"}" * 200_000, b"\\", b"\\'", b"\\bin99 x"])
    def test_braces_without_end_and_torn_words_lose_nothing_before(self, body):
        assert "kept" in parsed(HEAD + rb"kept\par " + body, "rtf").pages[0][1]

    def test_numbers_out_of_range_are_harmless(self):
        body = rb"\u9999999999 ?\f-1 \ansicpg0 \fcharset999999 \outlinelevel99 a\par b"
        assert "b" in rtf(body)

    @settings(deadline=None, max_examples=200)
    @given(st.lists(st.sampled_from(WORDS), max_size=40))
    def test_any_order_of_words_is_read(self, parts):
        assert "kept" in text_of(HEAD + b"kept\\par " + b"".join(parts), "rtf")
