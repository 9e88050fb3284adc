"""The unit of a turn: dated speaker lines; long turns in pieces, each with its date and speaker."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstream_core.conversations.units import (
    UNITS_VERSION,
    TurnChunker,
    history_chunk_id,
    month_of,
    parse_history_chunk_id,
    timestamp_ns,
    turn_sha,
    unit,
)
from ragstream_core.text.chunk_profiles import chunk_profile
from ragstream_core.text.tokenizer import word_offsets
from tests.history_bench import turn

WHEN = "2026-10-05T14:07:31+02:00"
SENTENCE = "The brake noise was measured on the second road again. "


def size(text):
    return len(word_offsets(text))


def test_a_unit_is_a_dated_line_a_speaker():
    one = turn("What now?", "Wait.\nThen go.", timestamp=WHEN, speakers=("Ann", "Bot"))
    assert (
        unit(one)[0]
        == "[5 October 2026, 14:07] Ann: What now?\n[5 October 2026, 14:07] Bot: Wait.\nThen go."
    )


def test_who_said_nothing_has_no_line():
    assert unit(turn("Hi", "", timestamp=WHEN))[0] == "[5 October 2026, 14:07] user: Hi"
    assert unit(turn(" \n", " ", timestamp=WHEN))[0] == ""
    assert TurnChunker().pieces(turn("", "")) == []


def test_no_date_where_there_is_none():
    assert unit(turn("Hi", "", timestamp="some day"))[0] == "user: Hi"


def test_a_turn_that_fits_is_one_chunk():
    one = turn("short", "and short")
    (piece,) = TurnChunker().pieces(one)
    assert (piece.text, piece.start, piece.end) == (unit(one)[0], 0, len(unit(one)[0]))


def test_a_turn_that_does_not_fit_is_cut_by_speaker_first():
    one = turn(SENTENCE * 15, SENTENCE * 15, timestamp=WHEN)
    first, second = TurnChunker().pieces(one)
    assert first.text.startswith("[5 October 2026, 14:07] user: The")
    assert second.text.startswith("[5 October 2026, 14:07] assistant: The")
    assert max(size(first.text), size(second.text)) <= 250


def test_every_piece_of_a_long_line_has_its_date_and_speaker():
    one = turn("short", SENTENCE * 100, timestamp=WHEN)
    asked, *pieces = TurnChunker().pieces(one)
    assert asked.text == "[5 October 2026, 14:07] user: short" and len(pieces) > 4
    assert all(p.text.startswith("[5 October 2026, 14:07] assistant: The") for p in pieces)
    assert all(p.text.endswith("again.") for p in pieces)  # cut at sentences
    assert all(size(p.text) <= 200 + 20 for p in pieces)


def test_the_profile_is_the_documented_one():
    profile = chunk_profile("history_small")
    assert (profile.max_tokens, profile.overlap_tokens, profile.overlap) == (200, 20, "sentence")


def test_a_smaller_window_is_never_exceeded():
    chunker = TurnChunker(window=64)
    pieces = chunker.pieces(turn(SENTENCE * 30, SENTENCE * 30))
    assert len(pieces) > 10 and max(size(p.text) for p in pieces) <= 64


@settings(max_examples=120, deadline=None)
@given(
    user=st.text(max_size=600), assistant=st.text(max_size=600), names=st.text(max_size=90),
    window=st.sampled_from([40, 90, 250, 8000]), times=st.integers(1, 6),
)  # fmt: skip
def test_the_laws_of_pieces(user, assistant, names, window, times):
    one = turn(f"{user} " * times, f"{assistant} " * times, speakers=(names, "Bot"))
    chunker = TurnChunker(window=window)
    text, lines = unit(one)
    pieces = chunker.pieces(one)
    assert chunker.pieces(one) == pieces
    covered = set()
    for piece in pieces:
        part = text[piece.start : piece.end]
        (line,) = [x for x in lines if x.start <= piece.start < x.end] or [None]
        heading = text[line.start : line.said]
        assert piece.text == (part if piece.start == line.start else heading + part)
        covered.update(range(piece.start, piece.end))
        fits = size(heading) < chunker.limit // 2
        assert not fits or size(piece.text) <= chunker.limit
    assert all(text[i].isspace() for i in set(range(len(text))) - covered)
    starts = [piece.start for piece in pieces]
    assert starts == sorted(set(starts))


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True),
    st.integers(1),
    st.integers(0),
)
def test_ids_are_parsed_back(session, seq, idx):
    identifier = history_chunk_id(session, seq, seq, idx)
    assert re.fullmatch(r"history::[^:]+::\d+-\d+::\d+", identifier)
    assert parse_history_chunk_id(identifier) == (session, seq, seq, idx)


@pytest.mark.parametrize("text", ["", "a/b.md::" + "0" * 64 + "::0", "history::s::1::0"])
def test_what_is_no_history_id_is_refused(text):
    with pytest.raises(ValueError, match="history chunk id"):
        parse_history_chunk_id(text)


def test_times_are_exact_and_the_month_is_that_of_the_clock_on_the_wall():
    one = turn(timestamp="2026-11-01T00:30:00.123456+02:00")
    assert month_of(one) == "2026-11"
    assert timestamp_ns(one) == 1793485800123456000
    assert timestamp_ns(turn(timestamp="1969-12-31T23:59:59+00:00")) == -1_000_000_000


def test_the_digest_is_of_texts_and_speakers():
    one = turn("a", "b")
    assert turn_sha(one) == turn_sha(turn("a", "b", day=9, tags=("GOLD",)))
    assert (
        len({turn_sha(t) for t in (one, turn("ab", ""), turn("a", "b", speakers=("x", "y")))}) == 3
    )


def test_the_fingerprint_knows_model_limit_and_profile():
    other = TurnChunker(profile=chunk_profile("default"))
    prints = {TurnChunker().index_fp("m"), TurnChunker().index_fp("n"), other.index_fp("m")}
    prints.add(TurnChunker(window=90).index_fp("m"))
    assert len(prints) == 4
    assert TurnChunker(window=8000).index_fp("m") == TurnChunker(window=250).index_fp("m")


@pytest.mark.parametrize(("size", "unit"), [(60, "tokens"), (200, "characters")])
def test_size_overlap_and_unit_are_the_profiles(size, unit):
    profile = replace(
        chunk_profile("history_small"), max_tokens=size, overlap_tokens=size // 4, unit=unit
    )
    chunker = TurnChunker(profile=profile)
    count = len if unit == "characters" else lambda text: len(word_offsets(text))
    pieces = chunker.pieces(turn("Why?", "The pump runs at nine bar. " * 60))
    assert len(pieces) > 4
    assert all(count(piece.text) <= chunker.limit for piece in pieces)
    assert pieces[2].start < pieces[1].end  # whole sentences are repeated
    assert TurnChunker().index_fp("m") != chunker.index_fp("m")


def test_the_usual_sizes_have_the_fingerprint_they_always_had():
    assert TurnChunker(window=256).limit == 250
    assert "history-units-1 250 history_small 200/20 tokens sentence" in (
        f"history-units-{UNITS_VERSION} {TurnChunker().limit} {TurnChunker().profile.version}"
    )
