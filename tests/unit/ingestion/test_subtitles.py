"""Subtitles: whole sentences with their times, whatever the cues cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ingestion.office_files import parsed, text_of


def srt(text, kind="srt"):
    return text_of(text if isinstance(text, bytes) else text.encode(), kind)


class TestSentences:
    def test_cues_are_joined_to_sentences(self):
        text = (
            "1\n00:00:01,000 --> 00:00:03,000\n<i>The valve</i> opens\n\n2\n00:00:03,100 --> "
            "00:00:05,000\n{\\an8}at 9 bar.\n\n3\n01:01:05,000 --> 01:01:06,000\nNever\n\n"
            "\n4\n01:02:00,000 --> 01:02:01,000\nat &lt; 2.\n"
        )
        assert srt(text) == (
            "[00:00:01] The valve opens at 9 bar.\n\n[01:01:05] Never\n\n[01:02:00] at < 2."
        )

    def test_speakers_remarks_names_and_short_times_of_webvtt(self):
        text = (
            "WEBVTT - Title\n\nSTYLE\n::cue { color: red }\n\nintro\n"
            "00:01.000 --> 00:03.000 line:0\n"
            "<v Ann Bell>It opens</v>\n\nNOTE made\nby hand\n\n00:03.000 --> 00:04.000\n"
            "<v.loud Bob>When?\n"
        )
        assert srt(text, "vtt") == "[00:00:01] Ann Bell: It opens\n\n[00:00:03] Bob: When?"

    def test_rolling_captions_say_each_line_once(self):
        text = (
            "WEBVTT\n\n00:01.000 --> 00:02.000\nit opens<00:00:01.200><c> at</c>\n\n"
            "00:02.000 --> 00:02.010\nit opens at\n\n00:02.010 --> 00:03.000\nit opens at\n"
            "nine<00:00:02.200><c> bar.</c>\n"
        )
        assert srt(text, "vtt") == "[00:00:01] it opens at nine bar."
        twice = "1\n00:00:01,000 --> 00:00:02,000\nNo.\n\n2\n00:00:02,000 --> 00:00:03,000\nNo.\n"
        assert srt(twice).count("No.") == 2

    def test_numbers_that_are_said_stay(self):
        text = (
            "1\n00:00:01,000 --> 00:00:02,000\n9\nbar\n\n2\n00:00:02,000 --> 00:00:03,000\nis 7\n"
        )
        assert srt(text) == "[00:00:01] 9 bar is 7"

    @given(st.lists(st.text('ab .?"-19<>&', min_size=1), min_size=1, max_size=8))
    def test_no_word_is_lost(self, texts):
        cues = [
            f"{n}\n00:00:{n:02},000 --> 00:00:{n + 1:02},000\nw{n}x {text.replace('<', '(')}\n\n"
            for n, text in enumerate(texts)
        ]
        made = srt("".join(cues))
        assert all(f"w{n}x" in made for n in range(len(texts)))

    def test_old_encodings_and_what_holds_none(self):
        assert "café" in srt("1\n00:00:01,000 --> 00:00:02,000\ncafé\n".encode("cp1252"))
        plain = parsed(b"Ann: just words.\n\nBob: more.\n", "srt")
        assert plain.pages == ((0, "Ann: just words.\n\nBob: more.\n"),)
        assert "no line with two times: read as text" in plain.note
        assert "binary" in parsed(b"\0\1\2", "vtt").note

    @pytest.mark.parametrize(
        "hostile", ["<" * 200_000, "{\\" * 100_000, "9:" * 100_000, "\n" * 200_000]
    )
    def test_long_lines_take_no_time(self, hostile):
        text = f"1\n00:00:01,000 --> 00:00:02,000\nkept {hostile}\n"
        assert "kept" in parsed(text.encode(), "srt", cpu_s=5).pages[0][1]
